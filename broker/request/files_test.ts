import assert from "node:assert/strict";
import {
  checkMode,
  checkPath,
  decodeContent,
  describeContent,
  encodeContent,
  findKernelDirectory,
  getCommand,
  type GetRequest,
  putCommand,
  type PutRequest,
} from "./transfer.ts";
import fc from "fast-check";
import { createHash } from "node:crypto";
import { AppError } from "@gateway/shared/errors";
import { BrokerFixture, MAX_TRANSFER_BYTES, MAX_TTL_SECONDS } from "../testing/broker_fixture.ts";
import { SERIAL } from "../testing/fake_authority.ts";
import { printed, sent } from "../testing/fake_runner.ts";

Deno.test.each([
  ["a file", "/tmp/a", "", "cat > '/tmp/a'"],
  ["a file and its mode", "/tmp/a", "0600", "cat > '/tmp/a' && chmod 0600 '/tmp/a'"],
  ["a name with a quote", "/tmp/it's", "", String.raw`cat > '/tmp/it'\''s'`],
  ["a name with shell in it", "/tmp/$(id);x", "", "cat > '/tmp/$(id);x'"],
  ["a name with a dash", "-x", "", "cat > '-x'"],
])("putCommand() returns the command for %s", (_name, path, mode, command) => {
  assert.equal(putCommand(path, mode), command);
});

Deno.test("getCommand() reads one byte above the limit", () => {
  assert.equal(getCommand("/var/log/it's", 512), String.raw`head -c 513 < '/var/log/it'\''s'`);
});

Deno.test.each([
  { name: "an absolute path", path: "/etc/hosts" },
  { name: "a relative path", path: "notes.txt" },
  { name: "other scripts", path: "/tmp/größe-日本" },
  { name: "quotes and wildcards", path: "/tmp/'\"*?[x]" },
  { name: "a directory with the name of a kernel directory", path: "/srv/dev/tcp/a" },
  { name: "such a directory in the working directory", path: "dev/notes" },
  { name: "a name with the same prefix", path: "/devices/a" },
])("checkPath() accepts $name", ({ path }) => checkPath(path));

Deno.test.each([
  { name: "none", path: "", message: "path is required" },
  ...[
    "/dev/tcp/10.0.0.1/80",
    "//dev//tcp/127.0.0.1/22",
    "/./dev/tcp/a/1",
    "/tmp/../dev/tcp/a/1",
    "/dev/tcp",
    "a/../../../../dev/tcp/a/1",
  ].map((path) => ({
    name: path,
    path,
    message: "path is in /dev/tcp, which is a network connection to some shells",
  })),
  {
    name: "a datagram",
    path: "/dev/udp/10.0.0.1/53",
    message: "path is in /dev/udp, which is a network connection to some shells",
  },
  { name: "a NUL", path: "/a\0", message: "path contains null bytes" },
  { name: "a line feed", path: "/a\n", message: "path contains newline characters" },
  { name: "a carriage return", path: "/a\r", message: "path contains newline characters" },
  { name: "a space", path: "/a b", message: "path contains whitespace or control characters" },
  { name: "a tab", path: "/a\tb", message: "path contains whitespace or control characters" },
  { name: "an escape", path: "/a\x1b", message: "path contains whitespace or control characters" },
  { name: "a no-break space", path: "/a\u00a0b", message: "path contains whitespace or control characters" },
  { name: "a bidi override", path: "/a\u202e", message: "path contains whitespace or control characters" },
  { name: "a delete", path: "/a\x7f", message: "path contains whitespace or control characters" },
  { name: "half a character", path: "/a\ud800", message: "path is not well-formed Unicode" },
])("checkPath() rejects $name", ({ path, message }) => {
  assert.throws(() => checkPath(path), { code: "invalid_request", message: `bad request: ${message}` });
});

Deno.test.each([
  { path: "/dev/sda", folder: "/dev" },
  { path: "/dev", folder: "/dev" },
  { path: "//tmp/.././dev//null", folder: "/dev" },
  { path: "../../../dev/mem", folder: "/dev" },
  { path: "/proc/self/environ", folder: "/proc" },
  { path: "/sys/power/state", folder: "/sys" },
  { path: "/system/a", folder: undefined },
  { path: "/srv/dev/a", folder: undefined },
  { path: "/dev/../srv/a", folder: undefined },
  { path: "proc/a", folder: undefined },
])("findKernelDirectory() returns $folder for $path", ({ path, folder }) => {
  assert.equal(findKernelDirectory(path), folder);
});

Deno.test.each(["", "644", "0644", "4755", "777"])("checkMode() accepts %j", (mode) => checkMode(mode, "/a"));

Deno.test.each(["64", "06444", "8", "888", "u+x", "644 ", " 644", "-644", "0o644", "644\n"])(
  "checkMode() rejects %j",
  (mode) => {
    const message = `bad request: invalid mode ${JSON.stringify(mode)} (expect 3-4 octal digits)`;
    assert.throws(() => checkMode(mode, "/a"), { code: "invalid_request", message });
  },
);

Deno.test("checkMode() rejects a path that begins with a dash only if there is a mode", () => {
  checkMode("", "-R");
  assert.throws(() => checkMode("644", "-R"), {
    code: "invalid_request",
    message: 'bad request: path begins with "-": with a mode, write it as "./-…"',
  });
});

