import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { type Clock, systemClock, systemRandom } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { createRedactStreams } from "@gateway/shared/redact";
import type { SessionTranscript } from "./recorder.ts";
import { type OnOutput, type ShellChannel, type ShellLimits, ShellLink } from "./connect_session.ts";
import { markedHead, type Output } from "../ssh/output.ts";
import { FixedRandom } from "@gateway/shared/testing";
import { createFrame, encodeCommand, encodeStart } from "./shell_protocol.ts";

const LIMITS: ShellLimits = { startMs: 1000, commandMs: 1000, killGraceMs: 1, outputBytes: 100 };
/** Short limits pass immediately and long ones never, independently of the machine's load. */
const clock: Clock = {
  now: () => 0,
  sleep: (ms, signal) => ms < 1000 ? systemClock.sleep(0, signal) : new Promise(() => {}),
};
const BEGIN = /'(__BRK_[0-9a-f]{32}__)' 0/;
const END = /'(__BRK_[0-9a-f]{32}__)' "\$gateway_code"/;
const START = /'(__BRK_[0-9a-f]{32}__)' 0.*'(__BRK_[0-9a-f]{32}__)' 0; }; while/;
const NEVER = new AbortController().signal;

/** A shell with scripted answers. */
class FakeShell implements ShellChannel {
  readonly lines: string[] = [];
  readonly signals: string[] = [];
  closed = false;
  exitCode: number | undefined;
  /** The positions at which its output is split into packets. */
  cutAt = 0;
  answer: (line: string, reply: (text: { out?: string; err?: string; code?: string }) => void) => void = (
    _line,
    reply,
  ) => reply({ out: "ok\n" });
  start: (reply: () => void) => void = (reply) => reply();
  readonly #ended = new AbortController();
  readonly #onOutput: OnOutput;

  constructor(onOutput: OnOutput) {
    this.#onOutput = onOutput;
  }

  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  write(line: string): void {
    const started = START.exec(line);
    if (started !== null) {
      this.start(() => this.print("stdout", `motd\n${started[1]}:0\n${started[2]}:0\n`));
      return;
    }
    this.lines.push(line);
    const [begin, end] = [BEGIN.exec(line)?.[1], END.exec(line)?.[1]];
    this.answer(line, ({ out = "", err = "", code = "0" }) => {
      this.print("stdout", `${begin}:0\n${out}${end}:${code}\n`);
      this.print("stderr", `${begin}:0\n${err}${end}:${code}\n`);
    });
  }

  print(stream: "stdout" | "stderr", text: string): void {
    const bytes = Buffer.from(text, "latin1");
    for (const part of [bytes.subarray(0, this.cutAt), bytes.subarray(this.cutAt)]) {
      this.#onOutput(stream, part);
    }
  }

  end(): void {
    this.#ended.abort();
  }

  signal(name: string): void {
    this.signals.push(name);
  }

  close(): void {
    this.closed = true;
  }
}

async function start(
  { mode = "shell", limits = {}, prepare = () => {} }: {
    mode?: "shell" | "pty";
    limits?: Partial<ShellLimits>;
    prepare?: (shell: FakeShell) => unknown;
  } = {},
  signal = NEVER,
) {
  const shells: FakeShell[] = [];
  const link = await ShellLink.start({
    mode,
    clock,
    random: systemRandom,
    limits: { ...LIMITS, ...limits },
    open: (onOutput) => {
      const shell = new FakeShell(onOutput);
      shells.push(shell);
      prepare(shell);
      return Promise.resolve(shell);
    },
    close: () => Promise.resolve(shells.forEach((shell) => shell.end())),
  }, signal);
  return { link, shell: shells[0]!, shells };
}

const text = (output: Output) => Buffer.from(markedHead(output)).toString();

Deno.test("ShellLink creates a new frame for every command", async () => {
  const { link, shell } = await start();
  await link.run("x", { signal: NEVER });
  await link.run("x", { signal: NEVER });
  assert.notEqual(END.exec(shell.lines[0]!)?.[1], END.exec(shell.lines[1]!)?.[1]);
});

Deno.test("ShellLink truncates output above the limit, and the session stays usable", async () => {
  const { link, shell } = await start();
  shell.answer = (_line, reply) => reply({ out: "x ".repeat(75) });
  const { stdout } = await link.run("x", { signal: NEVER });
  assert.equal(text(stdout), "x ".repeat(50) + "\n[output truncated: limit of 100 bytes exceeded]\n");
  shell.answer = (_line, reply) => reply({ out: "next" });
  assert.equal(text((await link.run("x", { signal: NEVER })).stdout), "next");
});

Deno.test("ShellLink drops output between commands (K11)", async () => {
  const { link, shell } = await start();
  await link.run("x", { signal: NEVER });
  shell.print("stdout", "late\n");
  assert.equal(text((await link.run("x", { signal: NEVER })).stdout), "ok\n");
});

