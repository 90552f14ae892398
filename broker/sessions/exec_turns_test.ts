import assert from "node:assert/strict";
import { printed, sent } from "../testing/fake_runner.ts";
import { openedSession, SessionFixture } from "../testing/session_fixture.ts";
import { AppError } from "@gateway/shared/errors";
import type { HostInfo } from "@gateway/shared/wire";
import type { SignAnswer } from "../authority/authority.ts";
import { HOSTS, ISSUED_UPTIME, SERIAL } from "../testing/fake_authority.ts";
import { FakeLink } from "../testing/fake_link.ts";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { FramedOutput } from "./shell_protocol.ts";

Deno.test("commands of a shell run in order, each with a preflight directly before it runs", async () => {
  const { broker, id } = await openedSession({ mode: "shell" });
  const first = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  broker.links[0]!.answer = async (command) => {
    started.resolve();
    if (command === "one") await first.promise;
    return printed(command);
  };
  const one = broker.exec(id, { command: "one" });
  await started.promise;
  const two = broker.exec(id, { command: "two" });
  broker.answerPreflight({ kind: "decided", decision: { allowed: false, reason: "policy" } });
  first.resolve();
  assert.deepEqual((await one).stdout, sent("one"));
  await assert.rejects(two, { message: "session command not allowed: policy" });
});

Deno.test("a shell session limits its command queue", async () => {
  const { broker, id } = await openedSession({ mode: "shell" });
  const hold = Promise.withResolvers<void>();
  broker.links[0]!.answer = () => hold.promise.then(() => printed(""));
  const runs = Array.from({ length: 34 }, () => broker.exec(id));
  const last = runs.at(-1)!;
  await assert.rejects(last, { code: "rate_limited" });
  hold.resolve();
  assert.equal((await Promise.allSettled(runs)).filter(({ status }) => status === "fulfilled").length, 33);
});

Deno.test("closing a session ends its running command, which is recorded as an error", async () => {
  const { broker, id } = await openedSession();
  const started = Promise.withResolvers<void>();
  broker.links[0]!.answer = () => {
    started.resolve();
    return new Promise(() => {});
  };
  const running = broker.exec(id);
  running.catch(() => {});
  await started.promise;
  await broker.close(id);
  await assert.rejects(running, { message: `session "${id}" has ended` });
  assert.deepEqual(broker.outcomes.toSorted(), ["error", "session_close", "session_open"]);
});

Deno.test("a queued command fails when its session closes", async () => {
  const { broker, id } = await openedSession({ mode: "shell" });
  const started = Promise.withResolvers<void>();
  broker.links[0]!.answer = () => {
    started.resolve();
    return new Promise(() => {});
  };
  const runs = [broker.exec(id), broker.exec(id)];
  const settled = Promise.allSettled(runs);
  await started.promise;
  await broker.close(id);
  for (const { status } of await settled) assert.equal(status, "rejected");
});

Deno.test.each([{ mode: "exec" }, { mode: "shell" }])(
  "a command does not run if its session ends during the preflight (K7, mode $mode)",
  async ({ mode }) => {
    const { broker, id } = await openedSession({ mode });
    const { answer: usual } = broker.authority;
    broker.authority.answer = (request, signal, options) => {
      if (request.preflight === true) void broker.registry.kill(() => true, "frozen");
      return usual(request, signal, options);
    };
    await assert.rejects(broker.exec(id), { message: `session "${id}" has ended` });
    assert.deepEqual(broker.links[0]!.runs, []);
  },
);

/** A broker whose signer issues no session certificate for web01 while `host.own` is true. */
function stepwise(host: { own: boolean; more?: Partial<HostInfo> } = { own: true }) {
  const broker = new SessionFixture();
  const { authority } = broker;
  authority.list = () => ({
    web01: { ...HOSTS["web01"]!, ...host.more, ...(host.own ? { unsealed_sessions: false } : {}) },
    bastion01: { addr: "10.0.0.9:22", user: "hop", host_key: "ssh-ed25519 CCCC" },
  });
  authority.answer = ({ purpose, role, dry_run }): SignAnswer => {
    if (host.own && purpose === "session") return { kind: "rejected", status: 403, detail: "no certificate" };
    if (dry_run === true) return { kind: "decided", decision: { allowed: true, matched_rule: "" } };
    const serial = SERIAL - BigInt(authority.requests.length);
    const decision = { allowed: true, matched_rule: role === "target" ? "allow:^id$" : "", warning: "odd" };
    return { ...ISSUED_UPTIME, serial, decision };
  };
  return broker;
}

