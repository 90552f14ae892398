import assert from "node:assert/strict";
import { AuditGate } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import type { ApiAnswer, ClusterApi } from "@gateway/shared/kubernetes";
import { encodeOpensshPrivateKey } from "@gateway/shared/ssh";
import { FakeClock, FixedRandom, MemoryAuditLog, sampleCluster } from "@gateway/shared/testing";
import type { TokenRequest } from "./authority.ts";
import { compileLocalPolicy, LocalAuthority } from "./local.ts";
import { connect, replying, ScriptedSigner } from "../testing/scripted_signer.ts";

const SERIAL = 0xfefefefefefefefen;
const { signal } = new AbortController();

const REQUEST: TokenRequest = {
  host: "prod",
  role: "target",
  purpose: "oneshot",
  command: "get pods web/web-1",
  target_type: "k8s",
  k8s_verb: "get",
  k8s_resource: "pods",
  k8s_namespace: "web",
  k8s_name: "web-1",
  end_user: "agent-1",
  end_user_groups: null,
};

const answered = (status: number, body: unknown): ApiAnswer => ({
  kind: "answered",
  status,
  headers: {},
  text: JSON.stringify(body),
});
const MADE = answered(201, { status: { token: "t", expirationTimestamp: "2026-01-02T03:04:05Z" } });

function createClusters(answer: ApiAnswer = MADE, keys: Parameters<typeof sampleCluster>[0] = {}) {
  const log = new MemoryAuditLog();
  const asked: Parameters<ClusterApi["request"]>[] = [];
  const clusters = new LocalAuthority({
    policy: compileLocalPolicy({
      hosts: {},
      kubernetes: { clusters: { prod: sampleCluster(keys) } },
      command_policies: {},
      group_command_policies: {},
      max_ttl_seconds: 300,
      source_address: "",
    }),
    cas: new Map([["prod", "PEM"]]),
    api: {
      request: (...args) => {
        asked.push(args);
        return Promise.resolve(answer);
      },
      close() {},
    },
    clock: new FakeClock(),
    random: new FixedRandom([0xfe]),
    events: new AuditGate({ log, failMode: "closed", onAppendFailure() {}, onBlocked() {} }),
    caKeys: {
      fallback: parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32), "ca")),
      byGroup: new Map(),
    },
  });
  const token = (changes: Partial<TokenRequest> = {}) =>
    clusters.token({ ...REQUEST, ...changes }, { signal });
  return { clusters, token, asked, log };
}

Deno.test("LocalAuthority.clusters() lists the configured clusters and describes their rules in words", async () => {
  assert.deepEqual(await createClusters().clusters.clusters(), {
    prod: {
      api_server: "https://10.0.0.5:6443",
      ca_cert_pem: "PEM",
      policy: [
        "get, list, logs: any resource in namespace web",
        "apply, delete: any resource in namespace web; a human has to approve",
        "some of this is denied; denied actions are not shown",
      ],
    },
  });
});

Deno.test("LocalAuthority.token() creates an allowed token and records it before returning it", async () => {
  const { token, asked, log } = createClusters();
  const answer = await token();
  assert.equal(answer.kind === "issued" && answer.token, "t");
  assert.equal(answer.kind === "issued" && answer.serial, SERIAL);
  assert.equal(asked[0]?.[1].path, "/api/v1/namespaces/gateway/serviceaccounts/agent/token");
  assert.equal(asked[0]?.[1].token, undefined, "with the credential of token_file");
  const [record] = log.entries;
  assert.deepEqual(
    [record?.caller, record?.host, record?.outcome, record?.serial, record?.target_type],
    ["local", "https://10.0.0.5:6443", "issued", SERIAL, "k8s"],
  );
  assert.match(record?.command ?? "", /^target=k8s verb=get resource=pods ns=web name=web-1/);
});

Deno.test("LocalAuthority.token() returns no token if the audit log fails", async () => {
  const { token, log } = createClusters();
  log.failing = true;
  await assert.rejects(token(), (error) => error instanceof AppError && error.code === "audit_unavailable");
});

Deno.test.each<[name: string, changes: Partial<TokenRequest>, status: number, detail: RegExp]>([
  ["another cluster", { host: "toString" }, 403, /^unknown cluster$/],
  [
    "what no rule allows",
    { command: "get pods db/web-1", k8s_namespace: "db" },
    403,
    /^not allowed by cluster policy$/,
  ],
  ["another command in the response", { command: "get pods web/web-2" }, 400, /canonical form/],
  ["an end user that would forge a record", { end_user: "a outcome=issued" }, 400, /invalid end_user/],
])(
  "LocalAuthority.token() rejects %s without a request to the cluster",
  async (_name, changes, status, detail) => {
    const { token, asked } = createClusters();
    const answer = await token(changes);
    assert.ok(answer.kind === "rejected", answer.kind);
    assert.equal(answer.status, status);
    assert.match(answer.detail, detail);
    assert.deepEqual(asked, []);
  },
);

