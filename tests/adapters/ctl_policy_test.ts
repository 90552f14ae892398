import assert from "node:assert/strict";
import { FakeService } from "./ctl_signer_fixture.ts";

const ID = "0123456789abcdef01234567";
const HOST = ["--host", "web 01/ü"];
const HOST_PATH = "/v1/policy/hosts/web%2001%2F%C3%BC";
const EDITED = { status: "ok", host: "web 01/ü", hosts: 3 };
const CREATED = { id: ID, host: "web 01/ü", expires_at: "2026-01-02T05:04:05Z" };

interface Row {
  readonly name: string;
  readonly args: string[];
  readonly answer: unknown;
  readonly status?: number;
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly text: string;
}

Deno.test.each<Row>([
  {
    name: "policy add",
    args: ["policy", "add", ...HOST, "--allow", '^echo "\\d"$'],
    answer: EDITED,
    method: "POST",
    path: `${HOST_PATH}/allow`,
    body: { pattern: '^echo "\\d"$' },
    text: 'allow "^echo \\"\\\\d\\"$" added on web 01/ü (hosts: 3)\n',
  },
  {
    name: "policy remove",
    args: ["policy", "remove", "-allow=^a{1,3}$", ...HOST],
    answer: EDITED,
    method: "DELETE",
    path: `${HOST_PATH}/allow`,
    body: { pattern: "^a{1,3}$" },
    text: 'allow "^a{1,3}$" removed on web 01/ü (hosts: 3)\n',
  },
  {
    name: "policy grant",
    args: ["policy", "grant", ...HOST, "--allow", "^a$", "--allow", "^b$", "--ttl", "1h30m"].concat(
      ["--caller", "broker-1", "--end-user", "ann"],
    ),
    answer: CREATED,
    status: 201,
    method: "POST",
    path: `${HOST_PATH}/grants`,
    body: { allow: ["^a$", "^b$"], ttl_seconds: 5400, caller: "broker-1", end_user: "ann" },
    text: `granted on web 01/ü: allow "^a$", "^b$" for 1h30m0s (id ${ID}, expires 2026-01-02T05:04:05Z)\n`,
  },
  {
    name: "policy grant for all callers, for an hour",
    args: ["policy", "grant", ...HOST, "--allow", "^a$"],
    answer: CREATED,
    status: 201,
    method: "POST",
    path: `${HOST_PATH}/grants`,
    body: { allow: ["^a$"], ttl_seconds: 3600, caller: "", end_user: "" },
    text: `granted on web 01/ü: allow "^a$" for 1h0m0s (id ${ID}, expires 2026-01-02T05:04:05Z)\n`,
  },
  {
    name: "policy grant for a cluster",
    args: ["policy", "grant", "--cluster", "prod", "--action", "get,delete deployments web/*"].concat(
      ["--allow", "^list pods web/-$", "--ttl", "15m"],
    ),
    answer: { ...CREATED, host: "prod" },
    status: 201,
    method: "POST",
    path: "/v1/policy/hosts/prod/grants",
    body: {
      allow: ["^list pods web/-$", "^(?:get|delete) (?:deployments\\.apps) (?:web)/(?:[^ ]+)$"],
      ttl_seconds: 900,
      caller: "",
      end_user: "",
    },
    text:
      'granted on prod: allow "^list pods web/-$", "^(?:get|delete) (?:deployments\\\\.apps) (?:web)/(?:[^ ]+)$" ' +
      `for 15m0s (id ${ID}, expires 2026-01-02T05:04:05Z)\n`,
  },
  {
    name: "policy revoke",
    args: ["policy", "revoke", ID],
    answer: { status: "ok", id: ID },
    method: "DELETE",
    path: `/v1/policy/grants/${ID}`,
    text: `revoked grant ${ID}\n`,
  },
  {
    name: "policy grants without active grants",
    args: ["policy", "grants"],
    answer: [],
    method: "GET",
    path: "/v1/policy/grants",
    text: "(no active grants)\n",
  },
])(
  "$name sends the request to the signer and prints the result",
  async ({ args, answer, status, method, path, body, text }) => {
    await using signer = await FakeService.start(answer, status);
    assert.deepEqual(await signer.run(...args), { out: text, err: "", exit: 0 });
    assert.deepEqual(signer.requests, [{ method, path, body, caller: "operator-local" }]);
    const json = await signer.run("--json", ...args);
    const adds = ["add", "grant"].includes(args[1] ?? "");
    const expected = adds ? { ...Object(answer), findings: [] } : answer;
    assert.deepEqual([JSON.parse(json.out), json.err, json.exit], [expected, "", 0]);
  },
);

