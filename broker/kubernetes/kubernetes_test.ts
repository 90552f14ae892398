import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import type { ApiOutcome } from "@gateway/shared/kubernetes";
import type { ClusterAction } from "@gateway/shared/policy";
import { createRedactor } from "@gateway/shared/redact";
import { FakeClock } from "@gateway/shared/testing";
import { ACTIONS, answered, FakeConnection } from "../testing/fake_cluster.ts";
import { act } from "./act.ts";
import { type ActionOptions, requestFor } from "./api_call.ts";
import type { ClustersResponse } from "@gateway/shared/wire";
import { CLUSTER, ClusterFixture } from "../testing/cluster_fixture.ts";
import { Clusters } from "./clusters.ts";

const MAX = 1000;
const TOKEN = "token-1";

interface Scene {
  readonly action?: ClusterAction;
  readonly options?: ActionOptions;
  readonly reveal?: boolean;
  readonly maxOutputBytes?: number;
}

function run(answer: FakeConnection["answer"], scene: Scene = {}) {
  const connection = new FakeConnection();
  connection.answer = answer;
  const clock = new FakeClock();
  const { action = ACTIONS.getPod, options = {}, reveal = false, maxOutputBytes = MAX } = scene;
  const result = act(
    { clock, redact: createRedactor(undefined), maxOutputBytes },
    { connection, token: TOKEN, action, options, reveal },
    new AbortController().signal,
  );
  return { connection, clock, result };
}

Deno.test("act() returns an object byte for byte as the API server sent it", async () => {
  const text = '{ "kind":"Pod",  "n": 18446744073709551615 }\n';
  const { result, connection } = run(() => answered(text));
  assert.deepEqual(await result, { output: text, warnings: [] });
  const [request] = connection.requests;
  assert.equal(request?.token, TOKEN);
  assert.equal(request?.timeoutMs, 30_000);
  assert.equal(request?.maxBytes, MAX);
});

Deno.test("act() returns the warnings of the API server", async () => {
  const headers = { warning: '299 - "unknown field \\"spec.foo\\"", 299 - "deprecated"' };
  const { result } = run(() => answered({}, { headers }));
  assert.deepEqual((await result).warnings, ['unknown field "spec.foo"', "deprecated"]);
});

const PATH = "k8s: GET /api/v1/namespaces/prod/pods/web-1";
const status = (code: number, message: string) => answered({ kind: "Status", message }, { status: code });

Deno.test.each<
  [name: string, outcome: ApiOutcome, message: string, more: { code?: string; action?: ClusterAction }]
>([
  [
    "what the account may not do",
    status(403, 'pods "web-1" is forbidden: cannot get resource'),
    `${PATH}: 403 pods "web-1" is forbidden: cannot get resource`,
    {},
  ],
  ["a missing object", status(404, "not found"), `${PATH}: 404 not found`, {}],
  [
    "a token that is good no more",
    status(401, "Unauthorized"),
    `${PATH}: 401 Unauthorized ` +
    "(the token has expired or was revoked: call again, or ask an operator about a freeze)",
    {},
  ],
  ["HTML", answered("<html>oops</html>\n", { status: 500 }), `${PATH}: 500 <html>oops</html>`, {}],
  ["a long text", answered("x".repeat(5000), { status: 503 }), `${PATH}: 503 ${"x".repeat(1000)}…`, {}],
  [
    "a redirect",
    answered("", { status: 307, headers: { location: "https://elsewhere" } }),
    `${PATH}: 307 redirects are not followed`,
    {},
  ],
  ["HTML with a success status", answered("<html>"), `${PATH}: the answer is not JSON`, {}],
  ["a list for an object", answered("[]"), `${PATH}: the answer is not a JSON object`, {}],
  ["nothing at all", { kind: "timed_out" }, `${PATH}: request timed out`, {}],
  ["a canceled request", { kind: "canceled" }, `${PATH}: request canceled`, { code: "canceled" }],
  [
    "no connection",
    { kind: "unreachable", cause: new Error("connect ECONNREFUSED 10.0.0.5:6443") },
    `${PATH}: could not reach the API server`,
    {},
  ],
  [
    "a certificate of somebody else",
    { kind: "untrusted", cause: new Error("10.0.0.5") },
    `${PATH}: the cluster's CA did not issue the API server's certificate ` +
    "(ca_cert of the cluster in the signer's config)",
    {},
  ],
  ["too much", { kind: "too_large" }, `${PATH}: response exceeds ${MAX}-byte limit`, {}],
  [
    "too much of a log",
    { kind: "too_large" },
    `${PATH}/log: response exceeds ${MAX}-byte limit; narrow it with tail_lines, since_seconds or container`,
    { action: ACTIONS.logs },
  ],
])(
  "act() reports the cause for %s",
  async (_name, outcome, message, { code = "upstream_failure", action }) => {
    const { result } = run(() => outcome, action && { action });
    await assert.rejects(result, (error) => {
      assert.ok(error instanceof AppError, String(error));
      assert.deepEqual([error.code, error.message], [code, message]);
      return true;
    });
  },
);

