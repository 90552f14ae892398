import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { actionFields, EXPIRY, MINTED, startClusterSigner, TOKEN } from "../testing/cluster_scene.ts";
import { post } from "../testing/memory_signer.ts";

const GET = "get pods web/web-1";
const APPLY = "apply deployments.apps web/api";
const MANIFEST = '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"api"}}';
const DIGEST = createHash("sha256").update(MANIFEST).digest("hex");
const GET_RULE = "allow:^(?:get|list|logs) (?:[^ ]+) (?:web)/(?:[^ ]+)$";
const APPLY_RULE = "require_approval:^(?:apply|delete) (?:[^ ]+) (?:web)/(?:[^ ]+)$";

Deno.test("POST /v1/sign for a cluster returns a token of the bound account and records its ID", async () => {
  const signer = await startClusterSigner();
  const { status, body } = await signer.act(GET, { end_user: "alice", reason: "ticket 42" });
  assert.equal(status, 200);
  assert.deepEqual(body, {
    serial: 0xfefefefefefefefen,
    k8s_token: TOKEN,
    k8s_token_expiry: EXPIRY,
    decision: { allowed: true, matched_rule: GET_RULE, ttl_seconds: 600, enforcement: "enforce" },
  });
  assert.deepEqual(signer.asked, [{
    cluster: "prod",
    method: "POST",
    path: "/api/v1/namespaces/gateway/serviceaccounts/agent/token",
    token: undefined,
    body: {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: 600 },
    },
  }]);
  assert.deepEqual(signer.log.entries, [{
    caller: "broker-1",
    host: "https://10.0.0.5:6443",
    command: "target=k8s verb=get resource=pods ns=web name=web-1 user=alice",
    command_line: GET,
    host_name: "prod",
    addr: "https://10.0.0.5:6443",
    content_sha256: "",
    decision: '{"outcome":"allowed","groups":null}',
    session_id: "",
    reason: "ticket 42",
    jti: "id-1",
    target_type: "k8s",
    policy_rule: GET_RULE,
    outcome: "issued",
    serial: 0xfefefefefefefefen,
  }]);
});

Deno.test("POST /v1/sign for a cluster ignores host fields and the client's k8s_group", async () => {
  const signer = await startClusterSigner();
  const noise = { role: "x", purpose: "x", session_mode: "x", sudo: true, pty: true, file_transfer: true };
  const { status } = await signer.act("get deployments.apps web/api", { ...noise, k8s_group: "" });
  assert.equal(status, 200);
  assert.match(String(signer.log.entries[0]?.command), / resource=deployments\.apps /);
});

Deno.test("POST /v1/sign drops the namespace of a cluster-wide resource before it is compared", async () => {
  const rules = [{ verbs: ["get"], resources: ["nodes"], effect: "allow" as const }];
  const signer = await startClusterSigner({ cluster: { rules } });
  assert.equal((await signer.act("get nodes -/node-1", { k8s_namespace: "web" })).status, 200);
  assert.equal((await signer.act("get nodes web/node-1")).status, 400);
});

type Fields = Record<string, unknown>;
const of = (action: string): Fields => actionFields(action);

