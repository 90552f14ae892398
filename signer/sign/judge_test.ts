import assert from "node:assert/strict";
import { stringifyJson } from "@gateway/shared/json";
import { sampleCluster } from "@gateway/shared/testing";
import { actionFields } from "../testing/cluster_scene.ts";
import { FakeSecrets, startLeaseSigner } from "../testing/lease_scene.ts";
import { CONFIG, DISTINCT, post, startSigner } from "../testing/memory_signer.ts";
import { inRequest } from "@gateway/shared/service";
import { parseCertificate } from "@gateway/shared/ssh";

const { "broker-1": broker, "approver-broker": approver } = CONFIG.callers;
const { web01 } = CONFIG.hosts;
const FORWARDED = { on_behalf_of: "broker-1", end_user: "alice" };
const RESTART = { command: "systemctl restart nginx", approved: true };
const ANYBODY = { callers: { ...CONFIG.callers, _default: { allowed_groups: ["web"] } } };
const callers = (change: object) => ({
  callers: { ...CONFIG.callers, "broker-1": { ...broker, ...change } },
});
const host = (change: object) => ({ hosts: { ...CONFIG.hosts, web01: { ...web01, ...change } } });
const rules = (change: object) => host({ command_policy: { ...web01.command_policy, ...change } });
const cluster = (change: object) => ({
  kubernetes: { clusters: { prod: sampleCluster({ groups: ["web"], ...change }) } },
});

interface Gate {
  readonly gate: string;
  /** The peer; broker-1 by default. */
  readonly cn?: string;
  /** A request that the gate allows by the config at the start. */
  readonly fields?: Record<string, unknown>;
  /** The config by which the gate denies the request. */
  readonly change?: Record<string, unknown>;
  readonly freeze?: readonly [kind: string, value: string];
  readonly detail: RegExp;
  /** The error that the caller receives if the gate denies before anything is signed. */
  readonly early?: RegExp;
}

const FROZEN = /^subject is frozen$/;
const NOT_ITS_HOST = /^host not authorised$/;
const NOT_ITS_CALLER = /^caller "broker-1" not authorised/;
const UNAPPROVED = { detail: /^it now requires an approval$/, early: /^$/ };

const COMMON: readonly Gate[] = [
  {
    gate: "the forwarder",
    cn: "control-plane",
    fields: FORWARDED,
    change: { trusted_forwarders: [] },
    detail: /^on_behalf_of not allowed for this caller$/,
  },
  { gate: "a freeze of the caller", freeze: ["caller", "broker-1"], detail: FROZEN },
  {
    gate: "a freeze of the end user",
    fields: { end_user: "alice" },
    freeze: ["end_user", "alice"],
    detail: FROZEN,
  },
  {
    gate: "a freeze of the forwarder",
    cn: "control-plane",
    fields: FORWARDED,
    freeze: ["caller", "control-plane"],
    detail: FROZEN,
  },
  {
    gate: "require_verified_end_user",
    change: callers({ require_verified_end_user: true }),
    detail: /^its end users must now be verified$/,
    early: /^end-user identity could not be verified$/,
  },
  {
    gate: "krl_callers",
    cn: "reader",
    change: { ...ANYBODY, krl_callers: { reader: ["web01"] }, envelope_key: "envelope.key" },
    detail: /^callers in krl_callers may fetch the revocation list only$/,
  },
  {
    gate: "only_via",
    change: callers({ only_via: ["control-plane"] }),
    detail: /^direct requests not allowed for this caller$/,
  },
];