Deno.test("a session without a certificate requests one certificate for each command", async () => {
  const broker = stepwise({ own: true, more: { stop_on_disconnect: true } });
  const opened = await broker.sessions.open(
    {
      caller: "alice",
      callerGroups: null,
      host: "web01",
      mode: "",
      ttlSeconds: 0,
      sudo: true,
      sudoUser: "app",
    },
    new AbortController().signal,
  );
  assert.equal(opened.serial, undefined);
  assert.deepEqual(broker.authority.requests, [], "there is no command to ask about");
  for (const command of ["id", "date"]) await broker.exec(opened.sessionId, { command });
  assert.deepEqual(
    broker.authority.requests.map(({ purpose, command, sudo, sudo_user, dry_run }) => [
      purpose,
      command,
      sudo,
      sudo_user,
      dry_run,
    ]),
    [["oneshot", "id", true, "app", undefined], ["oneshot", "date", true, "app", undefined]],
  );
  assert.deepEqual(broker.links.map(({ runs, closed }) => [runs, closed]), [[["id"], true], [
    ["date"],
    true,
  ]]);
  await broker.close(opened.sessionId);
  assert.deepEqual(
    broker.log.entries.map(({ outcome, serial, session_id, command, policy_rule, warning }) => [
      outcome,
      serial,
      session_id,
      command,
      policy_rule,
      warning,
    ]),
    [
      ["session_open", undefined, opened.sessionId, "mode=exec", undefined, ""],
      ["session_exec", SERIAL - 1n, opened.sessionId, "id", "allow:^id$", "odd"],
      ["session_exec", SERIAL - 2n, opened.sessionId, "date", "allow:^id$", "odd"],
      ["session_close", undefined, opened.sessionId, "mode=exec", undefined, undefined],
    ],
  );
});

Deno.test.each<{ name: string; answer: SignAnswer; outcome: string; error: RegExp }>([
  {
    name: "denied",
    answer: { kind: "rejected", status: 403, detail: "allowlist:no-match" },
    outcome: "session_exec_denied",
    error: /session command: signing cert for "web01": signing rejected \(403\): allowlist:no-match/,
  },
  {
    name: "waiting for approval",
    answer: { kind: "needs_approval", rule: "require_approval:^id" },
    outcome: "session_exec_denied",
    error: /requires human approval \(require_approval:\^id\); use ssh_execute/,
  },
])("a command that is $name does not run, and its session continues", async ({ answer, outcome, error }) => {
  const broker = stepwise();
  const id = await broker.open();
  const usual = broker.authority.answer;
  broker.authority.answer = () => answer;
  await assert.rejects(broker.exec(id), error);
  assert.deepEqual([broker.links.length, broker.outcomes.at(-1)], [0, outcome]);
  broker.authority.answer = usual;
  assert.equal((await broker.exec(id)).exitCode, 0);
});

Deno.test("a command whose connection fails is recorded with the serial of its certificate", async () => {
  const broker = stepwise();
  const id = await broker.open();
  broker.connect = () => Promise.reject(new AppError("upstream_failure", "connection: refused"));
  await assert.rejects(broker.exec(id), /connection: refused/);
  const { outcome, serial, command } = broker.log.entries.at(-1)!;
  assert.deepEqual([outcome, serial, command], ["error", SERIAL - 1n, "uptime"]);
});

Deno.test("a session without a certificate lists the serials of all commands and their bastions", async () => {
  for (const [hops, serials] of [[false, [1n, 2n]], [true, [1n, 2n, 3n, 4n]]] as const) {
    const broker = stepwise({ own: true, more: hops ? { jump: "bastion01" } : {} });
    const id = await broker.open();
    await broker.exec(id);
    await broker.exec(id);
    const { info } = broker.registry.find(id, "alice", "");
    assert.deepEqual(info.otherSerials, serials.map((number) => SERIAL - number));
    assert.equal(info.serial, undefined);
  }
});

Deno.test("killing a session ends its running command and closes the connection", async () => {
  const broker = stepwise();
  const id = await broker.open();
  broker.connect = () => {
    const link = new FakeLink();
    link.answer = () => new Promise(() => {});
    return link;
  };
  const ended = assert.rejects(broker.exec(id), /has ended/);
  while (broker.links.length === 0) await broker.clock.advance(0);
  await broker.registry.kill(({ id: each }) => each === id, "frozen");
  await ended;
  assert.equal(broker.links.every(({ closed }) => closed), true);
});