// The fields change `get pods web/web-1`.
Deno.test.each<[name: string, fields: Fields & { cn?: string }, detail: string]>([
  ["an unknown cluster", { host: "gone" }, "unknown cluster"],
  ["a caller without its group", { cn: "stranger" }, "cluster not authorised"],
  ["an unknown verb", of("exec pods web/web-1"), 'unknown k8s verb "exec"'],
  [
    "an upper-case resource",
    of("get Pods web/web-1"),
    'invalid k8s resource "Pods" (lowercase RFC 1123 label)',
  ],
  [
    "a resource with a slash",
    { k8s_resource: "pods/exec" },
    'invalid k8s resource "pods/exec" (lowercase RFC 1123 label)',
  ],
  ...["a..b", "../x", "a%2fb", "a".repeat(254)].map((k8s_name): [string, Fields, string] => [
    `the name ${k8s_name}`,
    { k8s_name },
    `invalid k8s object name "${k8s_name}"`,
  ]),
  ["a namespace with a dot", { k8s_namespace: "a.b" }, 'invalid k8s namespace "a.b"'],
  ["a group that is a path", { k8s_group: "apps/v1" }, 'invalid k8s api group "apps/v1"'],
  ["a list with a name", of("list pods web/web-1"), 'k8s list takes no object name (got "web-1")'],
  ["a get without a name", of("get pods web/-"), "k8s get requires an object name"],
  ["logs without a namespace", of("logs pods -/web-1"), "k8s logs requires a namespace"],
  [
    "logs of what has none",
    of("logs deployments.apps web/api"),
    'k8s logs are of pods, not of "deployments"',
  ],
  [
    "an unknown resource",
    of("get widgets web/w"),
    `unknown k8s resource "widgets": not in the core table nor this cluster's extra_resources`,
  ],
  [
    "a resource of another group",
    of("get pods.apps web/web-1"),
    'k8s resource "pods" belongs to group "", not "apps"',
  ],
  [
    "a user in none of the cluster's groups",
    { end_user: "alice", end_user_groups: [] },
    'user "alice" not authorised for "prod" (groups)',
  ],
  ["an action that no rule allows", of("get pods db/db-1"), "not allowed by cluster policy"],
  ["an action that a rule denies", of("delete secrets web/key"), "not allowed by cluster policy"],
])("POST /v1/sign for a cluster rejects %s", async (_name, { cn, ...fields }, detail) => {
  const signer = await startClusterSigner();
  const denied = await signer.act(GET, fields, cn);
  assert.deepEqual([denied.status, denied.body.code, denied.body.detail], [403, "denied", detail]);
  assert.deepEqual(signer.asked, []);
  const records = signer.log.entries.map(({ outcome, err, target_type }) => [outcome, err, target_type]);
  assert.deepEqual(records, [["denied", detail, "k8s"]]);
});

Deno.test.each<{ name: string; changes: Record<string, unknown>; detail: RegExp }>([
  { name: "another action", changes: { command: "list pods web/-" }, detail: /not the canonical form/ },
  { name: "the action without its group", changes: { command: "" }, detail: /not the canonical form/ },
  { name: "an additional space", changes: { command: `${GET} ` }, detail: /not the canonical form/ },
  { name: "a manifest for a get", changes: { k8s_manifest: "{}" }, detail: /goes with the verb apply alone/ },
  { name: "a space in a field", changes: { k8s_name: "a b" }, detail: /^invalid k8s_name: / },
])("POST /v1/sign with $name returns 400, also in a dry run", async ({ changes, detail }) => {
  for (const dry_run of [false, true]) {
    const signer = await startClusterSigner();
    const { status, body } = await signer.act(GET, { ...changes, dry_run });
    assert.equal(status, 400);
    assert.match(String(body.detail), detail);
    assert.deepEqual(signer.asked, []);
  }
});

Deno.test("a dry run for a cluster returns a decision and issues no token", async () => {
  const signer = await startClusterSigner();
  const { body } = await signer.act(APPLY, { dry_run: true, approved: true }, "control-plane");
  assert.equal(body.code, "denied", "a forwarder as itself has no group");
  const dryRun = { dry_run: true, on_behalf_of: "broker-1", approved: true };
  const gated = await signer.act(APPLY, dryRun, "control-plane");
  const decision = { allowed: true, require_approval: true, matched_rule: APPLY_RULE, ttl_seconds: 600 };
  assert.deepEqual(gated.body, { decision: { ...decision, enforcement: "enforce" } });
  assert.deepEqual(signer.asked, []);
  assert.equal(signer.log.entries.at(-1)?.outcome, "dry_run_allowed");
});

const BY_POLICY = { reason: "not allowed by cluster policy", enforcement: "enforce" };