const GATES: readonly (Gate & { readonly target: string })[] = [
  ...COMMON.map((gate) => ({ ...gate, target: "a host" })),
  ...COMMON.map((gate) => ({
    ...gate,
    target: "a cluster",
    fields: { ...gate.fields, ...actionFields("get pods web/web-1") },
  })),
  ...[
    { gate: "the caller's groups", change: callers({ allowed_groups: ["db"] }), detail: NOT_ITS_HOST },
    { gate: "the list of hosts", change: { hosts: {} }, detail: NOT_ITS_HOST },
    { gate: "allowed_callers", change: host({ allowed_callers: ["broker-2"] }), detail: NOT_ITS_CALLER },
    { gate: "the command policy", change: rules({ allow: ["^id$"] }), detail: /allowlist/ },
    { gate: "require_approval", change: rules({ require_approval: ["^uptime$"] }), ...UNAPPROVED },
    {
      gate: "self_approve",
      cn: "approver-broker",
      fields: RESTART,
      change: { callers: { ...CONFIG.callers, "approver-broker": { ...approver, self_approve: false } } },
      ...UNAPPROVED,
    },
  ].map((gate) => ({ ...gate, target: "a host" })),
  ...[
    { gate: "the caller's groups", change: cluster({ groups: ["db"] }), detail: /^cluster not authorised$/ },
    { gate: "the list of clusters", change: { kubernetes: { clusters: {} } }, detail: /^unknown cluster$/ },
    { gate: "allowed_callers", change: cluster({ allowed_callers: ["broker-2"] }), detail: NOT_ITS_CALLER },
    {
      gate: "the rules",
      change: cluster({ rules: [{ verbs: ["list"], namespaces: ["web"], effect: "allow" }] }),
      detail: /^not allowed by cluster policy$/,
    },
  ].map((gate) => ({ ...gate, target: "a cluster", fields: actionFields("get pods web/web-1") })),
];

const start = () => startLeaseSigner({ config: ANYBODY });
type Signer = Awaited<ReturnType<typeof start>>;

async function close(signer: Signer, { change, freeze }: Gate): Promise<void> {
  if (freeze !== undefined) await signer.freeze(...freeze);
  if (change !== undefined) await signer.reload({ ...cluster({}), ...change });
}

const hasLeft = ({ body }: Awaited<ReturnType<Signer["sign"]>>) =>
  body.certificate !== undefined || body["k8s_token"] !== undefined;

Deno.test.each([...GATES])("judge() checks $gate of $target before it signs", async (gate) => {
  const signer = await start();
  assert.ok(hasLeft(await signer.sign(gate.fields ?? {}, gate.cn)), "the gate is open");
  await close(signer, gate);
  const answer = await signer.sign(gate.fields ?? {}, gate.cn);
  assert.match(answer.body.detail ?? "", gate.early ?? gate.detail);
  assert.equal(hasLeft(answer), false);
});

Deno.test.each([...GATES])(
  "judge() checks $gate of $target again before the response is sent",
  async (gate) => {
    const signer = await start();
    signer.log.onAppended = ({ outcome }) => outcome === "issued" ? close(signer, gate) : undefined;
    const answer = await signer.sign(gate.fields ?? {}, gate.cn);
    assert.match(answer.body.detail ?? "", gate.detail);
    assert.equal(hasLeft(answer), false);
    const { serial, outcome, addr } = signer.log.entries.at(-1) ?? {};
    assert.ok(addr);
    assert.equal(outcome, gate.freeze === undefined ? "denied" : "frozen_denied");
    assert.equal(serial, 0xfefefefefefefefen);
    await signer.leases.sweep();
    const isRevoked = signer.krl.listed.has({ serial: serial ?? 0n }) || signer.secrets.uids.size === 0;
    assert.ok(isRevoked);
  },
);

type SignerGivenUp = Awaited<ReturnType<typeof startSigner>>;

const BEHALF = { "x-on-behalf-of": "broker-1" };
const startGivenUp = (changes = {}) => startSigner(changes, { randomBytes: DISTINCT });
const sign = (signer: SignerGivenUp, id: string, fields: Record<string, unknown> = {}, cn = "broker-1") =>
  inRequest({ name: "POST", id }, () => signer.sign(fields, cn));
const giveUp = (signer: SignerGivenUp, ids: readonly string[], cn: string, headers = {}) =>
  signer.send(post("/v1/revocations/requests", { request_ids: ids, reason: "answer-lost" }, headers), cn);