Deno.test("policy grants lists grants and waivers, the earliest expiry first", async () => {
  const common = { granted_at: "2026-01-02T03:04:05Z" };
  await using signer = await FakeService.start([
    {
      ...common,
      id: "b",
      host: "db01",
      waive_approval: ["^pg_dump x$"],
      caller: "broker-1",
      sudo: true,
      sudo_user: "postgres",
      expires_at: "2026-01-02T05:00:00Z",
    },
    { ...common, id: "c", host: "web01", allow: ["^a$"], expires_at: "2026-01-03T00:00:00Z", novelty: 1 },
    {
      ...common,
      id: "a",
      host: "web01\x1b[31m",
      allow: ["^a$", "\u202eb"],
      caller: "broker-1",
      end_user: "ann",
      expires_at: "2026-01-02T04:00:00Z",
    },
  ]);
  assert.equal(
    (await signer.run("policy", "grants", "-o", "wide")).out,
    [
      "ID  HOST           EXPIRES               SCOPE                        RULES",
      "a   web01\\x1b[31m  2026-01-02T04:00:00Z  caller=broker-1,user=ann     allow[^a$ | \\u{202e}b]",
      "b   db01           2026-01-02T05:00:00Z  caller=broker-1,user=(none)  waive-approval[^pg_dump x$] sudo:postgres",
      "c   web01          2026-01-03T00:00:00Z  any                          allow[^a$]",
      "",
    ].join("\n"),
  );
  const { out } = await signer.run("policy", "grants", "--json");
  assert.equal(JSON.parse(out)[1].novelty, 1);
  assert.match(out, /^\P{C}*\n$/u);
});

Deno.test("policy grants truncates a long pattern, and -o wide and --json print all of it", async () => {
  const pattern = `^echo ${"a".repeat(60_000)}$`;
  const entry = { id: "a", host: "web01", granted_at: "2026-01-02T03:04:05Z", waive_approval: [pattern] };
  await using signer = await FakeService.start([{ ...entry, expires_at: "2026-01-02T05:00:00Z" }]);
  const outputOf = async (...flags: string[]) => (await signer.run("policy", "grants", ...flags)).out;
  assert.match(await outputOf(), / waive-approval\[\^echo a{394}…\[first 400 of 60007 characters\]\]\n$/);
  assert.ok((await outputOf("-o", "wide")).endsWith(` waive-approval[${pattern}]\n`));
  assert.deepEqual(JSON.parse(await outputOf("--json"))[0].waive_approval, [pattern]);
});

const ADD = ["policy", "add", "--host", "web01", "--allow", "x"];
const REMOVE = ["policy", "remove", "--host", "web01", "--allow", "x"];
const GRANT = ["policy", "grant", "--host", "web01", "--allow", "x"];
const GRANTS = ["policy", "grants"];
const REVOKE = ["policy", "revoke", ID];

