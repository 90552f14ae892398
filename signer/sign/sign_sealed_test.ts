import assert from "node:assert/strict";
import { createEnvelopeKey } from "@gateway/shared/envelope";
import { parseCertificate } from "@gateway/shared/ssh";
import { logEnvelopeKey, snapshotWarnings } from "../config/warnings.ts";
import { recorded } from "../testing/live_state_scene.ts";
import { CONFIG, DISTINCT, NOW_MS, snapshotOf, startSigner } from "../testing/memory_signer.ts";
import { AppError } from "@gateway/shared/errors";
import type { ApiAnswer } from "@gateway/shared/kubernetes";
import { answered, type Asked, MINTED, startClusterSigner, TOKEN } from "../testing/cluster_scene.ts";

const envelopeKey = createEnvelopeKey(new Uint8Array(32).fill(1));
const HOSTS = {
  ...CONFIG.hosts,
  sealed01: { ...CONFIG.hosts.web01, principal: "host:sealed01", sealed_exec: true, envelope: "v1" },
  sealed02: {
    ...{ ...CONFIG.hosts.open01, principal: "host:sealed02", sealed_exec: true },
    ...{ stop_on_disconnect: true, allow_pty: true, allow_as_bastion: true },
  },
  watched: {
    ...{ ...CONFIG.hosts.web01, principal: "host:watched", sealed_exec: true, envelope: "v1" },
    command_policy: { ...CONFIG.hosts.web01.command_policy, enforcement: "audit" },
  },
};
const SESSION = { purpose: "session", session_mode: "exec", command: "" };
const PREFLIGHT = { host: "sealed01", ...SESSION, command: "uptime", dry_run: true, preflight: true };

const SEALED = { hosts: HOSTS, envelope_key: "envelope.seed" };
const RESTART = { command: "systemctl restart nginx" };
const VIA = { on_behalf_of: "broker-1" };

const startSealed = (more: object = {}, randomBytes?: readonly number[]) =>
  startSigner({ ...SEALED, hosts: { ...HOSTS, ...more } }, {
    parts: { envelopeKey },
    ...(randomBytes && { randomBytes }),
  });
/** A snapshot of hosts with their envelope key. */
const sealedSnapshot = (hosts: object) =>
  snapshotOf({ ...CONFIG, hosts, envelope_key: "seed" }, { envelopeKey });

function commandIn(envelope: unknown): string {
  const [first = "", signature] = String(envelope).split(".");
  const text = new TextDecoder().decode(Uint8Array.fromBase64(first, { alphabet: "base64url" }));
  return signature === undefined ? JSON.parse(text).c : text.split("\n").slice(3).join("\n");
}

Deno.test("POST /v1/sign returns the command of a sealed preflight in an envelope valid for 30 seconds", async () => {
  const signer = await startSealed();
  const { status, body } = await signer.sign(PREFLIGHT);
  assert.equal(status, 200);
  assert.equal(body.decision?.["allowed"], true);
  const wire = Uint8Array.fromBase64(String(body["envelope"]), { alphabet: "base64url" });
  const { n, h, c, e } = JSON.parse(new TextDecoder().decode(wire));
  assert.deepEqual([n, h, c, e], ["fe".repeat(16), "sealed01", "uptime", NOW_MS / 1000 + 30]);
  assert.equal("certificate" in body, false);
  assert.equal(signer.log.entries.at(-1)?.outcome, "dry_run_allowed");
});

Deno.test.each([
  ["elevated as the shell gets it", { sudo: true }, "sudo -n -- uptime"],
  [
    "in v2, where that is what the host's shim understands",
    { host: "sealed02", command: "printf 'a\nb'" },
    undefined,
  ],
  ["under audit mode, though it would deny", { host: "watched", command: "id" }, "id"],
])("POST /v1/sign seals a command %s", async (_name, fields, command) => {
  const { body } = await (await startSealed()).sign({ ...PREFLIGHT, ...fields });
  assert.equal(typeof body["envelope"], "string", JSON.stringify(body));
  if (command !== undefined) return assert.equal(commandIn(body["envelope"]), command);
  assert.match(commandIn(body["envelope"]), /printf/);
  assert.notEqual(commandIn(body["envelope"]), fields.command, "it watches its standard input");
});

