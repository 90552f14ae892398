/** Requests between services, sent to the real handler, because a fake could accept a request that the real one rejects. */
import assert from "node:assert/strict";
import type { JsonClient, JsonClientRequest, JsonClientResponse } from "@gateway/shared/http";
import { UnansweredRequests } from "../../shared/http/upstreams.ts";
import { ALONE } from "@gateway/shared/instances";
import { AppError } from "@gateway/shared/errors";
import { parseJson, stringifyJson } from "@gateway/shared/json";
import { ApprovalWaits } from "../../broker/authority/approval_wait.ts";
import { RemoteAuthority } from "../../broker/authority/remote.ts";
import { watchRevocations } from "../../broker/sessions/kill_switch.ts";
import { approvedRequest, forwardedRequest, SignerClient } from "../../control_plane/routes/signer_client.ts";
import { openMemoryStore } from "../../control_plane/testing/failing_control_store.ts";
import {
  type MemoryControlPlaneOptions,
  startControlPlane,
} from "../../control_plane/testing/memory_control_plane.ts";
import { createControlPlaneClient } from "../../ctl/bridge/control_plane_client.ts";
import { signRequest } from "@gateway/shared/wire";
import { HOST_KEY, ONE_SHOT, post, startSigner } from "../../signer/testing/memory_signer.ts";
import { createOperator } from "./ctl_signer_fixture.ts";
import { createMetrics } from "@gateway/shared/service/metrics";
import { run } from "./ctl_fixture.ts";
import { startServer } from "./mtls_fixture.ts";

type Client = Pick<JsonClient, "request">;
type Send = (request: Request) => Promise<Response>;

/** Calls a handler like a client over the network. */
function clientOf(send: Send): Client & { readonly asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    async request({ method, path, body, headers = {} }: JsonClientRequest): Promise<JsonClientResponse> {
      const response = await send(
        new Request(`https://service${path}`, {
          method,
          headers: { "content-type": "application/json", ...headers },
          ...(body !== undefined && { body: stringifyJson(body) }),
        }),
      );
      asked.push(`${method} ${path.replace(/\?.*/, "")} ${response.status}`);
      const text = await response.text();
      const isJson = /json/.test(response.headers.get("content-type") ?? "");
      const { status } = response;
      return {
        status,
        headers: Object.fromEntries(response.headers),
        text,
        body: isJson ? parseJson(text) : undefined,
      };
    },
  };
}

async function startBoth(options: MemoryControlPlaneOptions = {}) {
  const signer = await startSigner({ reload_callers: ["operator-local"] });
  const controlPlane = await startControlPlane({
    approval: {
      callers: ["approver-local"],
      timeout_seconds: 120,
      max_pending_per_caller: 10,
      approval_url_template: "https://cp:7443/ui/approvals/{id}",
    },
  }, options);
  const asSigner = clientOf((request) => signer.fetch(request, "control-plane"));
  controlPlane.signer.reply = async (request) => {
    const { status, headers, body } = await asSigner.request(request);
    return { status, headers: { etag: headers["etag"] ?? "" }, body };
  };
  const asPlane = (cn: string) =>
    clientOf(async (request) => {
      const { status, headers, text } = await controlPlane.send(request, cn);
      return new Response(text === "" ? null : text, { status, headers });
    });
  return { signer, controlPlane, asSigner, asPlane };
}

const GATED = { ...ONE_SHOT, command: "systemctl restart nginx" };

Deno.test("control plane to signer: the signer accepts each call of SignerClient", async () => {
  const { signer, asSigner } = await startBoth();
  const client = new SignerClient(asSigner);
  const request = (fields: object) =>
    forwardedRequest(signRequest.parse({ ...GATED, ...fields }), "broker-1");
  const issued = await client.sign(request({ command: "uptime" }));
  const { serial } = issued;
  assert.ok(serial !== undefined);
  const approval = { id: "ab".repeat(16), approver: "approver-local", learnTtlSeconds: 60 };
  const calls: Readonly<Record<string, () => Promise<unknown>>> = {
    sign: () => client.sign(approvedRequest(request({}), approval)),
    hosts: () => client.hosts("broker-1"),
    rules: () => client.rules("broker-1", ["web01"]),
    clusters: () => client.clusters("broker-1", true),
    revocations: () => client.revocations(),
    revokeSerials: () => client.revokeSerials("broker-1", { serials: [serial], reason: "session-frozen" }),
    revokeRequests: () => client.revokeRequests("broker-1", { request_ids: ["a-1"], reason: "answer-lost" }),
    reportSessions: () => client.reportSessions("broker-1", { instance: "0".repeat(16), sessions: [] }),
  };
  const methods = Object.getOwnPropertyNames(SignerClient.prototype).filter((name) => name !== "constructor");
  assert.deepEqual(Object.keys(calls).sort(), methods.sort());
  for (const call of Object.values(calls)) await call();
  assert.equal(signer.log.entries.filter(({ outcome }) => outcome === "approval-waiver-created").length, 1);
});

Deno.test("a certificate is revoked if another control plane collected the approval first", async () => {
  const store = openMemoryStore();
  const { signer, controlPlane } = await startBoth({ store, instances: { ...ALONE, isShared: true } });
  const id = await controlPlane.park({ command: GATED.command });
  assert.equal((await controlPlane.decide(id, { approve: true }, "approver-local")).status, 200);
  store.updateApproval = () => Promise.reject(new AppError("gone", "approval already used"));
  assert.equal((await controlPlane.poll(id)).status, 410);
  const { outcome, command } = signer.log.entries.at(-1) ?? {};
  assert.match(`${outcome} ${command}`, /^revoked revoked serial=\d+ reason=collected-elsewhere$/);
});

