import assert from "node:assert/strict";
import { ALONE } from "@gateway/shared/instances";
import { get, NOW_MS, post, startSigner } from "../testing/memory_signer.ts";
import { REPORTED_LIMITS } from "../live/session_reports.ts";

const OPEN = {
  ...{ id: "5f75dc071de6c26330dd3468", end_user: "ann", host: "web01", mode: "exec" },
  ...{ opened_at: "2023-11-14T22:13:20Z", last_command: "uptime", recorded: false },
};
const report = (instance: string, sessions: unknown = [OPEN], more = {}) => ({ instance, sessions, ...more });
const [FIRST, SECOND] = ["0123456789abcdef", "fedcba9876543210"] as const;
const from = (changes: object) => report(FIRST, [{ ...OPEN, ...changes }]);
const many = (count: number) => Array.from({ length: count }, (_, index) => ({ ...OPEN, id: `s-${index}` }));

Deno.test.each<[name: string, status: number, body: unknown]>([
  ["one session", 200, report(FIRST)],
  ["the name of another caller", 200, report(FIRST, [OPEN], { caller: "approver-broker" })],
  ["control characters in a command", 200, from({ last_command: "\x1b]52;c;QQ==\x07\n" })],
  ["200 sessions", 200, report(FIRST, many(200))],
  ["201 sessions", 400, report(FIRST, many(201))],
  ["a million sessions", 413, `{"instance":"${FIRST}","sessions":[${"{},".repeat(1e6)}{}]}`],
  ["a long command", 400, from({ last_command: "x".repeat(257) })],
  ["a command of a megabyte", 413, from({ last_command: "x".repeat(1 << 20) })],
  ["a long id", 400, from({ id: "x".repeat(65) })],
  ["a space in an id", 400, from({ id: "a b" })],
  ["a control character in an id", 400, from({ id: "a\x1b[2J" })],
  ["an unknown mode", 400, from({ mode: "root" })],
  ["a time that is none", 400, from({ opened_at: "yesterday" })],
  ["a long time", 400, from({ opened_at: `2023-11-14T22:13:20.${"0".repeat(99)}Z` })],
  ["a number as a host", 400, from({ host: 7 })],
  ["a text as a flag", 400, from({ recorded: "yes" })],
  ["an object as the list", 400, report(FIRST, {})],
  ["another form of instance name", 400, report("1")],
  ["text", 400, "sessions"],
])("POST /v1/sessions with %s: status %s", async (_name, status, body) => {
  const { tell, callers } = await startListing();
  assert.equal((await tell(body)).status, status);
  assert.deepEqual(await callers(), status === 200 ? ["broker-1"] : []);
});

Deno.test.each<[name: string, status: number, cn: string, onBehalfOf: string]>([
  ["a forwarder for a broker", 200, "control-plane", "broker-1"],
  ["another broker for a broker", 403, "approver-broker", "broker-1"],
  ["a forwarder for a host identity", 403, "control-plane", "web01.krl"],
  ["a caller without hosts", 403, "operator", ""],
  ["a broker around its control plane", 403, "broker-2", ""],
  ["a forwarder for a frozen broker", 403, "control-plane", "broker-2"],
])("POST /v1/sessions by %s: status %s", async (_name, status, cn, onBehalfOf) => {
  const via = { allowed_groups: ["web"], only_via: ["control-plane"] };
  const { tell, callers, freeze } = await startListing({ callers: { "broker-1": via, "broker-2": via } });
  await freeze("caller", "broker-2");
  const headers = onBehalfOf === "" ? {} : { "x-on-behalf-of": onBehalfOf };
  assert.equal((await tell(report(FIRST), cn, headers)).status, status);
  assert.deepEqual(await callers(), status === 200 ? ["broker-1"] : []);
});

Deno.test.each<[cn: string, status: number]>([
  ["operator", 200],
  ["broker-1", 403],
  ["control-plane", 403],
  ["somebody", 403],
])("GET /v1/sessions by %s: status %s, and a rejection is recorded", async (cn, status) => {
  const signer = await startSigner();
  assert.equal((await signer.send(get("/v1/sessions"), cn)).status, status);
  const recorded = signer.log.entries.map(({ caller, outcome, command }) => ({ caller, outcome, command }));
  assert.deepEqual(
    recorded,
    status === 200 ? [] : [{ caller: cn, outcome: "policy-denied", command: "sessions" }],
  );
});

async function startListing(...options: Parameters<typeof startSigner>) {
  const signer = await startSigner(...options);
  const list = async () => {
    const { sessions } = (await signer.send(get("/v1/sessions"), "operator")).body;
    return sessions as { id: string; caller: string }[];
  };
  return {
    ...signer,
    tell: (body: unknown, cn?: string, headers?: Record<string, string>) =>
      signer.send(post("/v1/sessions", body, headers), cn),
    ids: async () => (await list()).map(({ id }) => id),
    callers: async () => [...new Set((await list()).map(({ caller }) => caller))],
  };
}

Deno.test("a report replaces the report of the same process, and one that is not renewed is dropped", async () => {
  const { tell, ids, clock, send } = await startListing();
  await tell(from({ id: "a", opened_at: "2023-11-14T22:13:21Z" }));
  await tell(report(SECOND, [{ ...OPEN, id: "b" }]));
  await tell(report(FIRST, [{ ...OPEN, id: "c" }]), "approver-broker");
  assert.deepEqual(await ids(), ["b", "c", "a"]);
  await tell(report(FIRST, []));
  assert.deepEqual(await ids(), ["b", "c"]);
  await clock.advance(40_000);
  await tell(from({ id: "d" }));
  await clock.advance(20_000);
  const { body } = await send(get("/v1/sessions"), "operator");
  assert.deepEqual(body, { sessions: [{ caller: "broker-1", ...OPEN, id: "d" }], complete: true });
  assert.equal(clock.now(), NOW_MS + 60_000);
});

Deno.test("reports of many processes and callers stay within the limits, and the oldest are dropped", async () => {
  const callers = Object.fromEntries(
    Array.from({ length: 12 }, (_, index) => [`b-${index}`, { allowed_groups: ["web"] }]),
  );
  const { tell, ids } = await startListing({ callers });
  const flood = async (cn: string) => {
    for (let index = 0; index < 7; index += 1) await tell(report(`${index}`.repeat(16), many(200)), cn);
  };
  await tell(from({ id: "other" }), "b-1");
  await flood("b-0");
  assert.equal((await ids()).length, REPORTED_LIMITS.ofCaller + 1);
  assert.ok((await ids()).includes("other"), "one caller does not displace the sessions of another");
  for (const cn of Object.keys(callers)) await flood(cn);
  assert.equal((await ids()).length, REPORTED_LIMITS.total);
});

Deno.test("reports have a rate limit of their own", async () => {
  const { tell, sign } = await startListing({ sign_rate_limit_per_min: 2 });
  const statuses = [];
  for (let index = 0; index < 3; index += 1) statuses.push((await tell(report(FIRST))).status);
  assert.deepEqual(statuses, [200, 200, 429]);
  assert.equal((await sign({})).status, 200);
});

Deno.test("the list of one of several signers is not complete", async () => {
  const signer = await startSigner({}, { instances: { ...ALONE, isShared: true } });
  assert.equal((await signer.send(get("/v1/sessions"), "operator")).body["complete"], false);
});