Deno.test("POST /v1/sign writes the permitted stdin into a v3 envelope", async () => {
  const changes = { principal: "host:sealed03", envelope: "v3", allow_file_transfer: true };
  const signer = await startSealed({ sealed03: { ...HOSTS.sealed01, ...changes } });
  const digest = "ab".repeat(32);
  const stdins = [];
  for (const fields of [{}, { content_sha256: digest }, { content_sha256: digest, file_transfer: true }]) {
    const { body } = await signer.sign({ ...PREFLIGHT, host: "sealed03", ...fields });
    const [prefix, message = ""] = String(body["envelope"]).split(".");
    const text = new TextDecoder().decode(Uint8Array.fromBase64(message, { alphabet: "base64url" }));
    stdins.push([prefix, ...text.split("\n").slice(3)]);
  }
  assert.deepEqual(stdins, [["v3", "none", "uptime"], ["v3", "none", "uptime"], ["v3", digest, "uptime"]]);
});

Deno.test.each([
  ["a pure dry run", { preflight: false }],
  ["a session's opening", { dry_run: false, preflight: false, command: "" }],
  ["a preflight that is not a dry run", { dry_run: false }],
  ["a preflight without a command", { command: "" }],
  ["a denied command", { command: "id" }],
  ["a command that waits for a human", RESTART],
  ["such a command with the claim of an approval", { ...RESTART, approved: true }],
  ["a one-shot", { purpose: "oneshot", session_mode: "" }],
  ["a bastion", { host: "sealed02", role: "bastion" }],
  ["a host that is not sealed", { host: "web01" }],
])("POST /v1/sign returns no envelope for %s", async (_name, fields) => {
  const signer = await startSealed();
  for (const cn of ["broker-1", "approver-broker"]) {
    const { body } = await signer.sign({ ...PREFLIGHT, ...fields }, cn);
    assert.equal("envelope" in body, false);
  }
});

Deno.test("POST /v1/sign returns no envelope for an approved preflight of a control plane", async () => {
  const fields = { ...PREFLIGHT, ...RESTART, ...VIA, approved: true };
  const { body } = await (await startSealed()).sign(fields, "control-plane");
  assert.equal(body.decision?.["require_approval"], true);
  assert.equal("envelope" in body, false);
});

Deno.test("POST /v1/sign returns an envelope for a command whose approval is waived", async () => {
  const signer = await startSealed();
  const oneShot = { ...PREFLIGHT, purpose: "oneshot", session_mode: "", dry_run: false, preflight: false };
  const learned = { approved: true, learn_ttl_seconds: 60, learn_approver: "boss", learn_approval_id: "a1" };
  const command = { ...RESTART, ...VIA };
  const issued = await signer.sign({ ...oneShot, ...command, ...learned }, "control-plane");
  assert.equal(typeof issued.body.certificate, "string");
  const { body } = await signer.sign({ ...PREFLIGHT, ...command }, "control-plane");
  assert.equal(commandIn(body["envelope"]), RESTART.command);
});

Deno.test("POST /v1/sign returns a new envelope for every preflight", async () => {
  const signer = await startSealed({}, DISTINCT);
  const nonces = new Set<unknown>();
  for (let n = 0; n < 5; n++) nonces.add((await signer.sign(PREFLIGHT)).body["envelope"]);
  assert.equal(nonces.size, 5);
});

Deno.test("POST /v1/sign locks the certificate of a sealed host's session to its shim", async () => {
  const { body } = await (await startSealed()).sign({ host: "sealed01", ...SESSION, sudo: true });
  const certificate = parseCertificate(String(body.certificate));
  assert.equal(certificate.criticalOptions["force-command"], "gateway-shim sealed01");
  assert.equal(body["elevation_prefix"], "sudo -n");
});