const DESYNCHRONISED = "execution: shell session is desynchronised after a previous timeout or overflow; " +
  "close this session and open a new one";

Deno.test("a command that exceeds the time limit is killed and breaks the session (K11)", async () => {
  const { link, shell } = await start({ limits: { commandMs: 1 } });
  shell.answer = () => {};
  await assert.rejects(link.run("x", { signal: NEVER }), {
    message:
      "execution: timeout waiting for command output; the session is desynchronised: close it and open a new one",
  });
  assert.deepEqual([shell.signals, shell.closed], [["TERM", "KILL"], true]);
  await assert.rejects(link.run("x", { signal: NEVER }), { message: DESYNCHRONISED });
  assert.equal(shell.lines.length, 1);
});

Deno.test("ShellLink reports a command that left the shell's loop and starts a new shell", async () => {
  const { link, shell, shells } = await start();
  shell.answer = () => {
    shell.exitCode = 213;
    shell.end();
  };
  await assert.rejects(link.run("break 9", { signal: NEVER }), {
    message: /left the shell's loop .* fresh shell/,
  });
  assert.equal(link.broken, undefined);
  assert.equal(shells.length, 2);
  shells[1]!.answer = (line, reply) => {
    // The previous shell may have left a background process that prints.
    shell.print("stdout", `${BEGIN.exec(line)?.[1]}:0\nforged\n`);
    reply({ out: "mine\n" });
  };
  assert.equal(text((await link.run("x", { signal: NEVER })).stdout), "mine\n");
});

Deno.test("ShellLink is broken if no fresh shell starts after a command left the loop", async () => {
  let count = 0;
  const { link, shell } = await start({ prepare: (shell) => count++ > 0 && shell.end() });
  shell.answer = () => {
    shell.exitCode = 213;
    shell.end();
  };
  await assert.rejects(link.run("break 9", { signal: NEVER }), {
    message: "execution: session shell has ended",
  });
  assert.match(link.broken ?? "", /^session shell has ended/);
});

Deno.test("a command fails before it is sent if the shell has ended", async () => {
  const { link, shell } = await start();
  shell.end();
  assert.match(link.broken ?? "", /^session shell has ended/);
  await assert.rejects(link.run("x", { signal: NEVER }));
  assert.equal(shell.lines.length, 0);
});

Deno.test.each([
  { name: "no number", out: "0", err: "x" },
  { name: "different numbers", out: "0", err: "1" },
])("a frame that ends with $name breaks the session", async ({ out, err }) => {
  const { link, shell } = await start();
  shell.answer = (line) => {
    const [begin, end] = [BEGIN.exec(line)?.[1], END.exec(line)?.[1]];
    shell.print("stdout", `${begin}:0\n${end}:${out}\n`);
    shell.print("stderr", `${begin}:0\n${end}:${err}\n`);
  };
  await assert.rejects(link.run("x", { signal: NEVER }), {
    message: "execution: the shell's answer is invalid",
  });
  assert.notEqual(link.broken, undefined);
});

Deno.test.each<[name: string, prepare: (shell: FakeShell) => void, message: RegExp]>([
  ["does not answer", (shell) => shell.start = () => {}, /did not answer \(limit: 5ms\)$/],
  ["ends at once", (shell) => shell.start = () => shell.end(), /session shell has ended$/],
])("opening a session fails if the shell %s", async (_name, prepare, message) => {
  await assert.rejects(start({ limits: { startMs: 5 }, prepare }), { message });
});

class MemoryTap implements SessionTranscript {
  readonly events: string[] = [];
  failing: "input" | "output" | undefined;
  /** The condition that delays the record of each event. */
  disk = Promise.resolve();
  readonly openRedaction = createRedactStreams(undefined);

  input(data: string): Promise<void> {
    return this.#add("input", data);
  }
  output(data: string): Promise<void> {
    return this.#add("output", data);
  }
  error(data: string): Promise<void> {
    return this.#add("error", data);
  }

  async #add(type: string, data: string): Promise<void> {
    await this.disk;
    if (type === this.failing) throw new AppError("internal", "session recording failed (strict mode): x");
    this.events.push(`${type}: ${data}`);
  }
}

Deno.test("ShellLink records input and output by line without the frame or the start", async () => {
  const { link, shell } = await start();
  const tap = new MemoryTap();
  shell.answer = (_line, reply) => reply({ out: "a\nb\nc", err: "e\n" });
  await link.run("ls", { signal: NEVER, tap });
  assert.deepEqual(tap.events.toSorted(), ["error: e\n", "input: ls\n", "output: a\nb\n", "output: c"]);
});

