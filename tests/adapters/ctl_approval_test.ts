import assert from "node:assert/strict";
import { FakeService } from "./ctl_signer_fixture.ts";

/** The output of `approval list` without times that depend on when the test runs. */
const withoutTimes = (out: string) =>
  out.replaceAll(/ {2}\d+\w(?= +(?:\ds|approved))/g, "  AGE").replace(/AGE +LEFT/, "AGE  LEFT");

const ID = "0123456789abcdef0123456789abcdef";

const PENDING = {
  id: ID,
  caller: "broker-local",
  end_user: "ann",
  host: "web01",
  command: "systemctl restart nginx",
  sudo: true,
  rule: "require_approval:^systemctl restart ",
  status: "pending",
  created_at: "2026-01-02T03:04:05.000000006Z",
  decided_at: "0001-01-01T00:00:00Z",
  expires_at: "2026-01-02T03:06:05Z",
};

const LEARNED = {
  ...PENDING,
  id: "ff".repeat(16),
  end_user: undefined,
  sudo: undefined,
  rule: undefined,
  status: "approved",
  decided_by: "approver-local",
  decided_at: "2026-01-02T03:04:07Z",
  learn_ttl: 7_200_000_000_000,
  expires_at: undefined,
};

Deno.test("approval list prints a table of the requests", async () => {
  await using service = await FakeService.start([PENDING, LEARNED]);
  const result = await service.run("approval", "list");
  assert.deepEqual({ ...result, out: withoutTimes(result.out) }, {
    out: [
      "ID        AGE  LEFT      AGENT         HOST   COMMAND                              REASON",
      `${ID.slice(0, 8)}  AGE  0s        ann           web01  [sudo:root] systemctl restart nginx  —`,
      `${LEARNED.id.slice(0, 8)}  AGE  approved  broker-local  web01  systemctl restart nginx              —`,
      "",
    ].join("\n"),
    err: "",
    exit: 0,
  });
  assert.deepEqual(service.requests, [
    { method: "GET", path: "/v1/approvals", body: undefined, caller: "approver-local" },
  ]);
});

Deno.test("approval list --status lists only requests of that status, also with --json", async () => {
  await using service = await FakeService.start([PENDING, LEARNED]);
  const { out } = await service.run("approval", "list", "--json", "-status=approved");
  assert.deepEqual(JSON.parse(out), [JSON.parse(JSON.stringify(LEARNED))]);
  assert.equal((await service.run("approval", "list", "--status", "denied")).out, "(no denied requests)\n");
});

Deno.test("approval list reports that there are no pending requests", async () => {
  await using service = await FakeService.start([]);
  assert.equal((await service.run("approval", "list")).out, "(no pending requests)\n");
  assert.equal((await service.run("--json", "approval", "list")).out, "[]\n");
});

Deno.test("approval list and show escape control characters and quote fields of a request", async () => {
  const hostile = {
    ...PENDING,
    end_user: "ann host=db01 elevation=none",
    host: "web01\x1b[2K\nffff",
    command: 'ls "\u202egnp.x\x9b2J\n',
    rule: "behavior\r\x1b]0;x",
    anomalies: ["new-host:\u200bweb01"],
  };
  await using service = await FakeService.start([hostile]);
  for (
    const args of [["list"], ["show", ID], ["list", "--json"], ["show", "--json", ID]].concat(
      ["wide", "yaml", "name"].map((format) => ["list", "-o", format]),
    )
  ) {
    const { out } = await service.run("approval", ...args);
    assert.doesNotMatch(out, /[^\n\P{Cc}]|\p{Cf}/u, args.join(" "));
  }
  const { out } = await service.run("approval", "list");
  assert.match(
    out,
    / {2}ann host=db01 elevation=none {2}"web01\\x1b\[2K\\nffff" {2}\[sudo:root\] "ls \\"\\u202egnp\.x\\u009b2J\\n" {2}—\n$/,
  );
});