Deno.test("a session reconnects when its host starts or stops to require a certificate per command", async () => {
  const host = { own: false };
  const broker = stepwise(host);
  const id = await broker.open();
  await broker.exec(id);
  host.own = true;
  await broker.exec(id);
  assert.deepEqual(broker.links.map(({ closed }) => closed), [true, true]);
  host.own = false;
  await broker.exec(id);
  assert.deepEqual(broker.links.map(({ closed }) => closed), [true, true, false]);
  assert.deepEqual(broker.outcomes, [
    ...["session_open", "session_exec", "session_exec"],
    ...["session_open", "session_exec"],
  ]);
});

Deno.test("a command is rejected if the route to its host changed since the session opened", async () => {
  const host = { own: true, more: {} };
  const broker = stepwise(host);
  const id = await broker.open();
  host.more = { addr: "10.0.0.7:22" };
  await assert.rejects(broker.exec(id), /connectivity changed/);
  assert.deepEqual([broker.authority.requests.length, broker.links.length], [0, 0]);
});

Deno.test("opening a shell fails if the signer issues no session certificate", async () => {
  const broker = stepwise();
  await assert.rejects(broker.open({ mode: "shell" }), /rejected \(403\): no certificate/);
});

const FRAME = { begin: "__BRK_aa__", end: "__BRK_bb__" };

function cut(chunks: readonly (string | Uint8Array)[]) {
  const parts: Uint8Array[] = [];
  const framed = new FramedOutput(FRAME, (bytes) => parts.push(bytes.slice()));
  for (const chunk of chunks) framed.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk);
  return {
    output: Buffer.concat(parts).toString("latin1"),
    ended: framed.ended,
    exitCode: framed.exitCode,
  };
}

Deno.test("FramedOutput accepts the CR LF line ends of a terminal", () => {
  const { output, exitCode } = cut(["$ __BRK_aa__:0\r\na\r\n__BRK_bb__:7\r\n"]);
  assert.deepEqual({ output, exitCode }, { output: "a\r\n", exitCode: 7 });
});

Deno.test("FramedOutput drops output before the begin mark", () => {
  assert.deepEqual(cut(["old\n__BRK_bb__:0\n__BRK_aa__:0\nnew\n__BRK_bb__:1\n"]), {
    output: "new\n",
    ended: true,
    exitCode: 1,
  });
});

Deno.test.each([
  { name: "no number", field: ":x\n" },
  { name: "a number out of range", field: ":256\n" },
  { name: "four digits", field: ":1000\n" },
  { name: "an empty field", field: "\n" },
])("FramedOutput ends without an exit code if the end mark has $name", ({ field }) => {
  const { ended, exitCode } = cut([`__BRK_aa__:0\n__BRK_bb__${field}`]);
  assert.deepEqual({ ended, exitCode }, { ended: true, exitCode: undefined });
});

Deno.test("FramedOutput ignores marks in a shell trace", () => {
  const trace = (word: string) => `+ /usr/bin/printf '%s:%s\\n' '${word}' 0\n`;
  const stream = `${trace(FRAME.begin)}__BRK_aa__:0\na\n${trace(FRAME.end)}__BRK_bb__:1\n`;
  for (const chunks of [[stream], [...stream]]) {
    const { output, exitCode } = cut(chunks);
    assert.deepEqual({ output, exitCode }, { output: `a\n${trace(FRAME.end)}`, exitCode: 1 });
  }
});

Deno.test("FramedOutput does not end before the line of the end mark is complete", () => {
  for (const part of ["__BRK_bb", "__BRK_bb__", "__BRK_bb__:1", "__BRK_bb__:1\r"]) {
    assert.equal(cut([`__BRK_aa__:0\n${part}`]).ended, false);
  }
});

Deno.test("FramedOutput returns the same result for any chunk boundaries and bytes (property)", () => {
  const piece = fc.oneof(
    fc.constantFrom("__BRK_", "__BRK_aa__", "__BRK_aa__:0\n", "_", "\r\n", ":0"),
    fc.uint8Array({ maxLength: 5 }).map((bytes) => Buffer.from(bytes).toString("latin1")),
  );
  const text = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(""));
  fc.assert(
    fc.property(text, fc.nat({ max: 255 }), fc.infiniteStream(fc.nat({ max: 7 })), (body, code, sizes) => {
      const stream = Buffer.from(`stray__BRK_aa__:0\n${body}__BRK_bb__:${code}\nrest`, "latin1");
      const chunks: Uint8Array[] = [];
      for (let at = 0; at < stream.length;) {
        const size = 1 + (sizes.next().value ?? 0);
        chunks.push(stream.subarray(at, at + size));
        at += size;
      }
      assert.deepEqual(cut(chunks), { output: body, ended: true, exitCode: code });
    }),
  );
});