Deno.test.each([
  ["text as UTF-8", "größe\n", false, [103, 114, 195, 182, 195, 159, 101, 10]],
  ["empty text", "", false, []],
  ["empty base64", "", true, []],
  ["text that looks like base64", "AAE=", false, [65, 65, 69, 61]],
  ["base64", "AAEC/w==", true, [0, 1, 2, 255]],
  ["base64 with line breaks", "AAEC\r\n/w==\n", true, [0, 1, 2, 255]],
])("decodeContent() decodes %s", (_name, content, base64, bytes) => {
  assert.deepEqual([...decodeContent(content, { base64 })], bytes);
});

Deno.test.each([
  { name: "base64 without padding", content: "AAEC/w" },
  { name: "base64 with a space", content: "AAEC /w==" },
  { name: "base64 of the URL alphabet", content: "AAEC_w==" },
  { name: "base64 with text after its padding", content: "AA==AA==" },
  { name: "text for base64", content: "hello, world" },
])("decodeContent() rejects $name", ({ content }) => {
  assert.throws(() => decodeContent(content, { base64: true }), {
    code: "invalid_request",
    message: /^bad request: invalid base64 content: /,
  });
});

Deno.test("decodeContent() rejects text with a lone surrogate", () => {
  assert.throws(() => decodeContent("a\udc00", { base64: false }), {
    code: "invalid_request",
    message: "bad request: content is not well-formed Unicode: send it as base64",
  });
});

Deno.test.each([
  ["nothing as text", [], { content: "", base64: false }],
  ["UTF-8 as text", [0xc3, 0xb6, 0x0a], { content: "ö\n", base64: false }],
  ["a byte order mark and all", [0xef, 0xbb, 0xbf, 0x61], { content: "\ufeffa", base64: false }],
  ["a NUL as base64", [0x61, 0], { content: "YQA=", base64: true }],
  ["binary content as base64", [0xff], { content: "/w==", base64: true }],
])("encodeContent() returns %s", (_name, bytes, expected) => {
  assert.deepEqual(encodeContent(Uint8Array.from(bytes)), expected);
});

Deno.test.each([
  { name: "text", content: "a\nb\n", head: "a\nb\n" },
  { name: "the first twenty lines", content: "x\n".repeat(30), head: `${"x\n".repeat(19)}x` },
  {
    name: "the start of a long line without a split character",
    content: "é".repeat(1000) + "\u{1f600}".repeat(1000),
    head: "é".repeat(1000) + "\u{1f600}".repeat(250),
  },
  { name: "no head of binary content", content: "a\0b", head: "" },
])("describeContent() shows approvers $name", ({ content, head }) => {
  const bytes = new TextEncoder().encode(content);
  const { content_head, content_bytes, content_sha256 } = describeContent(bytes);
  assert.deepEqual([content_head, content_bytes], [head, bytes.length]);
  assert.match(content_sha256, /^[0-9a-f]{64}$/);
});

Deno.test("decodeContent() reverses encodeContent()", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
    const { content, base64 } = encodeContent(bytes);
    assert.deepEqual([...decodeContent(content, { base64 })], [...bytes]);
  }));
});

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

Deno.test("putFile() requests a certificate for the exact command and sends the bytes to it", async () => {
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

Deno.test.each([
  ["an allow rule names it", true, "allow:^head -c [0-9]+ < '/proc/(version|loadavg)'$"],
  ["no rule decides", false, undefined],
  ["a rule allows everything", false, "allow:^head .*$"],
  ["a rule names another directory", false, "allow:^head -c [0-9]+ < '/process/.*|/sys/.*'$"],
  ["a rule of approval names it", false, "require_approval:/proc"],
])("getFile() of a path in /proc if %s (allowed: %s)", async (_name, allowed, rule) => {
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
      message: /^bad request: path is in \/proc: transfers need/,
    });}
  assert.equal(broker.runner.runs.length, allowed ? 1 : 0);
});

Deno.test("putFile() does not hold the stdin open on a host with stop_on_disconnect (K16)", async () => {
  const broker = new BrokerFixture();
  broker.authority.list = () => ({
    web01: { addr: "10.0.0.1:22", user: "u", host_key: "k", stop_on_disconnect: true },
  });
  await put(broker);
  assert.equal(broker.runner.runs[0]?.stopsAtStdinEnd, false);
});

Deno.test.each([
  { name: "the request has no limit", asked: 0, limit: MAX_TRANSFER_BYTES },
  { name: "a negative one is", asked: -1, limit: MAX_TRANSFER_BYTES },
  { name: "a larger one is", asked: MAX_TRANSFER_BYTES + 1, limit: MAX_TRANSFER_BYTES },
  { name: "a smaller one is", asked: 10, limit: 10 },
])("getFile() accepts at most $limit bytes if $name", async ({ asked, limit }) => {
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

Deno.test.each([
  { verb: "write", transfer: (broker: BrokerFixture) => put(broker) },
  { verb: "read", transfer: (broker: BrokerFixture) => get(broker) },
])(
  "a transfer whose $verb fails on the host reports the reason and records no transfer",
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
])("$name reports only the start of a host's error output", async ({ transfer }) => {
  const broker = new BrokerFixture();
  broker.runner.answer = () => printed("", { stderr: "x".repeat(100_000), exitCode: 1 });
  await assert.rejects(transfer(broker), (error) => error instanceof AppError && error.message.length < 2000);
});

Deno.test.each([
  { name: "putFile()", transfer: (broker: BrokerFixture) => put(broker) },
  { name: "getFile()", transfer: (broker: BrokerFixture) => get(broker) },
])("$name fails with approval_required if a rule requires approval", async ({ transfer }) => {
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
  "$name returns nothing if the transfer cannot be recorded in closed mode (L11)",
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