Deno.test("approval show prints all fields of one request", async () => {
  await using service = await FakeService.start([PENDING, { ...LEARNED, anomalies: ["new-host:web01"] }]);
  assert.equal(
    (await service.run("approval", "show", ID)).out,
    [
      `id         ${ID}`,
      "status     pending",
      "caller     broker-local",
      "end user   ann",
      "host       web01",
      "elevation  sudo:root",
      'command    "systemctl restart nginx"',
      "rule       require_approval:^systemctl restart ",
      "created    2026-01-02T03:04:05.000000006Z",
      "expires    2026-01-02T03:06:05Z",
      "",
    ].join("\n"),
  );
  await using session = await FakeService.start([{
    ...PENDING,
    command: "",
    access: ["session:pty", "pty"],
  }]);
  assert.match(
    (await session.run("approval", "list")).out,
    / {2}\[sudo:root session:pty pty\] for an interactive shell, as root, on web01; /,
  );
  assert.match(
    (await session.run("approval", "show", ID)).out,
    /\naccess {5}session:pty, pty\ncommand {4}""\n/,
  );
  const asked = "for an interactive shell, as root, on web01; what is typed there is not shown to you";
  for (const command of ["list", "show"] as const) {
    const { out } = await session.run("approval", command, ...(command === "show" ? [ID] : []));
    assert.ok(out.includes(asked), out);
  }
  const { out } = await service.run("approval", "show", LEARNED.id);
  assert.match(
    out,
    /\nunusual {4}new-host:web01\n[\s\S]*decided {4}2026-01-02T03:04:07Z by approver-local\n/,
  );
  assert.match(
    out,
    /\nlearning {3}identical requests are approved automatically for at most 2h0m0s/,
  );
  const { decided_at: _never, ...shown } = PENDING;
  assert.deepEqual(JSON.parse((await service.run("approval", "show", ID, "--json")).out), shown);
});

Deno.test("approval list and show print reason, content and identical requests, under the ID of any of them", async () => {
  const other = "ee".repeat(16);
  await using service = await FakeService.start([{
    ...PENDING,
    command: "cat > '/a'",
    access: ["file_transfer"],
    account: "deploy",
    addr: "10.0.0.1:22",
    life_seconds: 300,
    reason: "deploy\x1b[2J",
    content_sha256: "ab".repeat(32),
    content_bytes: 12,
    content_head: "a\nb",
    joined: [other],
  }]);
  assert.match(
    (await service.run("approval", "list")).out,
    / {2}\[sudo:root file_transfer\] cat > '\/a' {2}"deploy\\x1b\[2J"\n$/,
  );
  const { out } = await service.run("approval", "show", other);
  for (
    const line of [
      `id         ${ID}`,
      "asks       to move a file with this command, as root, on web01",
      "address    10.0.0.1:22",
      "account    deploy",
      `writes     12 bytes, SHA-256 ${"ab".repeat(32)}`,
      String.raw`first      "a\nb"`,
      String.raw`reason     "deploy\x1b[2J"`,
      "cert       valid for 5 minutes",
      `same       ${other}`,
    ]
  ) assert.ok(out.split("\n").includes(line), `${line}\n${out}`);
});

Deno.test("approval show does not mention learning if an approved request was never collected", async () => {
  await using service = await FakeService.start([{ ...LEARNED, status: "expired" }]);
  const { out } = await service.run("approval", "show", LEARNED.id);
  assert.match(out, /\ndecided /);
  assert.doesNotMatch(out, /learn/);
});

