import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { AppError } from "@gateway/shared/errors";
import { BrokerFixture, MAX_TRANSFER_BYTES, MAX_TTL_SECONDS } from "../testing/broker_fixture.ts";
import { SERIAL } from "../testing/fake_authority.ts";
import { printed, sent } from "../testing/fake_runner.ts";
import type { GetRequest, PutRequest } from "./transfer.ts";

const ALL_BYTES = Uint8Array.from({ length: 256 }, (_, byte) => byte);
const who = { caller: "agent-1", callerGroups: null, host: "web01", ttlSeconds: 0, path: "/tmp/a" };
const { signal } = new AbortController();

const put = (broker: BrokerFixture, request: Partial<PutRequest> = {}) =>
  broker.putFile({ ...who, content: ALL_BYTES, mode: "", ...request }, signal);
const get = (broker: BrokerFixture, request: Partial<GetRequest> = {}) =>
  broker.getFile({ ...who, maxBytes: 0, ...request }, signal);

function prints(broker: BrokerFixture, stdout: Uint8Array<ArrayBuffer>): void {
  broker.runner.answer = () => ({ ...printed(""), stdout: sent(stdout) });
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

Deno.test("putFile() hands the bytes to the command that its certificate is made for", async () => {
  const broker = new BrokerFixture();
  assert.deepEqual(await put(broker, { mode: "640", bearerToken: "secret" }), {
    sha256: sha256(ALL_BYTES),
    serial: SERIAL,
    warnings: [],
  });
  const command = "cat > '/tmp/a' && chmod 640 '/tmp/a'";
  assert.deepEqual(broker.authority.requests, [{
    host: "web01",
    role: "target",
    purpose: "oneshot",
    command,
    file_transfer: true,
    content_sha256: sha256(ALL_BYTES),
    content_bytes: 256,
    content_head: "",
    ttl_seconds: MAX_TTL_SECONDS,
    public_key: "ssh-ed25519 EEEE",
    end_user: "agent-1",
    end_user_groups: null,
    bearer_token: "secret",
  }]);
  const [run] = broker.runner.runs;
  assert.equal(run?.command, command);
  assert.equal(run?.pty, false);
  assert.deepEqual(run?.stdin, ALL_BYTES);
});

Deno.test("putFile() records what ran, then what was written", async () => {
  const broker = new BrokerFixture();
  await put(broker);
  const digest = sha256(ALL_BYTES);
  assert.deepEqual(
    broker.log.entries.map((
      { outcome, command, serial, host, user },
    ) => [outcome, command, serial, host, user]),
    [
      ["executed", "cat > '/tmp/a'", SERIAL, "10.0.0.1:22", "deploy"],
      ["file_put", `path=/tmp/a bytes=256 sha256=${digest}`, SERIAL, "10.0.0.1:22", "deploy"],
    ],
  );
});

Deno.test.each([
  ["an allow rule names it", true, "allow:^head -c [0-9]+ < '/proc/(version|loadavg)'$"],
  ["no rule decides", false, undefined],
  ["a rule allows everything", false, "allow:^head .*$"],
  ["a rule names another folder", false, "allow:^head -c [0-9]+ < '/process/.*|/sys/.*'$"],
  ["a rule of approval names it", false, "require_approval:/proc"],
])("getFile() of a path in /proc, where %s (allowed: %s)", async (_name, allowed, rule) => {
  const broker = new BrokerFixture();
  const { answer } = broker.authority;
  broker.authority.answer = (request, ...rest) =>
    request.dry_run === true
      ? {
        kind: "decided",
        decision: { allowed: true, ...(rule === undefined ? {} : { matched_rule: rule }) },
      }
      : answer(request, ...rest);
  const got = get(broker, { path: "/proc/loadavg" });
  if (allowed) await got;
  else {await assert.rejects(got, {
      code: "invalid_request",
      message: /^bad request: path is in \/proc, where only/,
    });}
  assert.equal(broker.runner.runs.length, allowed ? 1 : 0);
});

Deno.test("putFile() writes an empty file", async () => {
  const broker = new BrokerFixture();
  await put(broker, { content: new Uint8Array() });
  assert.deepEqual(broker.runner.runs[0]?.stdin, new Uint8Array());
});

Deno.test("putFile() does not hold the stdin open where the signer ends commands by it (K16)", async () => {
  const broker = new BrokerFixture();
  broker.authority.list = () => ({
    web01: { addr: "10.0.0.1:22", user: "u", host_key: "k", stop_on_disconnect: true },
  });
  await put(broker);
  assert.equal(broker.runner.runs[0]?.stopsAtStdinEnd, false);
});

Deno.test.each<[name: string, request: Partial<PutRequest>, message: string]>([
  [
    "more than the limit",
    { content: new Uint8Array(MAX_TRANSFER_BYTES + 1) },
    `content is ${MAX_TRANSFER_BYTES + 1} bytes, the transfer limit is ${MAX_TRANSFER_BYTES}`,
  ],
  ["a path with a blank", { path: "/a b" }, "path contains whitespace or control characters"],
  ["a broken mode", { mode: "u+x" }, 'invalid mode "u+x" (expect 3-4 octal digits)'],
])("putFile() refuses %s before anything is signed, without a record", async (_name, request, message) => {
  const broker = new BrokerFixture();
  await assert.rejects(put(broker, request), { code: "invalid_request", message: `bad request: ${message}` });
  assert.deepEqual(broker.authority.requests, []);
  assert.deepEqual(broker.log.entries, []);
});

Deno.test("putFile() takes exactly the limit", async () => {
  await put(new BrokerFixture(), { content: new Uint8Array(MAX_TRANSFER_BYTES) });
});

Deno.test("getFile() gives every byte as the host sent it", async () => {
  const broker = new BrokerFixture();
  prints(broker, ALL_BYTES);
  assert.deepEqual(await get(broker), {
    bytes: ALL_BYTES,
    sha256: sha256(ALL_BYTES),
    serial: SERIAL,
    warnings: [],
  });
  assert.equal(broker.authority.requests[0]?.file_transfer, true);
  assert.equal(broker.runner.runs[0]?.command, `head -c ${MAX_TRANSFER_BYTES + 1} < '/tmp/a'`);
  assert.equal(broker.runner.runs[0]?.stdin, undefined);
  assert.deepEqual(broker.log.entries.map(({ outcome, command }) => [outcome, command]), [
    ["executed", `head -c ${MAX_TRANSFER_BYTES + 1} < '/tmp/a'`],
    ["file_get", `path=/tmp/a bytes=256 sha256=${sha256(ALL_BYTES)}`],
  ]);
});

Deno.test.each([
  { name: "none is asked for", asked: 0, limit: MAX_TRANSFER_BYTES },
  { name: "a negative one is", asked: -1, limit: MAX_TRANSFER_BYTES },
  { name: "a larger one is", asked: MAX_TRANSFER_BYTES + 1, limit: MAX_TRANSFER_BYTES },
  { name: "a smaller one is", asked: 10, limit: 10 },
])("getFile() has the limit of $limit when $name, and refuses a byte more", async ({ asked, limit }) => {
  const broker = new BrokerFixture();
  prints(broker, new Uint8Array(limit));
  assert.equal((await get(broker, { maxBytes: asked })).bytes.length, limit);
  prints(broker, new Uint8Array(limit + 1));
  await assert.rejects(get(broker, { maxBytes: asked }), {
    code: "invalid_request",
    message: `bad request: file exceeds the transfer limit of ${limit} bytes`,
  });
  assert.deepEqual(broker.log.entries.map(({ outcome }) => outcome), ["executed", "file_get", "executed"]);
});

Deno.test("getFile() refuses a path before anything is signed", async () => {
  const broker = new BrokerFixture();
  await assert.rejects(get(broker, { path: "" }), { message: "bad request: path is required" });
  assert.deepEqual(broker.authority.requests, []);
});

Deno.test.each([
  { verb: "write", transfer: (broker: BrokerFixture) => put(broker) },
  { verb: "read", transfer: (broker: BrokerFixture) => get(broker) },
])(
  "a transfer whose $verb fails on the host says why, and is not a transfer in the log",
  async ({ verb, transfer }) => {
    const broker = new BrokerFixture();
    broker.runner.answer = () =>
      printed("half a file", { stderr: "sh: /tmp/a: Permission denied\n", exitCode: 2 });
    await assert.rejects(transfer(broker), {
      code: "upstream_failure",
      message: `upstream failure: remote ${verb} failed (exit 2): "sh: /tmp/a: Permission denied"`,
    });
    assert.deepEqual(broker.log.entries.map(({ outcome, exit_code }) => [outcome, exit_code]), [[
      "executed",
      2,
    ]]);
  },
);

Deno.test.each([
  { name: "putFile()", transfer: (broker: BrokerFixture) => put(broker) },
  { name: "getFile()", transfer: (broker: BrokerFixture) => get(broker) },
])("$name repeats no more than a little of what a host says", async ({ transfer }) => {
  const broker = new BrokerFixture();
  broker.runner.answer = () => printed("", { stderr: "x".repeat(100_000), exitCode: 1 });
  await assert.rejects(transfer(broker), (error) => error instanceof AppError && error.message.length < 2000);
});

Deno.test.each([
  { name: "putFile()", transfer: (broker: BrokerFixture) => put(broker) },
  { name: "getFile()", transfer: (broker: BrokerFixture) => get(broker) },
])("$name is refused where a human has to approve", async ({ transfer }) => {
  const broker = new BrokerFixture();
  broker.authority.answer = () => ({ kind: "needs_approval", rule: "require_approval:^cat" });
  await assert.rejects(transfer(broker), {
    code: "approval_required",
    message: /^command on "web01" requires human approval \(require_approval:\^cat\); /,
  });
  assert.deepEqual(broker.runner.runs, []);
});

Deno.test.each([
  { name: "putFile()", transfer: (broker: BrokerFixture) => put(broker) },
  { name: "getFile()", transfer: (broker: BrokerFixture) => get(broker) },
])(
  "$name gives nothing back when the transfer can't be recorded in closed mode (L11)",
  async ({ transfer }) => {
    const broker = new BrokerFixture();
    const append = broker.log.append.bind(broker.log);
    broker.log.append = (entry) => {
      broker.log.failing = entry.outcome !== "executed";
      return append(entry);
    };
    await assert.rejects(transfer(broker), { code: "audit_unavailable", message: "audit unavailable" });
    assert.deepEqual(broker.log.entries.map(({ outcome }) => outcome), ["executed"]);
  },
);
