import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import type { ApiOutcome } from "@gateway/shared/kubernetes";
import type { ClusterAction } from "@gateway/shared/policy";
import { createRedactor } from "@gateway/shared/redact";
import { FakeClock } from "@gateway/shared/testing";
import { ACTIONS, answered, FakeConnection } from "../testing/fake_cluster.ts";
import { act } from "./act.ts";
import type { ActionOptions } from "./ask.ts";

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

Deno.test("act() gives an object as the API server wrote it, to the byte", async () => {
  const text = '{ "kind":"Pod",  "n": 18446744073709551615 }\n';
  const { result, connection } = run(() => answered(text));
  assert.deepEqual(await result, { output: text, warnings: [] });
  const [request] = connection.requests;
  assert.equal(request?.token, TOKEN);
  assert.equal(request?.timeoutMs, 30_000);
  assert.equal(request?.maxBytes, MAX);
});

Deno.test("act() tells what the API server warns of", async () => {
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
  ["what is not there", status(404, "not found"), `${PATH}: 404 not found`, {}],
  [
    "a token that is good no more",
    status(401, "Unauthorized"),
    `${PATH}: 401 Unauthorized ` +
    "(the token has ended or was taken back: call again, or ask who has frozen it)",
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
  ["HTML that says it is well", answered("<html>"), `${PATH}: the answer is not JSON`, {}],
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
    `${PATH}: the API server's certificate is not one of the cluster's CA ` +
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
  "act() says what is wrong with %s",
  async (_name, outcome, message, { code = "upstream_failure", action }) => {
    const { result } = run(() => outcome, action && { action });
    await assert.rejects(result, (error) => {
      assert.ok(error instanceof AppError, String(error));
      assert.deepEqual([error.code, error.message], [code, message]);
      return true;
    });
  },
);

Deno.test("act() masks secrets in logs, and takes no more than the specification's limit of them", async () => {
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

Deno.test("act() masks the values of Secrets, unless the rule reveals them", async () => {
  for (const verb of ["get", "apply", "delete"] as const) {
    const action = { ...ACTIONS.getSecret, verb };
    const masked = await run(() => answered(SECRET), { action }).result;
    assert.deepEqual(JSON.parse(masked.output).data, { password: "[masked: 7 bytes]" });
    const shown = await run(() => answered(SECRET), { action, reveal: true }).result;
    assert.deepEqual(JSON.parse(shown.output), SECRET);
  }
});

Deno.test("act() withholds a Secret that can't be read", async () => {
  const { result } = run(() => answered('{"data":{"password":"aHVudGVyMg=="}'), {
    action: ACTIONS.getSecret,
  });
  await assert.rejects(result, /its values can't be masked$/);
});

Deno.test("act() measures a Secret as it is shown", async () => {
  const big = { kind: "Secret", data: { key: "x".repeat(5000) } };
  assert.match((await run(() => answered(big), { action: ACTIONS.getSecret }).result).output, /masked/);
});

Deno.test.each<
  [name: string, sent: readonly string[], named: readonly string[], conflicts: readonly string[]]
>([
  ["nothing is named", [""], [], [".a"]],
  ["all that conflict are named", ["&dryRun=All", "&force=true"], [".a", ".b"], [".a"]],
  ["another field conflicts by now", ["&dryRun=All", ""], [".a"], [".a", ".b"]],
  ["nothing conflicts any more", ["&dryRun=All", ""], [".a"], []],
])("act() of an apply where %s sends %s", async (_name, sent, named, conflicts) => {
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
