import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import type { TokenAnswer } from "../authority/authority.ts";
import { CLUSTER, ClusterFixture } from "../testing/cluster_fixture.ts";
import { SERIAL } from "../testing/fake_authority.ts";
import { answered } from "../testing/fake_cluster.ts";
import type { ActionRequest } from "./run_action.ts";

const MANIFEST = JSON.stringify({
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "api", namespace: "prod" },
  spec: { replicas: 2 },
});
const APPLY = {
  asked: { verb: "apply", resource: "deployments", name: "api" },
  options: { manifest: MANIFEST },
} as const;

const ISSUED: TokenAnswer = {
  kind: "issued",
  token: "token-1",
  serial: SERIAL,
  decision: { allowed: true, matched_rule: "allow:x", warning: "w" },
  waited: false,
};

const RECORD = {
  caller: "agent-1",
  host: "https://10.0.0.5:6443",
  host_name: "prod",
  addr: "https://10.0.0.5:6443",
  command: "target=k8s action=get pods prod/web-1",
  command_line: "get pods prod/web-1",
  target_type: "k8s",
  dry_run: false,
} as const;

Deno.test("runAction() requests a token for exactly the action and records before it returns", async () => {
  const fixture = new ClusterFixture();
  fixture.authority.tokenAnswer = () => ISSUED;
  const result = await fixture.run({ callerGroups: ["a"], bearerToken: "secret", reason: "why" });
  assert.deepEqual(result, { kind: "executed", output: '{"kind":"Pod"}', serial: SERIAL, warnings: ["w"] });
  assert.deepEqual(fixture.authority.tokenRequests, [{
    host: "prod",
    role: "target",
    purpose: "oneshot",
    command: "get pods prod/web-1",
    target_type: "k8s",
    k8s_verb: "get",
    k8s_resource: "pods",
    k8s_namespace: "prod",
    k8s_name: "web-1",
    end_user: "agent-1",
    end_user_groups: ["a"],
    bearer_token: "secret",
    reason: "why",
  }]);
  assert.equal(fixture.connection.requests[0]?.token, "token-1");
  const executed = { ...RECORD, serial: SERIAL, policy_rule: "allow:x", warning: "w", outcome: "executed" };
  assert.deepEqual(fixture.log.entries, [executed]);
});

Deno.test("runAction() fills in the group and drops the namespace of cluster-scoped objects", async () => {
  const fixture = new ClusterFixture();
  await fixture.run({ asked: { resource: "widgets", name: "w" } });
  await fixture.run({ asked: { resource: "nodes", name: "n", namespace: "prod" } });
  assert.deepEqual(
    fixture.authority.tokenRequests.map(({ command, k8s_group, k8s_namespace }) => [
      command,
      k8s_group,
      k8s_namespace,
    ]),
    [
      ["get widgets.example.com prod/w", "example.com", "prod"],
      ["get nodes -/n", undefined, undefined],
    ],
  );
  assert.match(
    fixture.connection.requests[0]?.path ?? "",
    /^\/apis\/example\.com\/v2\/namespaces\/prod\/widgets\/w$/,
  );
});

Deno.test("runAction() sends the same manifest to signer and cluster and records its hash", async () => {
  const fixture = new ClusterFixture();
  await fixture.run(APPLY);
  const [asked] = fixture.authority.tokenRequests;
  assert.equal(asked?.k8s_manifest, MANIFEST);
  const body = fixture.connection.requests[0]?.body?.bytes;
  assert.equal(new TextDecoder().decode(body), MANIFEST);
  assert.match(fixture.log.entries[0]?.body_sha256 ?? "", /^[0-9a-f]{64}$/);
});

type Wrong = Omit<Partial<ActionRequest>, "asked"> & { readonly asked?: Partial<ActionRequest["asked"]> };