Deno.test("broker to control plane: the control plane and the signer behind it accept each call", async () => {
  const { controlPlane, signer, asPlane } = await startBoth();
  const client = asPlane("broker-1");
  const { clock } = controlPlane;
  const authority = new RemoteAuthority(client, new ApprovalWaits({ client, clock, seconds: 60 }));
  const { signal } = new AbortController();
  assert.deepEqual(Object.keys(await authority.hosts()), ["open01", "web01"]);
  assert.deepEqual(Object.keys(await authority.rules(["web01"], signal)), ["web01"]);
  assert.deepEqual(await authority.clusters(), {});
  const request = {
    ...ONE_SHOT,
    role: "target",
    purpose: "oneshot",
    public_key: HOST_KEY,
    end_user_groups: null,
  } as const;
  assert.equal((await authority.sign(request, { signal })).kind, "issued");
  let decided: Promise<unknown> | undefined;
  const onWaiting = (id: string) => {
    decided ??= controlPlane.decide(id, { approve: true }, "approver-local");
  };
  const waited = await authority.sign({ ...request, command: GATED.command }, { signal, onWaiting });
  await decided;
  assert.ok(waited.kind === "issued" && waited.waited);
  const freeze = { kind: "session_id", value: "0123456789abcdef", allow_volatile: true };
  assert.equal((await signer.send(post("/v1/freeze", freeze), "operator-local")).status, 200);
  const ended = new AbortController();
  const session = { id: freeze.value, caller: "ann", serial: waited.serial, otherSerials: [] };
  const watching = watchRevocations({
    signer: {
      request: (asked) => client.request(asked).finally(() => asked.method === "POST" && ended.abort()),
    },
    registry: { kill: (isFrozen) => Promise.resolve(void isFrozen(session as never)), reject: () => {} },
    ...{
      clock,
      seconds: 1,
      brokerCn: "broker-1",
      metrics: createMetrics(),
      logger: { warn: (message, fields) => assert.fail(`${message}: ${fields?.["error"]}`) },
    },
  }, ended.signal);
  await clock.advance(1_000);
  await watching;
  const told = Promise.withResolvers<void>();
  const lost = new UnansweredRequests({
    client: { request: (asked) => client.request(asked).finally(() => told.resolve()) },
    ...{ clock, signal },
  });
  lost.add({ method: "POST", path: "/v1/sign", headers: { "x-request-id": "a-1" } });
  await told.promise;
  assert.deepEqual([...new Set(client.asked.map((each) => each.replace(/result\/\w+/, "result/ID")))], [
    "GET /v1/hosts 200",
    "GET /v1/clusters 200",
    "POST /v1/sign 200",
    "POST /v1/sign 202",
    "GET /v1/sign/result/ID 200",
    "GET /v1/revocations 200",
    "POST /v1/revocations/serials 200",
    "POST /v1/revocations/requests 200",
  ]);
});

Deno.test("bridge to control plane: the bridge lists, approves, learns and denies", async () => {
  const { controlPlane, asPlane } = await startBoth();
  const bridge = createControlPlaneClient(asPlane("approver-local"));
  const ids = [];
  for (const name of ["a", "b", "c"]) {
    ids.push(await controlPlane.park({ command: `systemctl restart ${name}` }));
  }
  assert.deepEqual((await bridge.list()).map(({ id }) => id).sort(), ids.toSorted());
  const decision = { approve: true, learn: false, ttl_seconds: 0, comment: "Slack user U1 as ann" };
  await bridge.decide(ids[0] ?? "", decision);
  await bridge.decide(ids[1] ?? "", { ...decision, learn: true, ttl_seconds: 60 });
  await bridge.decide(ids[2] ?? "", { ...decision, approve: false });
  const statuses = [];
  for (const id of ids) statuses.push((await controlPlane.poll(id)).status);
  assert.deepEqual(statuses, [200, 200, 403]);
});

Deno.test("broker-ctl to signer and control plane: both accept what each remote command sends", async () => {
  const { controlPlane, signer } = await startBoth();
  const ids = [];
  for (const name of ["a", "b", "c"]) {
    ids.push(await controlPlane.park({ command: `systemctl restart ${name}` }));
  }
  await using server = await startServer(async (request, { caller }) => {
    if (caller === "operator-local") return await signer.fetch(request, caller);
    const { status, headers, text } = await controlPlane.send(request, caller);
    return new Response(text, { status, headers });
  });
  await using folder = await createOperator(server);
  const commands = [
    "host list --remote",
    "cluster list --remote",
    "reload",
    "policy add --host web01 --allow ^df$",
    "policy remove --host web01 --allow ^df$",
    "policy grant --host web01 --allow ^ls$ --ttl 2h",
    "policy grants",
    "session list",
    "session kill 0123456789abcdef01234567 --volatile",
    "freeze --end-user agent-7 --reason two_words --volatile",
    "revocations",
    "unfreeze --end-user agent-7",
    "revoke --serial 7 --reason INC-42",
    "revoke --key-id agent=a --reason INC-42",
    "approval list",
    `approval show ${ids[0]}`,
    `approval allow ${ids[0]} --reason fine`,
    `approval allow ${ids[1]} --learn --ttl 2h`,
    `approval deny ${ids[2]} --reason no`,
  ];
  for (const command of commands) {
    const { out, err, exit } = await run(
      folder.path,
      "--client-config",
      "client.json",
      ...command.split(" "),
    );
    assert.deepEqual([command, exit, err], [command, 0, ""], out);
  }
});