Deno.test.each<{ name: string; action: string; decision: Record<string, unknown> }>([
  {
    name: "if no rule matches",
    action: "get pods db/db-1",
    decision: { ...BY_POLICY, matched_rule: "allowlist:no-match" },
  },
  { name: "where a rule denies, without its pattern", action: "delete secrets web/key", decision: BY_POLICY },
  {
    name: "if the verb is unknown",
    action: "exec pods web/x",
    decision: { reason: 'unknown k8s verb "exec"' },
  },
])("a dry run for a cluster is denied $name, with status 200", async ({ action, decision }) => {
  const signer = await startClusterSigner();
  const { status, body } = await signer.act(action, { dry_run: true });
  assert.deepEqual([status, body], [200, { decision: { allowed: false, ...decision } }]);
  assert.equal(signer.log.entries[0]?.outcome, "dry_run_denied");
});

Deno.test("a dry run is denied for an unlisted caller and for an unknown cluster", async () => {
  const signer = await startClusterSigner();
  assert.equal((await signer.act(GET, { dry_run: true }, "stranger")).status, 403);
  assert.equal((await signer.act(GET, { dry_run: true, host: "gone" })).status, 403);
});

const OPS = { groups: ["ops"], namespace: "gateway", service_account: "ops" };

Deno.test.each<{ name: string; groups: readonly string[] | null; account: string | undefined }>([
  { name: "no groups at all, null", groups: null, account: "everybody" },
  { name: "a group of the first", groups: ["web", "ops"], account: "ops" },
  { name: "no group of the first", groups: ["web"], account: "everybody" },
])("sa_bindings: $name", async ({ groups, account }) => {
  const sa_bindings = [OPS, { namespace: "gateway", service_account: "everybody" }];
  const signer = await startClusterSigner({ cluster: { sa_bindings } });
  await signer.act(GET, { end_user: "alice", end_user_groups: groups });
  assert.equal(signer.asked[0]?.path.split("/")[6], account);
});

Deno.test("sa_bindings: an end user in none of the groups is denied before an approval", async () => {
  const signer = await startClusterSigner({ cluster: { sa_bindings: [OPS] } });
  for (const end_user_groups of [null, ["web"]]) {
    const { status, body } = await signer.act(APPLY, { end_user_groups });
    assert.equal(status, 403);
    assert.equal(body.detail, `no ServiceAccount of cluster "prod" is for the end user's groups`);
  }
  assert.deepEqual(signer.asked, []);
});

const FORWARDED = { on_behalf_of: "broker-1", end_user: "alice" };

Deno.test("an apply requires approval unless a forwarder or self-approving caller approved", async () => {
  const signer = await startClusterSigner();
  const asks = [
    signer.act(APPLY, { k8s_manifest: MANIFEST }),
    signer.act(APPLY, { k8s_manifest: MANIFEST, approved: true }),
  ];
  for (const { status, body } of await Promise.all(asks)) {
    assert.deepEqual([status, body.k8s_token, body.decision?.["require_approval"]], [200, undefined, true]);
  }
  assert.deepEqual(signer.asked, []);
  const records = signer.log.entries.map(({ outcome, body_sha256 }) => [outcome, body_sha256]);
  assert.deepEqual(records, Array(2).fill(["approval-required", DIGEST]));
  const approved = { ...FORWARDED, k8s_manifest: MANIFEST, approved: true };
  assert.equal((await signer.act(APPLY, approved, "control-plane")).body["k8s_token"], TOKEN);
  const self = await signer.act(APPLY, { k8s_manifest: MANIFEST, approved: true }, "approver-broker");
  assert.equal(self.body["k8s_token"], TOKEN);
  assert.deepEqual(signer.log.entries.slice(-2).map(({ outcome }) => outcome), ["issued", "self_approved"]);
});