const listed = ({ krl }: SignerGivenUp, serial: bigint | undefined) =>
  krl.listed.has({ serial: serial ?? 0n });

Deno.test("certificates of an abandoned request are revoked and recorded", async () => {
  const signer = await startGivenUp();
  const [lost, other] = [await sign(signer, "r-1"), await sign(signer, "r-2")];
  const { status, body } = await giveUp(signer, ["r-1", "r-9"], "broker-1");
  assert.equal(status, 200);
  assert.deepEqual(body, { status: "ok", revoked: 1, krl_version: signer.krl.current.version });
  assert.deepEqual([listed(signer, lost.body.serial), listed(signer, other.body.serial)], [true, false]);
  assert.deepEqual(
    signer.log.entries.slice(-3).map(({ caller, command, outcome }) => [caller, command, outcome]),
    ["request=r-1", "request=r-9", `serial=${lost.body.serial}`]
      .map((what) => ["broker-1", `revoked ${what} reason=answer-lost`, "revoked"]),
  );
  assert.equal((await giveUp(signer, ["r-1"], "broker-1")).body["revoked"], 0, "again");
});

Deno.test("a caller cannot abandon the requests of other callers", async () => {
  const signer = await startGivenUp();
  const { serial } = (await sign(signer, "r-1", { on_behalf_of: "broker-1" }, "control-plane")).body;
  for (const cn of ["approver-broker", "operator", "control-plane"]) {
    assert.equal((await giveUp(signer, ["r-1"], cn)).body["revoked"], 0, cn);
  }
  assert.equal((await giveUp(signer, ["r-1"], "approver-broker", BEHALF)).status, 403);
  assert.equal(listed(signer, serial), false);
  assert.equal((await giveUp(signer, ["r-1"], "control-plane", BEHALF)).body["revoked"], 1);
  assert.equal(listed(signer, serial), true);
});

Deno.test("a request that is abandoned before or during signing gets no certificate", async () => {
  const signer = await startGivenUp();
  await giveUp(signer, ["r-1"], "broker-1");
  const early = await sign(signer, "r-1");
  assert.deepEqual([early.status, early.body.certificate], [403, undefined]);
  signer.log.onAppended = ({ outcome }) =>
    outcome === "issued" ? giveUp(signer, ["r-2"], "broker-1") : undefined;
  const late = await sign(signer, "r-2");
  assert.deepEqual([late.status, late.body.certificate], [403, undefined]);
  const issued = signer.log.entries.filter(({ outcome }) => outcome === "issued");
  assert.deepEqual(issued.map(({ serial }) => listed(signer, serial)), [true, true]);
  assert.deepEqual(signer.log.entries.flatMap(({ err }) => err ?? []), [
    "the caller has given up this request",
    "revoked before it left",
  ]);
  assert.equal((await sign(signer, "r-3")).status, 200);
  assert.equal((await sign(signer, "r-1", {}, "approver-broker")).status, 200, "another caller's of that id");
});

Deno.test("a token of an abandoned request is revoked", async () => {
  const secrets = new FakeSecrets();
  const signer = await startLeaseSigner({ secrets });
  const fields = { ...actionFields("get pods web/web-1"), end_user: "alice" };
  assert.equal((await sign(signer, "r-1", fields)).status, 200);
  assert.equal(secrets.uids.size, 1);
  assert.equal((await giveUp(signer, ["r-1"], "broker-1")).status, 200);
  await signer.leases.close();
  assert.equal(secrets.uids.size, 0);
});

