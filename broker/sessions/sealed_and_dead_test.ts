import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createMetrics } from "@gateway/shared/service/metrics";
import { systemRandom } from "@gateway/shared/clock";
import { FakeClock } from "@gateway/shared/testing";
import type { SignerClient } from "../authority/authority.ts";
import { brokerConfig } from "../config/config.ts";
import { createTimings } from "../request/records.ts";
import { SessionFixture } from "../testing/session_fixture.ts";
import { type OnOutput, type ShellChannel, ShellLink } from "./connect_session.ts";
import { startSessions } from "./sessions.ts";
import { markedHead } from "../ssh/output.ts";
import { createRedactStreams } from "@gateway/shared/redact";
import { DISK_MS, Recorder, type RecordingFile } from "./recorder.ts";

const NEVER = new AbortController().signal;

Deno.test("the metrics report the age and the failures of revocation polls (K9)", async () => {
  const { authority, hosts, clock, runs } = new SessionFixture();
  const metrics = createMetrics();
  const reply = { status: 200, body: [], text: "[]" };
  let request: SignerClient["request"] = () => Promise.resolve(reply);
  const config = brokerConfig.parse({
    signer: { url: "https://signer", client_cert: "c", client_key: "k", ca: "a" },
    ...{ audit_log: "audit.log", audit_key: "seed", revocation_poll_seconds: 10 },
  });
  const { close } = startSessions(config, {
    ...{ authority, hosts, clock, runs, metrics, maxTtlSeconds: 300, random: systemRandom },
    timings: createTimings(metrics),
    redact: (text) => text,
    createKey: () => assert.fail("nothing is signed"),
    events: { require: () => Promise.resolve(), bestEffort: () => Promise.resolve() },
    logger: { info() {}, warn() {}, error() {} },
    signer: { caller: "broker-1", client: { request: (...args) => request(...args) } },
  });
  const shown = async () => {
    const text = await metrics.text();
    const value = (name: string) =>
      Number(new RegExp(`^broker_revocation_poll_${name} (\\d+)$`, "m").exec(text)?.[1]);
    return {
      errors: value("errors_total"),
      age: clock.now() / 1000 - value("last_success_timestamp_seconds"),
    };
  };
  await clock.advance(10_000);
  assert.deepEqual(await shown(), { errors: 0, age: 0 });
  request = () => Promise.reject(new Error("unreachable"));
  await clock.advance(20_000);
  assert.deepEqual(await shown(), { errors: 2, age: 20 });
  request = () => Promise.resolve(reply);
  await clock.advance(10_000);
  assert.deepEqual(await shown(), { errors: 2, age: 0 });
  await close();
});

Deno.test("execInSession() sends terminal and account in each preflight and obeys a denial (K14)", async () => {
  const broker = new SessionFixture();
  const { answer } = broker.authority;
  broker.authority.answer = async (...args) => {
    const given = await answer(...args);
    return given.kind === "issued" ? { ...given, elevationPrefix: "sudo -n -u dba" } : given;
  };
  const id = await broker.open({ mode: "pty", sudo: true, sudoUser: "dba" });
  await broker.exec(id);
  const { session_mode, pty, sudo, sudo_user } = broker.authority.requests.at(-1)!;
  assert.deepEqual([session_mode, pty, sudo, sudo_user], ["pty", true, true, "dba"]);

  broker.authority.answer = (request) => ({
    kind: "decided",
    decision: request.pty === true ? { allowed: false, reason: "pty not allowed" } : { allowed: true },
  });
  await assert.rejects(broker.exec(id), { message: "session command not allowed: pty not allowed" });
  assert.equal(broker.links[0]?.runs.length, 1);
});

/** A shell whose commands each print their own letter on stderr; the start prints `a`. */
function chattyShell(onOutput: OnOutput): ShellChannel {
  const letters = "abcd"[Symbol.iterator]();
  return {
    write(line) {
      const [begin, end] = new Set(line.match(/__BRK_[0-9a-f]{32}__/g));
      onOutput("stderr", Buffer.from(`${begin}:0\n${letters.next().value?.repeat(150)}${end}:0\n`));
      onOutput("stdout", Buffer.from(`${begin}:0\n${end}:0\n`));
    },
    ended: NEVER,
    exitCode: undefined,
    signal() {},
    close() {},
  };
}