Deno.test.each<[name: string, request: Wrong, message: string | RegExp]>([
  ["a slash in a name", { asked: { name: "a/b" } }, 'invalid k8s object name "a/b"'],
  ["dots for a name", { asked: { name: ".." } }, 'invalid k8s object name ".."'],
  ["a percent sign", { asked: { name: "a%2fb" } }, 'invalid k8s object name "a%2fb"'],
  ["upper case", { asked: { name: "Web" } }, 'invalid k8s object name "Web"'],
  ["254 characters", { asked: { name: "a".repeat(254) } }, /^invalid k8s object name/],
  ["a slash in a namespace", { asked: { namespace: "a/b" } }, 'invalid k8s namespace "a/b"'],
  [
    "an unknown kind",
    { asked: { resource: "gadgets" } },
    'unknown k8s resource "gadgets": not in the core table nor this cluster\'s extra_resources',
  ],
  [
    "a resource with its group",
    { asked: { resource: "deployments.apps" } },
    'invalid k8s resource "deployments.apps" (lowercase RFC 1123 label)',
  ],
  ["the wrong group", { asked: { group: "apps" } }, 'k8s resource "pods" belongs to group "", not "apps"'],
  ["a list with a name", { asked: { verb: "list" } }, 'k8s list takes no object name (got "web-1")'],
  ["no name", { asked: { name: "" } }, "k8s get requires an object name"],
  ["logs without a namespace", { asked: { verb: "logs", namespace: "" } }, "k8s logs requires a namespace"],
  [
    "an object without the namespace that it has to be in",
    { asked: { namespace: "" } },
    "k8s get of pods requires a namespace",
  ],
  [
    "a manifest of another object",
    { ...APPLY, asked: { ...APPLY.asked, name: "other" } },
    /metadata\.name does not match the arguments: "api", expected "other"$/,
  ],
  ["no manifest", { ...APPLY, options: {} }, /k8s apply requires a manifest$/],
])("runAction() rejects %s, requests no token and records nothing", async (_name, request, message) => {
  const fixture = new ClusterFixture();
  await assert.rejects(fixture.run(request), (error) => {
    assert.ok(error instanceof AppError && error.code === "invalid_request", String(error));
    assert.match(
      error.message,
      typeof message === "string" ? new RegExp(`^${RegExp.escape(message)}$`) : message,
    );
    return true;
  });
  assert.deepEqual([fixture.authority.tokenRequests, fixture.log.entries], [[], []]);
});

Deno.test("runAction() rejects and records an unknown cluster", async () => {
  const fixture = new ClusterFixture();
  await assert.rejects(fixture.run({ cluster: "toString" }), /unknown cluster: "toString"$/);
  assert.deepEqual(fixture.log.entries, [{
    caller: "agent-1",
    host: "toString",
    host_name: "toString",
    addr: "",
    command: "target=k8s",
    command_line: "get pods prod/web-1",
    target_type: "k8s",
    dry_run: false,
    outcome: "denied",
    err: "unknown cluster",
  }]);
});

Deno.test("runAction() records the action and does nothing if the agent is frozen", async () => {
  const fixture = new ClusterFixture();
  await fixture.clusters.inventory.refresh();
  fixture.authority.clusterList = () => Promise.reject(new AppError("frozen", "subject is frozen"));
  await assert.rejects(fixture.run(), (error) => error instanceof AppError && error.code === "frozen");
  const [record] = fixture.log.entries;
  assert.deepEqual([record?.outcome, record?.command_line], ["error", "get pods prod/web-1"]);
  assert.deepEqual(fixture.authority.tokenRequests, []);
});