Deno.test("approval list, show and --json print all of a long command", async () => {
  const command = `echo ${"a".repeat(60_000)} "; reboot`;
  await using service = await FakeService.start([{ ...PENDING, command }, LEARNED]);
  assert.match((await service.run("approval", "list")).out, /echo a{60000} "; reboot/);
  assert.match((await service.run("approval", "show", ID)).out, /\ncommand {4}"echo a{60000} \\"; reboot"\n/);
  assert.equal(JSON.parse((await service.run("approval", "list", "--json")).out)[0].command, command);
});

Deno.test("approval allow --learn prints a hint if there is nothing to learn", async () => {
  const detail = "nothing to learn: no policy rule requires approval; approve it without learn";
  await using service = await FakeService.refusing(400, detail, "invalid_request");
  const { out, err, exit } = await service.run("approval", "allow", ID, "--learn");
  assert.deepEqual([out, exit], ["", 1]);
  const [error, hint = ""] = err.split("\n");
  assert.equal(error, `error: approval allow failed (HTTP 400): ${detail}`);
  assert.equal(
    hint,
    `fix: the request is still pending; to approve it once: broker-ctl approval allow ${ID}`,
  );
});

Deno.test("approval show fails for an unknown request", async () => {
  await using service = await FakeService.start([PENDING]);
  const { out, err, exit } = await service.run("approval", "show", "nope");
  assert.deepEqual([out, exit], ["", 1]);
  assert.match(err, /^error: Cannot find approval "nope": unknown ID\nfix: broker-ctl approval list/);
});

/** The output of approve-and-learn. The requested time is the maximum. */
function learning(time: string): string {
  return [
    `request ${ID} approved`,
    `learning: identical requests are approved automatically for at most ${time} after the broker collects this approval`,
    "    max_grant_ttl_seconds of the signer limits this time; broker-ctl policy grants shows the expiry",
  ].join("\n");
}

interface Row {
  readonly args: string[];
  readonly body: object;
  readonly status?: string;
  readonly text: string;
}

Deno.test.each<Row>([
  { args: ["allow", ID], body: { approve: true }, text: `request ${ID} approved` },
  { args: ["approve", ID], body: { approve: true }, text: `request ${ID} approved` },
  { args: ["deny", ID], body: { approve: false }, status: "denied", text: `request ${ID} denied` },
  {
    args: ["deny", ID, "--reason", "not on a Friday"],
    body: { approve: false, comment: "not on a Friday" },
    status: "denied",
    text: `request ${ID} denied`,
  },
  {
    args: ["allow", "--reason", "ticket 42", ID],
    body: { approve: true, comment: "ticket 42" },
    text: `request ${ID} approved`,
  },
  { args: ["reject", ID], body: { approve: false }, status: "denied", text: `request ${ID} denied` },
  {
    args: ["allow", ID, "--learn", "--ttl", "2h"],
    body: { approve: true, learn: true, ttl_seconds: 7200 },
    text: learning("2h0m0s"),
  },
  {
    args: ["approve", "-ttl=90s", "-learn", ID],
    body: { approve: true, learn: true, ttl_seconds: 90 },
    text: learning("1m30s"),
  },
  {
    args: ["allow", "--learn=true", ID],
    body: { approve: true, learn: true, ttl_seconds: 3600 },
    text: learning("1h0m0s"),
  },
  { args: ["allow", "--learn=false", ID], body: { approve: true }, text: `request ${ID} approved` },
])("approval $args sends the decision and prints the result", async ({ args, body, status, text }) => {
  const record = { ...PENDING, status: status ?? "approved", decided_by: "approver-local" };
  await using service = await FakeService.start(record);
  assert.deepEqual(await service.run("approval", ...args), { out: `${text}\n`, err: "", exit: 0 });
  assert.deepEqual(service.requests, [
    {
      method: "POST",
      path: `/v1/approvals/${ID}`,
      body: { ...body, shown_ids: [ID] },
      caller: "approver-local",
    },
  ]);
  const json = await service.run("--json", "approval", ...args);
  assert.deepEqual([JSON.parse(json.out), json.err, json.exit], [record, "", 0]);
});

Deno.test("approval allow decides all named requests and prints only confirmed decisions", async () => {
  const [, second] = [ID, LEARNED.id];
  const record = { ...PENDING, status: "approved", decided_by: "approver-local" };
  await using service = await FakeService.start({ ...record, joined: [second] });
  assert.deepEqual(await service.run("approval", "allow", ID, second), {
    out: `request ${ID} approved\nrequest ${second} approved\n`,
    ...{ err: "", exit: 0 },
  });
  assert.deepEqual(service.requests.map(({ body }) => body), [{ approve: true, shown_ids: [ID, second] }]);
  await using older = await FakeService.start(record);
  const { out, err, exit } = await older.run("approval", "allow", ID, second);
  assert.deepEqual([out, exit], ["", 1]);
  assert.match(err, /did not confirm the decision on/);
});

Deno.test.each([
  { name: "another status", record: { ...PENDING, status: "denied" }, error: /the request is denied/ },
  { name: "another request", record: { ...LEARNED }, error: /approval allow failed/ },
  {
    name: "what is not an approval",
    record: { status: "approved" },
    error: /did not respond like a control plane/,
  },
])("approval allow reports an error if the response is $name", async ({ record, error }) => {
  await using service = await FakeService.start(record);
  const { out, err, exit } = await service.run("approval", "allow", ID);
  assert.deepEqual([out, exit], ["", 1]);
  assert.match(err, error);
});

const SELF = "self-approval not allowed: broker-local asked for this itself";

Deno.test.each<{ args: string[]; status: number; detail: string; hint: RegExp }>([
  { args: ["allow", ID], status: 403, detail: SELF, hint: /requesters cannot decide their own requests/ },
  { args: ["deny", ID], status: 403, detail: "not authorised to approve", hint: /approval\.callers/ },
  { args: ["allow", ID], status: 409, detail: "not pending: expired", hint: /^fix: the request was decided/ },
  { args: ["allow", ID], status: 500, detail: "audit unavailable", hint: /the control plane's log/ },
  {
    args: ["list"],
    status: 401,
    detail: "unauthenticated",
    hint: /^fix: use a certificate of the control plane's client_ca/,
  },
  { args: ["list"], status: 403, detail: "not authorised", hint: /approval\.callers of the control plane/ },
  { args: ["show", ID], status: 404, detail: "No such route", hint: /is this the control plane/ },
])("approval $args prints HTTP $status and a hint, with exit code 1", async (row) => {
  await using service = await FakeService.refusing(row.status, row.detail);
  const { out, err, exit } = await service.run("approval", ...row.args);
  assert.deepEqual([out, exit], ["", 1]);
  const [error, hint = ""] = err.split("\n");
  assert.equal(error, `error: approval ${row.args[0]} failed (HTTP ${row.status}): ${row.detail}`);
  assert.match(hint, row.hint);
});

Deno.test.each<{ name: string; args: string[]; error: RegExp }>([
  { name: "a time without --learn", args: ["allow", ID, "--ttl", "2h"], error: /'--ttl' .* without --learn/ },
  { name: "an invalid time", args: ["allow", ID, "--learn", "--ttl", "soon"], error: /duration "soon"/ },
  { name: "no time", args: ["allow", ID, "--learn", "--ttl", "0s"], error: /at least 1/ },
  { name: "less than a second", args: ["allow", ID, "--learn", "--ttl", "500ms"], error: /whole seconds/ },
  { name: "200 years", args: ["allow", ID, "--learn", "--ttl", "1753200h"], error: /the maximum is/ },
  {
    name: "a value after --learn",
    args: ["allow", ID, "--learn", "2h"],
    error: /"2h": expected an approval ID/,
  },
  { name: "an extra word after a request", args: ["deny", ID, "x"], error: /"x": expected an approval ID/ },
  { name: "a path", args: ["allow", "../../v1/sign?x=1#"], error: /expected an approval ID/ },
  { name: "an unknown status", args: ["list", "--status", "open"], error: /Allowed choices are pending/ },
])("approval rejects $name before it sends a request, with exit code 2", async ({ args, error }) => {
  await using service = await FakeService.start([]);
  const result = await service.run("approval", ...args);
  assert.match(result.err, error);
  assert.deepEqual([result.out, result.exit, service.requests], ["", 2, []]);
});

Deno.test("approval uses --url instead of the URL in the client config", async () => {
  await using service = await FakeService.start([]);
  const { err } = await service.run("approval", "list", "--url", "127.0.0.1:1", "--json");
  const { message, hint } = JSON.parse(err);
  assert.equal(message, "Failed contacting the control plane at https://127.0.0.1:1");
  assert.match(hint, /^nothing listens at this address: start the control plane/);
});
