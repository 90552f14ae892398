import assert from "node:assert/strict";
import { FakeService } from "./ctl_signer_fixture.ts";

const FROZEN = { status: "ok", newly_frozen: true, grants_revoked: 2 };
const AGAIN = { status: "ok", newly_frozen: false, grants_revoked: 0 };

interface Row {
  readonly args: string[];
  readonly answer: unknown;
  readonly path?: string;
  readonly body: unknown;
  readonly text: string;
}

Deno.test.each<Row>([
  {
    args: ["freeze", "--caller", "agent-7"],
    answer: FROZEN,
    body: { kind: "caller", value: "agent-7", reason: "", allow_volatile: false },
    text: "frozen caller=agent-7 (grants revoked: 2)\n",
  },
  {
    args: ["freeze", "--caller", "agent"],
    answer: { ...FROZEN, warning: "nobody named caller=agent" },
    body: { kind: "caller", value: "agent", reason: "", allow_volatile: false },
    text: "frozen caller=agent (grants revoked: 2)\nwarning: nobody named caller=agent\n",
  },
  {
    args: ["freeze", "-end-user=ann", "--reason", "INC-42  leaked key", "--volatile"],
    answer: AGAIN,
    body: { kind: "end_user", value: "ann", reason: "INC-42_leaked_key", allow_volatile: true },
    text: "already frozen (refreshed) end_user=ann (grants revoked: 0)\n",
  },
  {
    args: ["freeze", "--serial", "18446744073709551615", "--volatile=false"],
    answer: FROZEN,
    body: { kind: "serial", value: "18446744073709551615", reason: "", allow_volatile: false },
    text: "frozen serial=18446744073709551615 (grants revoked: 2)\n",
  },
  {
    args: ["session", "kill", "5f75dc071de6c26330dd3468", "--reason", "INC-42", "--volatile"],
    answer: FROZEN,
    body: {
      kind: "session_id",
      value: "5f75dc071de6c26330dd3468",
      reason: "INC-42",
      allow_volatile: true,
    },
    text:
      "frozen session_id=5f75dc071de6c26330dd3468 (grants revoked: 2); its broker ends the session at the next poll\n",
  },
  {
    args: ["unfreeze", "--session-id", "s-1"],
    answer: { status: "ok", was_frozen: true },
    path: "/v1/unfreeze",
    body: { kind: "session_id", value: "s-1" },
    text: "unfrozen session_id=s-1\n",
  },
  {
    args: ["unfreeze", "--serial", "007"],
    answer: { status: "ok", was_frozen: false },
    path: "/v1/unfreeze",
    body: { kind: "serial", value: "7" },
    text: "serial=7 was not frozen\n",
  },
])(
  "$args sends the request to the signer and prints the result",
  async ({ args, answer, path = "/v1/freeze", body, text }) => {
    await using signer = await FakeService.start(answer);
    assert.deepEqual(await signer.run(...args), { out: text, err: "", exit: 0 });
    assert.deepEqual(signer.requests, [{ method: "POST", path, body, caller: "operator-local" }]);
    const json = await signer.run(...args, "--json");
    assert.deepEqual([JSON.parse(json.out), json.err, json.exit], [answer, "", 0]);
  },
);

Deno.test("freeze reports that the signer could not store it, with exit code 1", async () => {
  const answer = { ...FROZEN, persisted: false, warning: "nobody named caller=x" };
  await using signer = await FakeService.start(answer);
  const { out, err, exit } = await signer.run("freeze", "--caller", "x");
  assert.deepEqual([err, exit], ["", 1]);
  const [done, stored, warning] = out.split("\n");
  assert.equal(done, "frozen caller=x (grants revoked: 2)");
  assert.match(
    stored ?? "",
    /^not stored: in force until the signer restarts; .*freeze again$/,
  );
  assert.equal(warning, "warning: nobody named caller=x");
  const json = await signer.run("freeze", "--caller", "x", "--json");
  assert.deepEqual([JSON.parse(json.out), json.exit], [answer, 1]);
});

const READERS = [
  { caller: "db.krl", hosts: ["db01", "db02"], version: 9, seen_at: "2026-01-02T03:04:05Z" },
  { caller: "web01.krl", hosts: ["web01"], version: 9, seen_at: "2026-01-02T03:04:05Z" },
];