Deno.test.each([{ session_mode: "shell" }, { session_mode: "pty", pty: true }, { session_mode: "" }])(
  "POST /v1/sign denies $session_mode on a sealed host, even without rules",
  async (fields) => {
    const { status, body } = await (await startSealed()).sign({ host: "sealed02", ...SESSION, ...fields });
    assert.equal(status, 403);
    assert.match(String(body.detail), /has sealed_exec: sessions require mode="exec"/);
  },
);

Deno.test("an envelope is withheld if its record cannot be written or its caller is frozen meanwhile", async () => {
  const signer = await startSealed();
  signer.log.failing = true;
  const { status, body } = await signer.sign(PREFLIGHT);
  assert.equal(status, 500);
  assert.equal("envelope" in body, false);
  signer.log.failing = false;
  const freeze = { kind: "caller", value: "broker-1", reason: "", frozenBy: "operator" } as const;
  signer.log.onAppended = ({ outcome }) =>
    outcome === "dry_run_allowed" ? signer.live.freeze(freeze, recorded) : undefined;
  const frozen = await signer.sign(PREFLIGHT);
  assert.equal(frozen.body.code, "frozen");
  assert.equal("envelope" in frozen.body, false);
});

Deno.test("a sealed host without envelope_key causes a load error with the host's name", () => {
  assert.throws(
    () => snapshotOf({ ...CONFIG, hosts: HOSTS }),
    /hosts\.sealed01\.sealed_exec: needs envelope_key[^]*hosts\.sealed02\.sealed_exec/,
  );
  assert.ok(snapshotOf({ ...CONFIG, hosts: { web01: { ...CONFIG.hosts.web01, sealed_exec: false } } }));
});

Deno.test("an unsealed name of a sealed account and shared principals cause warnings", () => {
  const { web01 } = CONFIG.hosts;
  const hosts = {
    web01: { ...web01, shared_principal: true },
    sealed01: { ...web01, shared_principal: true, sealed_exec: true },
  };
  const warnings = snapshotWarnings(sealedSnapshot(hosts));
  assert.ok(warnings.some((text) => text.startsWith("hosts.web01: is not sealed, but has the account of")));
  assert.ok(warnings.some((text) => text.startsWith('2 hosts share the principal "host:web01"')));
});

Deno.test("the envelope public key is logged only if a host is sealed", () => {
  const logged: unknown[] = [];
  const logger = { info: (message: string, fields?: unknown) => void logged.push([message, fields]) };
  logEnvelopeKey(sealedSnapshot(CONFIG.hosts), logger);
  assert.deepEqual(logged, []);
  logEnvelopeKey(sealedSnapshot(HOSTS), logger);
  assert.deepEqual(logged, [["envelope public key", {
    envelope_public_key: "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=",
    envelope_signers: 'signer namespaces="gateway-sealed-exec-v2,gateway-sealed-exec-v3" ssh-ed25519 ' +
      "AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c",
  }]]);
});

Deno.test("a sealed host without envelope causes a warning that explains how to set v1", () => {
  const { envelope: _, ...silent } = HOSTS.sealed01;
  const warningsOf = (sealed01: object) =>
    snapshotWarnings(sealedSnapshot({ ...HOSTS, sealed01 }))
      .filter((text) => text.startsWith("sealed_exec without envelope")).join();
  assert.match(warningsOf(silent), /hosts sealed01[,)].*set "envelope": "v1" and its "envelope_domain"/);
  assert.doesNotMatch(warningsOf({ ...silent, envelope: "v2" }), /sealed01/);
});