Deno.test("act() masks secrets in logs and reads at most the specified limit", async () => {
  const log = "started with --password=hunter2\n";
  const { result, connection } = run(() => answered(log), {
    action: ACTIONS.logs,
    maxOutputBytes: 10_485_760,
  });
  assert.equal((await result).output, "started with --password=[REDACTED:flag-password]\n");
  assert.equal(connection.requests[0]?.maxBytes, 524_288);
  assert.match(connection.requests[0]?.path ?? "", /limitBytes=524289$/);
});

const SECRET = { kind: "Secret", metadata: { name: "db" }, data: { password: "aHVudGVyMg==" } };

Deno.test("act() masks the values of Secrets unless the rule reveals them", async () => {
  for (const verb of ["get", "apply", "delete"] as const) {
    const action = { ...ACTIONS.getSecret, verb };
    const masked = await run(() => answered(SECRET), { action }).result;
    assert.deepEqual(JSON.parse(masked.output).data, { password: "[masked: 7 bytes]" });
    const shown = await run(() => answered(SECRET), { action, reveal: true }).result;
    assert.deepEqual(JSON.parse(shown.output), SECRET);
  }
});

Deno.test("act() withholds a Secret that cannot be parsed", async () => {
  const { result } = run(() => answered('{"data":{"password":"aHVudGVyMg=="}'), {
    action: ACTIONS.getSecret,
  });
  await assert.rejects(result, /cannot mask the values of an unreadable answer$/);
});

Deno.test("act() applies the output limit to a Secret after masking", async () => {
  const big = { kind: "Secret", data: { key: "x".repeat(5000) } };
  assert.match((await run(() => answered(big), { action: ACTIONS.getSecret }).result).output, /masked/);
});

Deno.test.each<
  [name: string, sent: readonly string[], named: readonly string[], conflicts: readonly string[]]
>([
  ["nothing is named", [""], [], [".a"]],
  ["all that conflict are named", ["&dryRun=All", "&force=true"], [".a", ".b"], [".a"]],
  ["another field conflicts by now", ["&dryRun=All", ""], [".a"], [".a", ".b"]],
  ["the conflict no longer exists", ["&dryRun=All", ""], [".a"], []],
])("act() of an apply if %s sends %s", async (_name, sent, named, conflicts) => {
  const causes = conflicts.map((field) => ({ reason: "FieldManagerConflict", field }));
  const body = { kind: "Status", message: "Apply failed", details: { causes } };
  const action: ClusterAction = { ...ACTIONS.getPod, verb: "apply" };
  const { result, connection } = run(
    ({ path }) =>
      path.includes("force") || causes.length === 0
        ? answered({ kind: "Pod" })
        : answered(body, { status: 409 }),
    { action, options: { manifest: "{}", forceFields: named } },
  );
  await result.catch(() => {});
  assert.deepEqual(connection.requests.map(({ path }) => path.replace(/.*fieldManager=gateway/, "")), sent);
});

const { signal } = new AbortController();

Deno.test("Clusters announces only the first added and the last removed cluster", async () => {
  const fixture = new ClusterFixture();
  const told: boolean[] = [];
  const end = fixture.clusters.watch(() => told.push(fixture.clusters.isEmpty));
  const lists: ClustersResponse[] = [{}, { a: CLUSTER }, { a: CLUSTER, b: CLUSTER }, { b: CLUSTER }, {}, {}];
  for (const list of lists) {
    fixture.authority.clusterList = () => list;
    await fixture.clusters.inventory.refresh();
  }
  assert.deepEqual(told, [false, true]);
  end();
  fixture.authority.clusterList = () => ({ a: CLUSTER });
  await fixture.clusters.inventory.refresh();
  assert.deepEqual(told, [false, true]);
});

Deno.test("Clusters keeps the last list if a refresh fails", async () => {
  const fixture = new ClusterFixture();
  await fixture.clusters.inventory.refresh();
  fixture.authority.clusterList = () => Promise.reject(new AppError("upstream_failure", "gone"));
  await assert.rejects(fixture.clusters.inventory.refresh());
  assert.deepEqual([...(await fixture.clusters.inventory.current()).keys()], ["prod"]);
  assert.equal(fixture.clusters.isEmpty, false);
  await assert.rejects(
    fixture.clusters.find("prod", signal),
    /upstream failure: refreshing cluster list: gone$/,
  );
});