Deno.test("freeze --wait lists the hosts that have the revocation", async () => {
  const counts = { certificates_revoked: 3, tokens_revoked: 4 };
  const answer = { ...FROZEN, ...counts, krl_version: 9, version: 9, readers: READERS };
  await using signer = await FakeService.start(answer);
  const { out, exit } = await signer.run("freeze", "--caller", "x", "--wait");
  assert.deepEqual(out.split("\n"), [
    "frozen caller=x (grants revoked: 2, certificates revoked: 3, Kubernetes tokens revoked: 4)",
    "revocation list 9: installed on 2 of 2",
    "current: db01,db02 (db.krl)",
    "current: web01 (web01.krl)",
    "",
  ]);
  assert.equal(exit, 0);
  assert.deepEqual(signer.requests.map(({ path }) => path), ["/v1/freeze", "/v1/krl/hosts"]);
});

Deno.test("freeze --wait lists signers that did not confirm, and exits with 1", async () => {
  const answer = { ...FROZEN, krl_version: 9, version: 9, readers: READERS, silent_signers: ["signer-2"] };
  await using signer = await FakeService.start(answer);
  const waited = await signer.run("freeze", "--caller", "x", "--wait");
  assert.match(
    waited.out,
    /\nnot confirmed by signer signer-2: certificates of its last 2 s /,
  );
  assert.equal(waited.exit, 1);
});

Deno.test.each<{ name: string; answer: object; text: RegExp }>([
  {
    name: "the signer publishes no revocation list",
    answer: FROZEN,
    text: /the signer publishes no revocation list: .*envelope_key/,
  },
  {
    name: "no host fetches the revocation list",
    answer: { ...FROZEN, krl_version: 9, version: 9, readers: [] },
    text: /no host fetches the list: krl_callers .* is empty/,
  },
])("freeze --wait reports that no host enforces it if $name, with exit code 1", async ({ answer, text }) => {
  await using signer = await FakeService.start(answer);
  const { out, exit } = await signer.run("freeze", "--caller", "x", "--wait");
  assert.match(out, text);
  assert.equal(exit, 1);
});

Deno.test("freeze --wait rejects a session before it sends a request", async () => {
  await using signer = await FakeService.start(FROZEN);
  const { err, exit } = await signer.run("freeze", "--session-id", "s", "--wait");
  assert.match(err, /freeze its --serial/);
  assert.deepEqual([exit, signer.requests], [2, []]);
});

Deno.test.each<{ args: string[]; path: string; body: unknown; text: string }>([
  {
    args: ["--serial", "18446744073709551615", "--reason", "INC-7"],
    path: "/v1/revocations/serials",
    body: { serials: [Number(18446744073709551615n)], reason: "INC-7" },
    text: "added serial=18446744073709551615 to revocation list 9; certificates revoked: 1\n",
  },
  {
    args: ["--key-id", "agent=a host=b role=target t=1"],
    path: "/v1/revocations/key-ids",
    body: { key_ids: ["agent=a host=b role=target t=1"], reason: "" },
    text: 'added key_id="agent=a host=b role=target t=1" to revocation list 9; certificates revoked: 1\n',
  },
])("revoke $args sends the request and prints the result", async ({ args, path, body, text }) => {
  await using signer = await FakeService.start({
    status: "ok",
    revoked: 1,
    krl_version: 9,
    version: 9,
    readers: READERS,
  });
  assert.deepEqual(await signer.run("revoke", ...args), { out: text, err: "", exit: 0 });
  assert.deepEqual(signer.requests, [{ method: "POST", path, body, caller: "operator-local" }]);
  assert.match((await signer.run("revoke", ...args, "--wait")).out, /installed on 2 of 2/);
});

Deno.test.each<{ args: string[]; text: RegExp }>([
  { args: [], text: /Pass either --serial or --key-id/ },
  { args: ["--serial", "1", "--key-id", "a"], text: /Pass either --serial or --key-id/ },
  { args: ["--serial", "0"], text: /expected a number from 1/ },
  { args: ["--serial", "18446744073709551616"], text: /expected a number from 1/ },
  { args: ["--serial", "1", "--reason", "a\tb"], text: /--reason must have no control characters/ },
  { args: ["--key-id", "a\nb"], text: /--key-id is empty, too long or has control characters/ },
  { args: ["--key-id", "a", "--reason", "a\tb"], text: /--reason must have no control characters/ },
])("revoke $args is rejected", async ({ args, text }) => {
  await using signer = await FakeService.start({});
  const { err, exit } = await signer.run("revoke", ...args);
  assert.match(err, text);
  assert.deepEqual([exit, signer.requests], [2, []]);
});