Deno.test("ShellLink records no part of a private key at any packet boundary", async () => {
  const key = `-----BEGIN PRIVATE KEY-----\n${"MIIEvQ\n".repeat(3)}-----END PRIVATE KEY-----`;
  const output = `a\n${key}\nb\n`;
  const { link, shell } = await start({ limits: { outputBytes: 1000 } });
  shell.answer = (_line, reply) => reply({ out: output, err: output });
  for (shell.cutAt = 0; shell.cutAt < output.length + 90; shell.cutAt++) {
    const tap = new MemoryTap();
    await link.run("cat k", { signal: NEVER, tap });
    const shown = (type: string) =>
      tap.events.filter((event) => event.startsWith(type)).map((event) => event.slice(type.length)).join("");
    assert.equal(shown("output: "), "a\n[REDACTED:private-key-block]\nb\n", `cut at ${shell.cutAt}`);
    assert.equal(shown("error: "), "a\n[REDACTED:private-key-block]\nb\n");
  }
});

Deno.test("ShellLink records output up to the time limit", async () => {
  const { link, shell } = await start({ limits: { commandMs: 1 } });
  const tap = new MemoryTap();
  shell.answer = (line) => shell.print("stdout", `${BEGIN.exec(line)?.[1]}:0\npart`);
  await assert.rejects(link.run("x", { signal: NEVER, tap }));
  assert.deepEqual(tap.events, ["input: x\n", "output: part"]);
});

Deno.test("ShellLink records exactly the returned output and the truncation mark", async () => {
  const { link, shell } = await start();
  const tap = new MemoryTap();
  shell.answer = (_line, reply) => reply({ out: "x ".repeat(75) });
  await link.run("y", { signal: NEVER, tap });
  assert.equal(
    tap.events.slice(1).map((event) => event.slice("output: ".length)).join(""),
    "x ".repeat(50) + "\n[output truncated: limit of 100 bytes exceeded]\n",
  );
});

Deno.test("a command whose input cannot be recorded is not sent and breaks the session", async () => {
  const { link, shell } = await start();
  const tap = new MemoryTap();
  tap.failing = "input";
  await assert.rejects(link.run("x", { signal: NEVER, tap }), {
    message: "session recording failed (strict mode): x",
  });
  assert.equal(shell.lines.length, 0);
  assert.match(link.broken ?? "", /could not be recorded/);
});

Deno.test("output that cannot be recorded is withheld and breaks the session", async () => {
  const { link } = await start();
  const tap = new MemoryTap();
  tap.failing = "output";
  await assert.rejects(link.run("x", { signal: NEVER, tap }), {
    message: "session recording failed (strict mode): x",
  });
  assert.match(link.broken ?? "", /could not be recorded/);
});

Deno.test("ShellLink.close() sends TERM and KILL to a running command", async () => {
  const { link, shell } = await start();
  const cancel = new AbortController();
  shell.answer = () => void link.close().then(() => cancel.abort());
  await assert.rejects(link.run("x", { signal: cancel.signal }));
  assert.deepEqual(shell.signals.slice(0, 2), ["TERM", "KILL"]);
});

Deno.test("ShellLink.close() resolves after the output of both streams is recorded", async () => {
  const { link, shell } = await start();
  const tap = new MemoryTap();
  const disk = Promise.withResolvers<void>();
  const printed = Promise.withResolvers<void>();
  shell.answer = (line) => {
    tap.disk = disk.promise;
    for (const stream of ["stdout", "stderr"] as const) {
      shell.print(stream, `${BEGIN.exec(line)?.[1]}:0\n${stream}`);
    }
    printed.resolve();
  };
  const running = assert.rejects(link.run("x", { signal: NEVER, tap }));
  await printed.promise;
  const closing = link.close().then(() => tap.events.length);
  setTimeout(disk.resolve, 0);
  assert.equal(await closing, 3);
  await running;
  assert.deepEqual(tap.events, ["input: x\n", "output: stdout", "error: stderr"]);
});

const FRAME = { begin: "__BRK_a__", end: "__BRK_b__" };

Deno.test("createFrame() returns two different words of 128 bits", () => {
  const { begin, end } = createFrame(new FixedRandom());
  assert.match(begin, /^__BRK_[0-9a-f]{32}__$/);
  assert.match(end, /^__BRK_[0-9a-f]{32}__$/);
  assert.notEqual(begin, end);
});

Deno.test("encodeStart() returns one line and configures only a terminal", () => {
  for (const mode of ["shell", "pty"] as const) assert.match(encodeStart(FRAME, mode), /^[^\n]+\n$/);
  assert.doesNotMatch(encodeStart(FRAME, "shell"), /stty/);
  assert.match(encodeStart(FRAME, "pty"), /^stty -echo -icanon -ixon /);
});

Deno.test("encodeCommand() quotes the command as one word and clears the frame variable", () => {
  const line = encodeCommand(`echo 'a'; "`, FRAME, "shell");
  assert.ok(line.startsWith("gateway_line=; "));
  assert.ok(
    line.includes(`\\command \\eval 'echo '\\''a'\\''; "' </dev/null 6>&- 7>&-; gateway_code=$?; done; `),
  );
  assert.equal(line.split("\n").length, 2);
});