Deno.test("Clusters connects once and reconnects after a change of address or CA", async () => {
  const fixture = new ClusterFixture();
  const connect = async () => (await fixture.clusters.find("prod", signal)).connection();
  await connect();
  await connect();
  assert.equal(fixture.connected.length, 1);
  fixture.authority.clusterList = () => ({ prod: { ...CLUSTER, groups: ["x"] } });
  await connect();
  assert.equal(fixture.connected.length, 1);
  for (const change of [{ ca_cert_pem: "OTHER" }, { api_server: "https://10.0.0.6" }]) {
    fixture.authority.clusterList = () => ({ prod: { ...CLUSTER, ...change } });
    await connect();
  }
  assert.deepEqual([fixture.connected.length, fixture.closed], [3, 2]);
  fixture.authority.clusterList = () => ({});
  await fixture.clusters.inventory.refresh();
  assert.equal(fixture.closed, 3);
});

Deno.test("Clusters reports the cluster with the unusable CA and keeps the others", async () => {
  const clusters = new Clusters({
    clock: new FakeClock(),
    fetch: () => Promise.resolve({ good: CLUSTER, bad: { ...CLUSTER, ca_cert_pem: "" } }),
    connect({ ca_cert_pem }) {
      if (ca_cert_pem === "") throw new AppError("invalid_config", "Cannot use the TLS CA certificate");
      return { request: () => Promise.resolve({ kind: "timed_out" }), close() {} };
    },
  });
  const bad = await clusters.find("bad", signal);
  assert.throws(() => bad.connection(), /cannot use cluster "bad": Cannot use the TLS CA certificate/);
  (await clusters.find("good", signal)).connection();
});

Deno.test.each<{ name: string; action: ClusterAction; options?: ActionOptions; line: string }>([
  { name: "get", action: ACTIONS.getPod, line: "GET /api/v1/namespaces/prod/pods/web-1" },
  {
    name: "delete of an object without a namespace",
    action: ACTIONS.deleteNode,
    line: "DELETE /api/v1/nodes/node-1",
  },
  {
    name: "logs",
    action: ACTIONS.logs,
    line: "GET /api/v1/namespaces/prod/pods/web-1/log?tailLines=200&limitBytes=101",
  },
  {
    name: "logs of a container",
    action: ACTIONS.logs,
    options: { container: "a&tailLines=1#?", tailLines: 5, sinceSeconds: 60 },
    line: "GET /api/v1/namespaces/prod/pods/web-1/log" +
      "?container=a%26tailLines%3D1%23%3F&tailLines=5&sinceSeconds=60&limitBytes=101",
  },
  {
    name: "logs with numbers below 1",
    action: ACTIONS.logs,
    options: { tailLines: 0, sinceSeconds: -1 },
    line: "GET /api/v1/namespaces/prod/pods/web-1/log?tailLines=200&limitBytes=101",
  },
  {
    name: "apply",
    action: ACTIONS.applyDeployment,
    options: { manifest: "{}" },
    line: "PATCH /apis/apps/v1/namespaces/prod/deployments/api?fieldManager=gateway",
  },
])("requestFor() builds the request for $name", ({ action, options = {}, line }) => {
  const { method, path, query } = requestFor(action, options, { maxBytes: 100 });
  assert.equal(`${method} ${path}${query}`, line);
});

Deno.test("requestFor() sends a manifest byte for byte without force", () => {
  const manifest = '{ "kind" :\t"Deployment", "a": "ü" }\n';
  const { body, query } = requestFor(ACTIONS.applyDeployment, { manifest }, { maxBytes: 100 });
  assert.equal(body?.type, "application/apply-patch+yaml");
  assert.equal(new TextDecoder().decode(body?.bytes), manifest);
  assert.ok(!query.includes("force"));
});

Deno.test("requestFor() rejects a namespaced object without a namespace", () => {
  for (const verb of ["get", "apply", "delete"] as const) {
    assert.throws(
      () => requestFor({ ...ACTIONS.getPod, verb, namespace: "" }, {}, { maxBytes: 100 }),
      new RegExp(`k8s ${verb} of pods requires a namespace`),
    );
  }
});

Deno.test.each<
  { name: string; action: ClusterAction; options?: ActionOptions; after?: string; line: string }
>([
  { name: "all namespaces", action: ACTIONS.listPods, line: "/api/v1/pods?limit=7" },
  { name: "a namespace", action: ACTIONS.listSecrets, line: "/api/v1/namespaces/prod/secrets?limit=7" },
  {
    name: "selected objects from a continue token",
    action: ACTIONS.listPods,
    options: { labelSelector: "app in (a,b)", fieldSelector: "status.phase=Running" },
    after: "x/+=",
    line: "/api/v1/pods?labelSelector=app%20in%20(a%2Cb)&fieldSelector=status.phase%3DRunning&limit=7" +
      "&continue=x%2F%2B%3D",
  },
  {
    name: "a label selector with a lone surrogate",
    action: ACTIONS.listPods,
    options: { labelSelector: "\ud800" },
    line: "/api/v1/pods?labelSelector=%EF%BF%BD&limit=7",
  },
])("requestFor() builds the request for a page of $name", ({ action, options = {}, after, line }) => {
  const { method, path, query } = requestFor(action, options, { maxBytes: 100, limit: 7, after });
  assert.equal(`${method} ${path}${query}`, `GET ${line}`);
});