Deno.test("revocations lists frozen subjects by kind and value", async () => {
  await using signer = await FakeService.start([
    { kind: "serial", value: "7", frozen_at: "2026-01-02T03:04:05Z" },
    { kind: "caller", value: "b", frozen_at: "2026-01-02T03:04:05Z", reason: "x\x9by", frozen_by: "op" },
    { kind: "caller", value: "a", frozen_at: "2026-01-02T03:04:06Z", reason: "", frozen_by: "op" },
  ]);
  assert.deepEqual(await signer.run("revocations", "-o", "wide"), {
    out: [
      "KIND    VALUE  AGE                   BY  REASON",
      "caller  a      2026-01-02T03:04:06Z  op  —",
      "caller  b      2026-01-02T03:04:05Z  op  x\\x9by",
      "serial  7      2026-01-02T03:04:05Z  —   —",
      "",
    ].join("\n"),
    err: "",
    exit: 0,
  });
  assert.deepEqual(signer.requests.map(({ method, path, body }) => [method, path, body]), [
    ["GET", "/v1/revocations", undefined],
  ]);
  assert.equal((await signer.run("revocations", "-o", "name")).out, "a\nb\n7\n");
  const { out } = await signer.run("revocations", "--json");
  assert.equal(JSON.parse(out)[1].reason, "x\x9by");
  assert.match(out, /x\\u009by/);
});

Deno.test("revocations reports that no subject is frozen", async () => {
  await using signer = await FakeService.start([]);
  assert.equal((await signer.run("revocations")).out, "(no frozen subjects)\n");
  assert.equal((await signer.run("--json", "revocations")).out, "[]\n");
});

Deno.test("revocations rejects a list with an unknown kind", async () => {
  await using signer = await FakeService.start([{ kind: "host", value: "x", frozen_at: "" }]);
  const { err, exit } = await signer.run("revocations");
  assert.match(err, /did not respond like a signer/);
  assert.equal(exit, 1);
});

const FREEZE = ["freeze", "--caller", "x"];
const KILL = ["session", "kill", "5f75dc071de6c26330dd3468"];

Deno.test.each<{ what: string; args: string[]; status: number; detail: string; hint: RegExp }>([
  {
    what: "freeze",
    args: FREEZE,
    status: 400,
    detail: "value: blanks",
    hint: /^fix: broker-ctl freeze --help$/,
  },
  { what: "freeze", args: FREEZE, status: 401, detail: "no certificate", hint: /client_ca/ },
  { what: "freeze", args: FREEZE, status: 403, detail: "not in reload_callers", hint: /reload_callers/ },
  { what: "freeze", args: FREEZE, status: 409, detail: "no state_db", hint: /--volatile.*state_db/ },
  { what: "freeze", args: FREEZE, status: 500, detail: "audit unavailable", hint: /see the signer's log/ },
  { what: "session kill", args: KILL, status: 409, detail: "no state_db", hint: /--volatile.*state_db/ },
  { what: "revocations", args: ["revocations"], status: 401, detail: "no", hint: /client_ca/ },
  {
    what: "revocations",
    args: ["revocations"],
    status: 404,
    detail: "No such route",
    hint: /is this the signer/,
  },
])(
  "$what prints HTTP $status and a hint, with exit code 1",
  async ({ what, args, status, detail, hint }) => {
    await using signer = await FakeService.refusing(status, detail);
    const { out, err, exit } = await signer.run(...args);
    assert.deepEqual([out, exit], ["", 1]);
    const [error, advice = ""] = err.split("\n");
    assert.equal(error, `error: ${what} failed (HTTP ${status}): ${detail}`);
    assert.match(advice, hint);
  },
);

Deno.test.each<{ name: string; args: string[]; error: RegExp }>([
  { name: "no subject", args: ["freeze"], error: /Pass exactly one of --caller/ },
  {
    name: "two subjects",
    args: ["freeze", "--caller", "x", "--end-user", "y"],
    error: /Pass exactly one of --caller/,
  },
  { name: "an empty caller", args: ["freeze", "--caller", ""], error: /must not be empty/ },
  { name: "a caller with spaces", args: ["freeze", "--caller", "a b"], error: /contain spaces/ },
  { name: "a session with a newline", args: ["session", "kill", "a\nb"], error: /"a\\nb": it must not/ },
  { name: "an invalid serial", args: ["freeze", "--serial", "0x10"], error: /"0x10": expected a number/ },
  {
    name: "a serial of 65 bits",
    args: ["freeze", "--serial", "18446744073709551616"],
    error: /expected a number/,
  },
  {
    name: "a reason with a tab",
    args: [...FREEZE, "--reason", "incident\t42"],
    error: /no control characters/,
  },
])("the kill switch rejects $name before it sends a request, with exit code 2", async ({ args, error }) => {
  await using signer = await FakeService.start(FROZEN);
  const result = await signer.run(...args);
  assert.match(result.err, error);
  assert.deepEqual([result.out, result.exit, signer.requests], ["", 2, []]);
});