Deno.test.each<{ name: string; answer: TokenAnswer; message: RegExp; err?: RegExp }>([
  {
    name: "a refusal",
    answer: { kind: "rejected", status: 403, detail: "not allowed by cluster policy" },
    message: /^AppError: token for "prod": signing rejected \(403\): not allowed by cluster policy$/,
  },
  {
    name: "a rule that requires approval",
    answer: { kind: "needs_approval", rule: "require_approval:x" },
    message: /command on "prod" requires human approval \(require_approval:x\); approve it in-chat/,
  },
  {
    name: "a pending approval",
    answer: { kind: "undecided", approvalId: "id-1", why: "not_configured" },
    message: /operation requires human approval \(id id-1\); client is not configured to wait$/,
  },
  {
    name: "a denied approval",
    answer: { kind: "not_granted", status: 403, detail: "approval denied" },
    message: /approval not granted \(403\): approval denied$/,
  },
])("runAction() reports $name and records it as denied", async ({ answer, message }) => {
  const fixture = new ClusterFixture();
  fixture.authority.tokenAnswer = () => answer;
  await assert.rejects(fixture.run(), message);
  assert.deepEqual(fixture.connection.requests, []);
  assert.equal(fixture.log.entries.length, 1);
  assert.equal(fixture.log.entries[0]?.outcome, "denied");
});

Deno.test("runAction() records a rejection by the API server with the serial of the token", async () => {
  const fixture = new ClusterFixture();
  fixture.connection.answer = () => answered({ message: "forbidden" }, { status: 403 });
  await assert.rejects(fixture.run(), /403 forbidden$/);
  const [record] = fixture.log.entries;
  assert.deepEqual([record?.outcome, record?.serial], ["error", SERIAL]);
});

Deno.test("runAction() withholds an answer if the audit log fails", async () => {
  const fixture = new ClusterFixture();
  fixture.log.failing = true;
  await assert.rejects(
    fixture.run(),
    (error) => error instanceof AppError && error.code === "audit_unavailable",
  );
});

Deno.test("runAction() previews without a token and without a request to the cluster", async () => {
  const fixture = new ClusterFixture();
  const result = await fixture.run({ ...APPLY, options: { manifest: "{}" }, dryRun: true });
  assert.equal(result.kind, "decided");
  assert.equal(fixture.authority.tokenRequests[0]?.dry_run, true);
  assert.deepEqual(fixture.connection.requests, []);
  assert.equal(fixture.log.entries[0]?.outcome, "dry_run_allowed");
  fixture.authority.tokenAnswer = () => ({ kind: "decided", decision: { allowed: false } });
  await fixture.run({ dryRun: true });
  assert.equal(fixture.log.entries[1]?.outcome, "dry_run_denied");
});

Deno.test("runAction() sends no token if the cluster is removed during an approval wait", async () => {
  const fixture = new ClusterFixture();
  fixture.authority.tokenAnswer = () => {
    fixture.authority.clusterList = () => ({});
    return { ...ISSUED, waited: true };
  };
  await assert.rejects(fixture.run(), /unknown cluster: "prod"/);
  assert.deepEqual(fixture.connection.requests, []);
});

Deno.test("runAction() sends the token to the cluster's new address after an approval wait", async () => {
  const fixture = new ClusterFixture();
  const moved = { ...CLUSTER, api_server: "https://10.0.0.6:6443" };
  fixture.authority.tokenAnswer = () => {
    fixture.authority.clusterList = () => ({ prod: moved });
    return { ...ISSUED, waited: true };
  };
  await fixture.run();
  assert.deepEqual(fixture.connected, [moved]);
});

Deno.test("runAction() ends if its signal is aborted", async () => {
  const fixture = new ClusterFixture();
  const stop = new AbortController();
  fixture.connection.answer = ({ signal }) =>
    new Promise((resolve) => signal?.addEventListener("abort", () => resolve({ kind: "canceled" })));
  const running = fixture.run({}, stop.signal);
  while (fixture.connection.requests.length === 0) await Promise.resolve();
  stop.abort();
  await assert.rejects(running, (error) => error instanceof AppError && error.code === "canceled");
  assert.equal(fixture.log.entries[0]?.err, "canceled");
});