Deno.test.each<{ args: string[]; status: number; code: string; detail: string; hint: RegExp }>([
  { args: ADD, status: 400, code: "invalid_request", detail: "invalid regex: x", hint: /policy add --help$/ },
  { args: ADD, status: 401, code: "unauthenticated", detail: "no", hint: /client_ca/ },
  {
    args: ADD,
    status: 403,
    code: "forbidden",
    detail: "caller is not in reload_callers",
    hint: /reload_callers/,
  },
  { args: ADD, status: 404, code: "not_found", detail: 'unknown host: "web01"', hint: /host list --remote/ },
  { args: ADD, status: 409, code: "conflict", detail: "no change: there", hint: /the pattern exists/ },
  {
    args: ADD,
    status: 500,
    code: "audit_unavailable",
    detail: "audit unavailable",
    hint: /policy is unchanged/,
  },
  {
    args: REMOVE,
    status: 409,
    code: "conflict",
    detail: "no change: not there",
    hint: /does not contain exactly this pattern/,
  },
  {
    args: GRANT,
    status: 400,
    code: "invalid_request",
    detail: "above the cap",
    hint: /max_grant_ttl_seconds/,
  },
  {
    args: GRANT,
    status: 409,
    code: "conflict",
    detail: "subject is frozen: caller=x",
    hint: /allowlist.*frozen/,
  },
  { args: GRANTS, status: 403, code: "forbidden", detail: "no", hint: /reload_callers/ },
  {
    args: REVOKE,
    status: 404,
    code: "not_found",
    detail: "unknown grant",
    hint: /see broker-ctl policy grants/,
  },
  { args: REVOKE, status: 500, code: "internal", detail: "failed inside", hint: /see the signer's log/ },
])(
  "$args.1 prints HTTP $status and a hint, with exit code 1",
  async ({ args, status, code, detail, hint }) => {
    await using signer = await FakeService.refusing(status, detail, code);
    const result = await signer.run(...args);
    assert.deepEqual([result.out, result.exit], ["", 1]);
    const [error, advice = ""] = result.err.split("\n");
    assert.equal(error, `error: ${args[0]} ${args[1]} failed (HTTP ${status}): ${detail}`);
    assert.match(advice, hint);
    assert.doesNotMatch(advice, /https:/);
    const json = await signer.run("--json", ...args);
    assert.deepEqual([json.out, json.exit, JSON.parse(json.err).code], ["", 1, code]);
  },
);

Deno.test("an error response without a problem document is printed without control characters", async () => {
  await using signer = await FakeService.start("\x1b[2J<html>\u202e", 404);
  const { err, exit } = await signer.run(...GRANTS);
  assert.equal(exit, 1);
  assert.match(
    err,
    /^error: policy grants failed \(HTTP 404\): "[^\n]*<html>\\u\{202e\}"\nfix: \P{Cc}*\n$/u,
  );
});

Deno.test.each<{ name: string; args: string[]; body: unknown }>([
  { name: "policy add", args: ADD, body: { hello: "world" } },
  { name: "policy grant", args: GRANT, body: [] },
  { name: "policy grants", args: GRANTS, body: {} },
  { name: "policy grants, of an entry", args: GRANTS, body: [{ id: 1 }] },
  { name: "policy revoke", args: REVOKE, body: null },
])("$name rejects a response that is not a signer's", async ({ args, body }) => {
  await using signer = await FakeService.start(body);
  const { err, out, exit } = await signer.run(...args);
  assert.match(err, /did not respond like a signer/);
  assert.deepEqual([out, exit], ["", 1]);
});

Deno.test.each<{ name: string; args: string[]; error: RegExp }>([
  {
    name: "a host that a URL would resolve away",
    args: ["policy", "add", "--host", "..", "--allow", "x"],
    error: /".."/,
  },
  { name: "an id that a URL would resolve away", args: ["policy", "revoke", "."], error: /"\."/ },
  { name: "an empty ID", args: ["policy", "revoke", ""], error: /expected a name/ },
  { name: "an empty pattern", args: ["policy", "grant", "--host", "h", "--allow", ""], error: /allow\.0/ },
  { name: "a grant without time", args: [...GRANT, "--ttl", "0s"], error: /Cannot read duration "0s"/ },
  { name: "a grant for less than a second", args: [...GRANT, "--ttl", "10ms"], error: /whole seconds/ },
  { name: "an endless grant", args: [...GRANT, "--ttl", "2000000h"], error: /ttl_seconds/ },
  { name: "a second pattern to add", args: [...ADD, "--allow", "y"], error: /passed twice/ },
  { name: "no host", args: ["policy", "grant", "--allow", "x"], error: /--host or --cluster/ },
  {
    name: "a host and a cluster",
    args: [...GRANT, "--cluster", "prod"],
    error: /Pass either --host or --cluster/,
  },
  {
    name: "an action on a host",
    args: [...GRANT, "--action", "get pods web/a"],
    error: /'--action' has no effect with --host/,
  },
  {
    name: "no pattern and no action",
    args: ["policy", "grant", "--cluster", "prod"],
    error: /Pass --allow, or --action with --cluster/,
  },
  {
    name: "an action on all namespaces",
    args: ["policy", "grant", "--cluster", "prod", "--action", "get pods"],
    error: /Cannot read action/,
  },
])("policy rejects $name before it sends a request, with exit code 2", async ({ args, error }) => {
  await using signer = await FakeService.start({});
  const result = await signer.run(...args);
  assert.match(result.err, error);
  assert.deepEqual([result.out, result.exit, signer.requests], ["", 2, []]);
});