Deno.test("abandoning requests is limited per broker and revokes nothing that cannot be recorded", async () => {
  const signer = await startGivenUp({ sign_rate_limit_per_min: 1 });
  const { serial } = (await sign(signer, "r-1")).body;
  signer.log.failing = true;
  assert.equal((await giveUp(signer, ["r-1"], "broker-1")).body.code, "audit_unavailable");
  signer.log.failing = false;
  assert.equal(listed(signer, serial), false);
  const { status, headers } = await giveUp(signer, ["r-1"], "broker-1");
  assert.deepEqual([status, headers.get("retry-after") !== null], [429, true]);
  // An agent that disconnects repeatedly causes its broker to send this.
  const ofSession = post("/v1/revocations/serials", stringifyJson({ serials: [serial], reason: "" }));
  assert.equal((await signer.send(ofSession, "broker-1")).body["revoked"], 1);
});

Deno.test("a caller that abandoned too many requests gets 429, and no revocation is recorded", async () => {
  const signer = await startGivenUp();
  signer.krl.mayGiveUp = (caller, count) => caller !== "broker-1" && count === 1;
  const { status, headers } = await giveUp(signer, ["r-1"], "broker-1");
  assert.deepEqual([status, headers.get("retry-after")], [429, "60"]);
  assert.deepEqual(signer.log.entries.filter(({ outcome }) => outcome === "revoked"), []);
  assert.equal((await giveUp(signer, ["r-1"], "approver-broker")).status, 200);
});

const GATED = { callers: { "broker-1": { allowed_groups: ["web"], require_verified_end_user: true } } };
const OIDC = { issuer: "https://id.example", audience: "https://broker.example" };
const verifier = (groups: readonly string[] | null) => ({
  expireKeys() {},
  verify: (token: string) =>
    Promise.resolve(
      token === "good"
        ? { kind: "verified" as const, endUser: "alice", groups }
        : { kind: "refused" as const, reason: "signature invalid", code: "invalid_token" as const },
    ),
});

Deno.test("POST /v1/sign reads end user and groups of a gated caller only from the token (I13)", async () => {
  const parts = { endUsers: verifier(["web"]) };
  const signer = await startSigner({ ...GATED, end_user_oidc: OIDC }, { parts });
  const claimed = { end_user: "root", end_user_groups: ["db"], bearer_token: "good" };
  const { status, body } = await signer.sign(claimed);
  assert.equal(status, 200);
  assert.match(parseCertificate(String(body.certificate)).keyId, / user=alice$/);
  const recorded = signer.log.entries.map(({ command, err }) => [command, err]);
  assert.doesNotMatch(JSON.stringify(recorded), /good|root/);
});

Deno.test.each([
  { name: "without a token", request: {}, parts: { endUsers: verifier(["web"]) } },
  { name: "with a bad token", request: { bearer_token: "bad" }, parts: { endUsers: verifier(["web"]) } },
  { name: "without a verifier", request: { bearer_token: "good" }, parts: {} },
  {
    name: "with groups that no token confirms",
    request: { bearer_token: "good", end_user_groups: ["web"] },
    parts: { endUsers: verifier(null) },
  },
])("POST /v1/sign denies a gated caller $name", async ({ request, parts }) => {
  const signer = await startSigner(GATED, { parts });
  const { status, body } = await signer.sign(request);
  assert.deepEqual([status, body.detail], [403, "end-user identity could not be verified"]);
  const records = signer.log.entries.map(({ outcome, command_line }) => [outcome, command_line]);
  assert.deepEqual(records, [["end_user_unverified", "uptime"]]);
  assert.match(await signer.metrics.text(), /outcome="end-user-unverified"\} 1/);
});

Deno.test("POST /v1/sign denies every host to a verified end user in no group (I3)", async () => {
  const signer = await startSigner(GATED, { parts: { endUsers: verifier([]) } });
  assert.equal((await signer.sign({ bearer_token: "good" })).status, 403);
});

Deno.test("POST /v1/sign checks the freeze of the verified end user and not of the claimed one", async () => {
  const signer = await startSigner(GATED, { parts: { endUsers: verifier(["web"]) } });
  await signer.freeze("end_user", "alice");
  assert.equal((await signer.sign({ bearer_token: "good", end_user: "bob" })).body.code, "frozen");
});