Deno.test("POST /v1/sign withholds an envelope if a reload requires approval meanwhile, even if already approved", async () => {
  const signer = await startSealed();
  const { sealed01 } = HOSTS;
  const command_policy = { ...sealed01.command_policy, require_approval: ["^uptime$"] };
  const changes = { ...SEALED, hosts: { ...HOSTS, sealed01: { ...sealed01, command_policy } } };
  signer.log.onAppended = ({ outcome }) =>
    outcome === "dry_run_allowed" ? signer.reload(changes, { envelopeKey }) : undefined;
  const fields = { ...PREFLIGHT, ...VIA, approved: true };
  const { body } = await signer.sign(fields, "control-plane");
  assert.deepEqual([body.detail, body["envelope"]], ["it now requires an approval", undefined]);
});

const APPLY = "apply deployments.apps web/api";
const MANIFEST = '{ "spec": {"replicas": 3} }';
const PATH = "/apis/apps/v1/namespaces/web/deployments/api";
const ASKED = { on_behalf_of: "broker-1", end_user: "alice", k8s_manifest: MANIFEST };

const replying = (get: ApiAnswer, patch: ApiAnswer) => ({ method, path }: Asked) =>
  path.endsWith("/token") ? MINTED : method === "GET" ? get : patch;

async function ask(get: ApiAnswer, patch: ApiAnswer, changes: object = {}, cn = "control-plane") {
  const signer = await startClusterSigner({ reply: replying(get, patch) });
  const { status, body } = await signer.act(APPLY, { ...ASKED, ...changes }, cn);
  assert.equal(status, 200);
  assert.equal(body["k8s_token"], undefined);
  return { ...signer, diff: body["k8s_diff"], body };
}

const CHANGED = { kind: "changed", changes: [{ path: "spec.replicas", before: "2", after: "3" }] };
const unknown = (reason: string) => ({ kind: "unknown", reason });
const live = (replicas: number) => answered(200, { kind: "Deployment", spec: { replicas } });
const refused = (status: number, message: string) => answered(status, { kind: "Status", message });

Deno.test("an approver gets the changes of an apply, computed with the account's rights", async () => {
  const { diff, asked, log, body } = await ask(live(2), live(3));
  assert.equal(body.decision?.["require_approval"], true);
  assert.equal((body["target"] as { user: string }).user, "system:serviceaccount:gateway:agent");
  assert.deepEqual(diff, CHANGED);
  const path = `${PATH}?fieldManager=gateway&dryRun=All`;
  assert.deepEqual(asked.slice(1), [
    { cluster: "prod", method: "GET", path: PATH, token: TOKEN, body: undefined },
    { cluster: "prod", method: "PATCH", path, token: TOKEN, body: MANIFEST },
  ]);
  assert.deepEqual(log.entries.map(({ outcome }) => outcome), ["approval-required"]);
  assert.equal(log.entries[0]?.jti, "id-1", "its uses are explained");
});

const HTML = answered(200, "<h1>");

Deno.test.each<[name: string, get: ApiAnswer, patch: ApiAnswer, diff: unknown]>([
  ["a new object", refused(404, "not found"), answered(201, {}), { kind: "created" }],
  ["nothing", live(3), live(3), { kind: "unchanged" }],
  [
    "what the account may not read",
    refused(403, "deployments is forbidden"),
    live(3),
    unknown("the object cannot be read: 403 deployments is forbidden"),
  ],
  [
    "an API server that hangs",
    { kind: "timed_out" },
    live(3),
    unknown("the API server did not return a usable answer"),
  ],
  ["an API server that answers HTML", HTML, HTML, unknown("the API server's answer is not an object")],
])("a difference of %s", async (_name, get, patch, diff) => {
  assert.deepEqual((await ask(get, patch)).diff, diff);
});

Deno.test("a preflight returns the difference of an apply to a control plane that needs its own approval", async () => {
  const { diff, body, log } = await ask(live(2), live(3), { dry_run: true, preflight: true });
  assert.deepEqual(diff, CHANGED);
  assert.equal(body.serial, undefined);
  assert.deepEqual(log.entries.map(({ outcome }) => outcome), ["dry_run_allowed"]);
});