Deno.test("a learned waiver of an apply is bound to its manifest, and requires one", async () => {
  const signer = await startClusterSigner();
  const learn = { ...FORWARDED, approved: true, learn_ttl_seconds: 60 };
  await signer.act(APPLY, learn, "control-plane");
  const { err } = signer.log.entries.at(-1) ?? {};
  assert.equal(err, "a file transfer or an apply without the digest of its content");
  await signer.act(APPLY, { ...learn, k8s_manifest: MANIFEST }, "control-plane");
  const made = signer.log.entries.at(-1);
  assert.deepEqual([made?.outcome, made?.body_sha256], ["approval-waiver-created", DIGEST]);
  const isSpared = async (k8s_manifest: string, end_user = "alice") => {
    const { body } = await signer.act(APPLY, { ...FORWARDED, end_user, k8s_manifest }, "control-plane");
    return body["k8s_token"] === TOKEN;
  };
  assert.equal(await isSpared(MANIFEST), true);
  for (const other of [`${MANIFEST} `, ""]) assert.equal(await isSpared(other), false);
  assert.equal(await isSpared(MANIFEST, "bob"), false);
});

Deno.test("a grant on a cluster allows only what no rule denies, and never reveals Secrets", async () => {
  const reveal = { verbs: ["get"], namespaces: ["web"], effect: "allow", reveal: true } as const;
  const rules = [reveal, { verbs: ["delete"], effect: "deny" }] as const;
  const signer = await startClusterSigner({ cluster: { rules } });
  const path = "/v1/policy/hosts/prod/grants";
  const grant = { allow: ["^(get|delete) secrets db/"], ttl_seconds: 60 };
  assert.equal((await signer.send(post(path, grant), "operator")).status, 201);
  const db = await signer.act("get secrets db/key");
  assert.deepEqual([db.status, db.body.decision?.["reveal"]], [200, undefined]);
  assert.equal((await signer.act("get secrets web/key")).body.decision?.["reveal"], true);
  assert.equal((await signer.act("delete secrets db/key")).status, 403);
  await signer.clock.advance(60_000);
  assert.equal((await signer.act("get secrets db/key")).status, 403);
});

Deno.test("a frozen end user gets no token, even if the freeze arrives during its creation", async () => {
  const signer = await startClusterSigner({
    reply: async () => {
      await signer.freeze("end_user", "Alice");
      return MINTED;
    },
  });
  for (const _ of ["while it is made", "after that"]) {
    const { status, body } = await signer.act(GET, { end_user: "alice" });
    assert.deepEqual([status, body.code, body["k8s_token"]], [403, "frozen", undefined]);
  }
  assert.equal(signer.asked.length, 1);
});

Deno.test("a token is withheld if its record cannot be written", async () => {
  const signer = await startClusterSigner();
  signer.log.failing = true;
  const { status, body } = await signer.act(GET);
  assert.deepEqual([status, body.detail, body["k8s_token"]], [500, "audit unavailable", undefined]);
});

Deno.test("POST /v1/sign accepts 256 KiB for a cluster with a 64 KiB manifest, and 64 KiB otherwise", async () => {
  const signer = await startClusterSigner();
  const large = { k8s_manifest: `{"a":"${"\u0001".repeat(10_000)}"}` };
  assert.ok(JSON.stringify(large).length > 60_000);
  const pad = { reason: "", padding: "x".repeat(20_000) };
  assert.equal((await signer.act(APPLY, { ...large, ...pad })).status, 200);
  const host = await signer.sign({ padding: "x".repeat(70_000) });
  assert.deepEqual([host.status, host.body.detail], [413, "Request body is larger than 65536 bytes"]);
  assert.equal((await signer.act(APPLY, { padding: "x".repeat(256 * 1024) })).status, 413);
  const of = async (bytes: number) =>
    (await signer.act(APPLY, { k8s_manifest: `"${"x".repeat(bytes - 2)}"` })).status;
  assert.deepEqual([await of(65_536), await of(65_537)], [200, 400]);
});