Deno.test("LocalAuthority.token() ignores an approval in the request", async () => {
  const { token, asked } = createClusters();
  const apply = { command: "apply pods web/web-1", k8s_verb: "apply", approved: true } as const;
  assert.equal((await token(apply)).kind, "needs_approval");
  assert.deepEqual(asked, []);
});

Deno.test("LocalAuthority.token() returns the decision of a dry run and creates no token", async () => {
  const { token, asked, log } = createClusters();
  const allowed = await token({ dry_run: true });
  assert.equal(allowed.kind === "decided" && allowed.decision.allowed, true);
  const denied = await token({ dry_run: true, command: "get pods db/web-1", k8s_namespace: "db" });
  assert.equal(denied.kind === "decided" && denied.decision.reason, "not allowed by cluster policy");
  assert.deepEqual([asked, log.entries], [[], []]);
});

Deno.test("LocalAuthority.token() reports rejections and failures of the API server", async () => {
  const refused = await createClusters(answered(401, {})).token();
  assert.match(
    refused.kind === "rejected" ? refused.detail : "",
    /rejects the credential in token_file; renew it$/,
  );
  await assert.rejects(createClusters({ kind: "timed_out" }).token(), /did not answer in time$/);
  await assert.rejects(createClusters(answered(201, {})).token(), /there is no token/);
});

const { signal: signalRemote } = new AbortController();
const options = { signal: signalRemote };
const tokenRequest = {
  host: "prod",
  role: "target",
  purpose: "oneshot",
  command: "get pods prod/web-1",
  target_type: "k8s",
  end_user_groups: null,
} as const;

Deno.test("RemoteAuthority.token() posts the request unchanged and returns the token", async () => {
  const decision = { allowed: true, matched_rule: "allow:x", reveal: true };
  const { signer, authority } = replying(200, { k8s_token: "t", k8s_token_expiry: "x", serial: 7, decision });
  assert.deepEqual(await authority.token(tokenRequest, options), {
    kind: "issued",
    token: "t",
    serial: 7n,
    decision,
    waited: false,
  });
  assert.deepEqual(signer.requests, [{
    method: "POST",
    path: "/v1/sign",
    body: tokenRequest,
    signal: signalRemote,
  }]);
});

Deno.test.each([
  { name: "no token", body: { serial: 7, decision: { allowed: true } }, message: /returned no token$/ },
  { name: "a certificate", body: { certificate: "c", serial: 7 }, message: /returned no token$/ },
  { name: "a token without a serial", body: { k8s_token: "t" }, message: /returned no token$/ },
  { name: "an empty token", body: { k8s_token: "", serial: 7 }, message: /a token that is not one$/ },
  {
    name: "a token that would begin another header",
    body: { k8s_token: "t\r\nx: y", serial: 7 },
    message: /a token that is not one$/,
  },
  {
    name: "a denial with a token",
    body: { k8s_token: "t", serial: 7, decision: { allowed: false } },
    message: /returned a denial as an answer$/,
  },
])("RemoteAuthority.token() fails if the signer returns $name", async ({ body, message }) => {
  const { authority } = replying(200, body);
  await assert.rejects(authority.token(tokenRequest, options), message);
});

Deno.test("RemoteAuthority.token() returns the decision of a dry run without a token", async () => {
  const { authority } = replying(200, { decision: { allowed: true }, k8s_token: "t", serial: 7 });
  const answer = await authority.token({ ...tokenRequest, dry_run: true }, options);
  assert.deepEqual(answer, { kind: "decided", decision: { allowed: true } });
});

Deno.test("RemoteAuthority.token() waits for an approval without sending a public key", async () => {
  const signer = new ScriptedSigner((count) =>
    count === 0
      ? { status: 202, body: { approval_id: "id-1" }, text: "" }
      : { status: 200, body: { k8s_token: "t", serial: 7 }, text: "" }
  );
  const answer = await connect(signer, 60).token(tokenRequest, options);
  assert.deepEqual(answer, { kind: "issued", token: "t", serial: 7n, decision: undefined, waited: true });
  assert.equal(signer.requests[1]?.path, "/v1/sign/result/id-1?wait=8");
});

Deno.test("RemoteAuthority.clusters() returns the same object while the list is unchanged", async () => {
  const cluster = { api_server: "https://10.0.0.5:6443", ca_cert_pem: "PEM" };
  const { authority } = replying(200, { prod: cluster });
  const clusters = await authority.clusters();
  assert.deepEqual(clusters, { prod: cluster });
  assert.equal(await authority.clusters(), clusters);
});

Deno.test("RemoteAuthority.clusters() returns an empty list on 404 and rejects an invalid list", async () => {
  assert.deepEqual(await replying(404, { detail: "not found" }).authority.clusters(), {});
  assert.deepEqual(await replying(200, {}).authority.clusters(), {});
  await assert.rejects(replying(200, { prod: {} }).authority.clusters(), /not a cluster list$/);
  await assert.rejects(
    replying(403, { code: "frozen", detail: "subject is frozen" }).authority.clusters(),
    (error) => error instanceof AppError && error.code === "frozen",
  );
});