Deno.test.each<{ name: string; changes?: Record<string, unknown>; cn?: string }>([
  { name: "in a dry run", changes: { dry_run: true } },
  { name: "without its manifest", changes: { k8s_manifest: "" } },
  { name: "of a broker in its own name", changes: { on_behalf_of: "" }, cn: "broker-1" },
])("an apply $name has no difference, and no token is created for it", async ({ changes, cn }) => {
  const { diff, asked } = await ask(live(2), live(3), changes, cn);
  assert.deepEqual([diff, asked], [undefined, []]);
});

Deno.test("an apply without a possible token goes to the approver with the reason", async () => {
  const signer = await startClusterSigner({ reply: () => refused(401, "Unauthorized") });
  const { status, body } = await signer.act(APPLY, ASKED, "control-plane");
  assert.equal(status, 200);
  const why = "the API server rejects the credential in token_file; renew it";
  assert.deepEqual(body["k8s_diff"], unknown(`minting token for gateway/agent on "prod": ${why}`));
});

Deno.test("the record of a failed preview contains the ID of its token", async () => {
  const reply = ({ path }: Asked) => {
    if (path.endsWith("/token")) return MINTED;
    throw new AppError("canceled", "the signer is stopping");
  };
  const { act, log } = await startClusterSigner({ reply });
  const { body } = await act(APPLY, ASKED, "control-plane");
  assert.deepEqual(body["k8s_diff"], unknown("the signer is stopping"));
  assert.equal(log.entries[0]?.jti, "id-1");
});

Deno.test.each([{ dry_run: false }, { dry_run: true, preflight: true }])(
  "an apply with a conflict is rejected before an approval, with the fields and their manager: $dry_run",
  async (changes) => {
    const message = 'Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas';
    const signer = await startClusterSigner({ reply: replying(live(2), refused(409, message)) });
    const { status, body } = await signer.act(APPLY, { ...ASKED, ...changes }, "control-plane");
    assert.deepEqual([status, body.code, body["k8s_diff"]], [400, "invalid_request", undefined]);
    const why = `the apply would fail: 409 ${message}`;
    const remedy = "remove these fields from the manifest, or list all of them in force_fields";
    assert.equal(body.detail, `${why}; ${remedy}`);
    const [{ outcome, err, jti } = {}] = signer.log.entries;
    assert.deepEqual([outcome, err, jti], [changes.dry_run ? "dry_run_denied" : "denied", why, "id-1"]);
  },
);

Deno.test("an apply with force_fields always requires approval, and is rejected if other fields conflict", async () => {
  const conflict = answered(409, {
    kind: "Status",
    message: "Apply failed",
    details: { causes: [{ reason: "FieldManagerConflict", field: ".spec.replicas" }] },
  });
  const act = async (fields: readonly string[], changes: Record<string, unknown> = {}) => {
    const reply = (asked: Asked) =>
      replying(live(2), asked.path.endsWith("&force=true") ? live(3) : conflict)(asked);
    const signer = await startClusterSigner({ reply });
    const asked = { ...ASKED, k8s_force_fields: fields, ...changes };
    return { ...await signer.act(APPLY, asked, "control-plane"), log: signer.log };
  };
  const { body, log } = await act([".spec.replicas", ".spec.paused"]);
  assert.deepEqual([body.decision?.["require_approval"], body.decision?.["force"]], [true, true]);
  assert.deepEqual(body["k8s_diff"], CHANGED);
  assert.match(String(log.entries[0]?.warning), /^force_fields=".spec.replicas,.spec.paused"$/);
  const other = await act([".spec.paused"]);
  assert.equal(other.status, 400);
  assert.match(String(other.body.detail), /; force_fields: \["\.spec\.replicas"\]; remove these fields/);
  const approved = await act([".spec.replicas"], { approved: true, learn_ttl_seconds: 60 });
  assert.equal(approved.body["k8s_token"], TOKEN);
  const outcomes = approved.log.entries.map(({ outcome }) => outcome);
  assert.deepEqual(outcomes, ["issued"], "nothing is learned of it");
  assert.equal((await act([".a"], { k8s_manifest: "" })).status, 400);
});