Deno.test("the limit of the error stream applies to each command, not to the session (K24)", async () => {
  const link = await ShellLink.start({
    mode: "shell",
    clock: new FakeClock(),
    random: systemRandom,
    limits: { startMs: 1000, commandMs: 1000, killGraceMs: 1, outputBytes: 100 },
    open: (onOutput) => Promise.resolve(chattyShell(onOutput)),
    close: () => Promise.resolve(),
  }, NEVER);
  for (const letter of "bcd") {
    const { stderr } = await link.run("x", { signal: NEVER });
    assert.equal(
      Buffer.from(markedHead(stderr)).toString(),
      `${letter.repeat(100)}\n[output truncated: limit of 100 bytes exceeded]\n`,
    );
  }
});

type Step = keyof RecordingFile;

/** A file whose disk hangs at one step. */
class HangingFile implements RecordingFile {
  readonly asked: Step[] = [];
  hangsAt: Step | undefined;
  readonly answer = Promise.withResolvers<void>();

  write(): Promise<void> {
    return this.#ask("write");
  }
  truncate(): Promise<void> {
    return this.#ask("truncate");
  }
  close(): Promise<void> {
    return this.#ask("close");
  }

  #ask(step: Step): Promise<void> {
    this.asked.push(step);
    return step === this.hangsAt ? this.answer.promise : Promise.resolve();
  }
}

async function startRecorder(strict = false) {
  const file = new HangingFile();
  const clock = new FakeClock();
  const failures: unknown[] = [];
  const recorder = await Recorder.start({
    file,
    header: { sessionId: "s1", caller: "agent-1", host: "web01", serial: 7n, startedAt: clock.now() },
    clock,
    openRedaction: createRedactStreams(undefined),
    strict,
    onFailure: (error) => failures.push(error),
  });
  file.asked.length = 0;
  return { recorder, file, clock, failures };
}

Deno.test("Recorder.close() stops waiting for a dead disk and returns no digest (K18)", async () => {
  const { recorder, file, clock, failures } = await startRecorder();
  file.hangsAt = "close";
  let closed = false;
  const closing = recorder.close().finally(() => closed = true);
  await clock.advance(DISK_MS - 1);
  assert.equal(closed, false);
  await clock.advance(1);
  const { sha256, complete } = await closing;
  assert.deepEqual([sha256, complete, failures.length], [undefined, false, 1]);
  assert.equal(clock.sleeping, 0);
});

Deno.test("Recorder stops waiting for a dead disk and sends it no further operation", async () => {
  const { recorder, file, clock, failures } = await startRecorder();
  file.hangsAt = "write";
  const [output, next] = [recorder.output("a\n"), recorder.error("b\n")];
  const closing = recorder.close();
  await clock.advance(DISK_MS);
  await Promise.all([output, next]);
  const { sha256, complete } = await closing;
  assert.deepEqual([sha256, complete, file.asked], [undefined, false, ["write"]]);
  assert.ok(failures.length >= 2);

  file.answer.resolve();
  await clock.advance(0);
  assert.deepEqual(file.asked, ["write", "close"], "the file is released");
});

Deno.test("Recorder in strict mode rejects events for a dead disk", async () => {
  const { recorder, file, clock } = await startRecorder(true);
  file.hangsAt = "write";
  const rejected = assert.rejects(recorder.input("a\n"), {
    code: "internal",
    message: "session recording failed (strict mode): TimeoutError",
  });
  await clock.advance(DISK_MS);
  await rejected;
  await assert.rejects(recorder.input("b\n"), { code: "internal" });
  assert.deepEqual(file.asked, ["write"]);
});

Deno.test("Recorder.start() fails if the disk does not respond in time", async () => {
  const clock = new FakeClock();
  const file = new HangingFile();
  file.hangsAt = "write";
  const starting = Recorder.start({
    file,
    header: { sessionId: "s1", caller: "agent-1", host: "web01", serial: 7n, startedAt: clock.now() },
    clock,
    openRedaction: createRedactStreams(undefined),
    strict: false,
    onFailure: () => {},
  });
  const rejected = assert.rejects(starting, { name: "TimeoutError" });
  await clock.advance(DISK_MS);
  await rejected;
});
