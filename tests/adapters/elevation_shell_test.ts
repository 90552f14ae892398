import assert from "node:assert/strict";
import fc from "fast-check";
import { elevateCommand, parseScript } from "@gateway/shared/policy";
import { shellQuote, singleQuote } from "@gateway/shared/text";
import { readCorpus } from "../firewall/corpus.ts";
import { createDice } from "../firewall/dice.ts";
import { createGrammar } from "../firewall/grammar.ts";
import { createMutator } from "../firewall/mutation.ts";
import { runTexts } from "../firewall/shell_runner.ts";
import { findShells } from "../firewall/shells.ts";
import { Buffer } from "node:buffer";
import { systemRandom } from "@gateway/shared/clock";
import {
  createFrame,
  encodeCommand,
  encodeStart,
  type Frame,
  FramedOutput,
  LEFT_LOOP,
} from "../../broker/sessions/shell_protocol.ts";

const PREFIX = "sudo -n -u deploy";
const hostileText = fc.string({
  unit: fc.constantFrom(..."'\"\\$`;|&<>(){}[]*?~#!=-+%^ \t\nabé漢😀", "rm", "$(", "&&", "''", "'\\''", "--"),
  minLength: 1,
  maxLength: 24,
});

/** The expected arguments of sudo for a command: its own words, or a shell with the unchanged text. */
function findExpected(command: string): readonly string[] {
  const elevated = elevateCommand(PREFIX, command);
  const sudo = ["sudo", "-n", "-u", "deploy", "--"];
  if (elevated.startsWith(`${PREFIX} -- /bin/sh -c `)) return [...sudo, "/bin/sh", "-c", command];
  const parsed = parseScript(command);
  assert(parsed.kind === "lexed" && parsed.commands.length === 1);
  return [...sudo, ...parsed.commands[0]!.words];
}

Deno.test("elevateCommand() passes the words of the command to sudo unchanged in every shell", async () => {
  const dice = createDice(7);
  const corpus = await readCorpus();
  const made = [
    ...corpus,
    ...fc.sample(hostileText, { numRuns: 2000, seed: 7 }),
    ...Array.from({ length: 4000 }, createGrammar(dice)),
    ...Array.from({ length: 4000 }, createMutator(dice, corpus).mutate),
    ...fc.sample(fc.array(hostileText, { minLength: 1, maxLength: 4 }), { numRuns: 1000, seed: 8 })
      .map((words) => ["pa", ...words].map(shellQuote).join(" ")),
  ];
  // Arguments of programs cannot contain NUL. The signer rejects NUL much earlier.
  const commands = made.filter((text) => !text.includes("\0")).map((text) => text.toWellFormed());
  const texts = commands.map((command) => elevateCommand(PREFIX, command));
  for (const shell of await findShells()) {
    const runs = await runTexts(shell, { texts, stubs: new Set(["sudo"]) });
    assert(runs !== undefined, shell.name);
    for (const [index, command] of commands.entries()) {
      const message = `${shell.name}: ${JSON.stringify(command)} as ${JSON.stringify(texts[index])}`;
      assert.deepEqual(runs[index]!, [findExpected(command)], message);
    }
  }
});

/** All shells that a login account of a host may have. */
const SHELLS: readonly (readonly [string, ...string[]])[] = [
  ["/bin/sh"],
  ["bash"],
  ["dash"],
  ["busybox", "ash"],
  ["ksh"],
  ["mksh"],
  ["yash"],
  ["zsh"],
];

const UNITS = [
  ..."'\"\\$`;|&<>(){}[]*?~#!=-+%^:@,./ \t\n\x07\x1b\x7fabé漢😀",
  "=ls",
  "~root",
  "$(",
  "''",
  "'\\''",
  "--",
];
const word = fc.string({ unit: fc.constantFrom(...UNITS), maxLength: 24 });

Deno.test.each(SHELLS.map((shell) => ({ name: shell.join(" "), shell })))(
  "shellQuote() and singleQuote() give $name every word as it is",
  async ({ name, shell: [program, ...args] }) => {
    const words = ["=ls", "a==ls", "~", "", ...fc.sample(word, { numRuns: 2000, seed: 9 })];
    const texts = words.flatMap((text) => [shellQuote(text), singleQuote(text)]);
    // Uses a builtin of each shell, so that the limit for argument lists does not apply.
    const command = new Deno.Command(program, {
      args: [...args, "-c", `printf '%s\\0' ${texts.join(" ")}`],
      clearEnv: true,
      env: { PATH: "/usr/bin:/bin", LC_ALL: "C.UTF-8" },
      stdin: "null",
    });
    const output = await command.output().catch(() => undefined);
    if (output === undefined) {
      if (Deno.env.get("REQUIRE_REAL_SERVERS") === "1") throw new Error(`Shell not installed: ${name}`);
      await Deno.stderr.write(new TextEncoder().encode(`skipped: shell not installed: ${name}\n`));
      return;
    }
    assert.equal(new TextDecoder().decode(output.stderr), "");
    assert.deepEqual(
      new TextDecoder().decode(output.stdout).split("\0").slice(0, -1),
      words.flatMap((text) => [text, text]),
    );
  },
);

interface Outcome {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | undefined;
}

class LocalShell implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #readers: readonly [
    ReadableStreamDefaultReader<Uint8Array>,
    ReadableStreamDefaultReader<Uint8Array>,
  ];

  constructor(program: string, args: readonly string[]) {
    this.#child = new Deno.Command(program, {
      args: [...args],
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
      clearEnv: true,
      env: { PATH: "/usr/bin:/bin" },
      // If a shell does not answer, fail its test instead of blocking the run.
      signal: AbortSignal.timeout(60_000),
    }).spawn();
    this.#input = this.#child.stdin.getWriter();
    this.#readers = [this.#child.stdout.getReader(), this.#child.stderr.getReader()];
  }

  async start(): Promise<void> {
    const frame = createFrame(systemRandom);
    await this.#input.write(new TextEncoder().encode(encodeStart(frame, "shell")));
    const { text, exitCode } = await this.#read(0, frame);
    assert.deepEqual({ text, exitCode }, { text: "", exitCode: 0 });
  }

  /** Runs a command. Rejects if the shell ends first. */
  async run(command: string): Promise<Outcome> {
    const frame = createFrame(systemRandom);
    await this.#input.write(new TextEncoder().encode(encodeCommand(command, frame, "shell")));
    const [out, err] = await Promise.all([this.#read(0, frame), this.#read(1, frame)]);
    assert.equal(out.exitCode, err.exitCode);
    return { stdout: out.text, stderr: err.text, exitCode: out.exitCode };
  }

  get exitCode(): Promise<number> {
    return this.#child.status.then(({ code }) => code);
  }

  async #read(stream: 0 | 1, frame: Frame) {
    const parts: Uint8Array[] = [];
    const framed = new FramedOutput(frame, (bytes) => parts.push(bytes.slice()));
    while (!framed.ended) {
      const { value, done } = await this.#readers[stream].read();
      if (done) throw new Error("the shell has ended");
      framed.push(value);
    }
    return { text: Buffer.concat(parts).toString(), exitCode: framed.exitCode };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#input.close().catch(() => {});
    await this.#child.status;
    await Promise.all(this.#readers.map((reader) => reader.cancel()));
  }
}

// Every system uses one of these as /bin/sh, the shell of all sessions.
const shells = (await findShells()).filter(({ isSh }) => isSh);

for (const shell of shells) {
  const { name } = shell;
  const [program = "", ...args] = shell.command;
  const withShell = async (run: (shell: LocalShell) => Promise<void>) => {
    await using local = new LocalShell(program, args);
    await local.start();
    await run(local);
  };
  const ok = (stdout: string) => ({ stdout, stderr: "", exitCode: 0 });

  Deno.test(`${name}: state persists from command to command`, async () => {
    await withShell(async (local) => {
      assert.deepEqual(await local.run("cd /usr; x=5; f() { echo f$1; }"), ok(""));
      assert.deepEqual(await local.run("pwd; echo $x; f 1"), ok("/usr\n5\nf1\n"));
    });
  });

  Deno.test.each([
    { what: "an exit code", command: "sh -c 'exit 7'", stdout: "", exitCode: 7 },
    { what: "a death by signal", command: "sh -c 'kill -9 $$'", stdout: "", exitCode: 137 },
    { what: "no last newline", command: "printf abc", stdout: "abc", exitCode: 0 },
    { what: "a comment at the end", command: "echo a # b", stdout: "a\n", exitCode: 0 },
    { what: "a backslash at the end", command: "echo a\\", stdout: "a\\\n", exitCode: 0 },
    { what: "all kinds of quotes", command: `echo "a'b" 'c"d' \\\\`, stdout: `a'b c"d \\\n`, exitCode: 0 },
    { what: "a command that reads its input", command: "cat; echo done", stdout: "done\n", exitCode: 0 },
    { what: "the frame in a variable", command: "echo [$gateway_line]", stdout: "[]\n", exitCode: 0 },
    { what: "an empty command", command: "", stdout: "", exitCode: 0 },
  ])(`${name}: $what`, async ({ command, stdout, exitCode }) => {
    await withShell(async (local) => {
      const result = await local.run(command);
      assert.deepEqual({ stdout: result.stdout, exitCode: result.exitCode }, { stdout, exitCode });
      assert.deepEqual(await local.run("echo next"), ok("next\n"));
    });
  });

  Deno.test.each([
    { what: "an open quote", command: "echo 'a" },
    { what: "an open double quote", command: 'echo "a' },
    { what: "an open group", command: "{ echo a" },
    { what: "an open substitution", command: "echo $(echo a" },
    { what: "a stray word", command: "fi" },
  ])(`${name}: $what costs an error and not the session`, async ({ command }) => {
    await withShell(async (local) => {
      const { exitCode, stderr } = await local.run(command);
      assert.notEqual(exitCode, 0);
      assert.notEqual(stderr, "");
      assert.deepEqual(await local.run("echo next"), ok("next\n"));
    });
  });

  Deno.test.each([{ option: "v" }, { option: "x" }])(
    `${name}: commands return results while the shell traces (set -$option)`,
    async ({ option }) => {
      await withShell(async (local) => {
        await local.run(`set -${option}`);
        for (const code of [0, 7]) {
          const { stdout, exitCode } = await local.run(`echo a; sh -c 'exit ${code}'`);
          assert.deepEqual({ stdout, exitCode }, { stdout: "a\n", exitCode: code });
        }
      });
    },
  );

  Deno.test(`${name}: user functions and aliases do not change the result (K12)`, async () => {
    await withShell(async (local) => {
      await local.run("printf() { echo forged:0; }");
      await local.run("alias printf='echo forged' eval='echo forged' gateway_code='echo forged'");
      const { stdout, exitCode } = await local.run("sh -c 'exit 9'");
      assert.deepEqual({ stdout, exitCode }, { stdout: "", exitCode: 9 });
    });
  });

  Deno.test.each([{ builtin: "command" }, { builtin: "read" }])(
    `${name}: a user function named $builtin does not change the result (K12)`,
    async ({ builtin }) => {
      await withShell(async (local) => {
        await local.run(`${builtin}() { echo forged; return 1; }`);
        const { stdout, exitCode } = await local.run("sh -c 'exit 9'");
        assert.deepEqual({ stdout, exitCode }, { stdout: "", exitCode: 9 });
      });
    },
  );

  Deno.test(`${name}: no child process can read the end marker, even with exported variables`, async () => {
    await withShell(async (local) => {
      await local.run("set -a");
      const { stdout } = await local.run("env; set; cat /proc/$$/cmdline");
      assert.doesNotMatch(stdout, /__BRK_/);
    });
  });

  Deno.test(`${name}: output of a background process does not join the next command's`, async () => {
    await withShell(async (local) => {
      await local.run("mkfifo_dir=$(mktemp -d); mkfifo $mkfifo_dir/p");
      await local.run("{ read line < $mkfifo_dir/p; echo late; echo done > $mkfifo_dir/p; } &");
      // The background process prints between two commands, outside the frame.
      const { stdout } = await local.run("echo go > $mkfifo_dir/p; read line < $mkfifo_dir/p; echo mine");
      assert.match(stdout, /mine\n$/);
      assert.deepEqual(await local.run("rm -r $mkfifo_dir; echo clean"), ok("clean\n"));
    });
  });

  Deno.test.each([
    { what: "joins its streams", command: "exec 2>&1", next: { stdout: "a\nb\n", stderr: "" } },
    { what: "closes its output", command: "exec 1>&-", next: { stdout: "", stderr: "b\n" } },
    { what: "closes both streams", command: "exec 1>&- 2>&-", next: { stdout: "", stderr: "" } },
    { what: "sends its output elsewhere", command: "exec >/dev/null 2>&1", next: { stdout: "", stderr: "" } },
    { what: "closes the frame's streams", command: "exec 6>&- 7>&-", next: { stdout: "a\n", stderr: "b\n" } },
    {
      what: "takes the frame's streams",
      command: "exec 6>/dev/null 7>&1",
      next: { stdout: "a\n", stderr: "b\n" },
    },
    { what: "closes its input", command: "exec 0<&-", next: { stdout: "a\n", stderr: "b\n" } },
    { what: "continues", command: "continue", next: { stdout: "a\n", stderr: "b\n" } },
    { what: "breaks", command: "echo x | cat; break", next: { stdout: "a\n", stderr: "b\n" } },
  ])(`${name}: a command that $what returns a result, and the next one too`, async ({ command, next }) => {
    await withShell(async (local) => {
      assert.equal((await local.run(command)).exitCode, 0);
      const { stdout, stderr } = await local.run("/bin/echo a 2>/dev/null; /bin/echo b >&2 2>/dev/null");
      assert.deepEqual({ stdout, stderr }, next);
    });
  });

  Deno.test.each(
    ["break 2", "break 9", "continue 2", "continue 3", "continue 9"].map((command) => ({ command })),
  )(
    `${name}: a command that leaves the shell's loop by $command ends the shell`,
    async ({ command }) => {
      await withShell(async (local) => {
        await assert.rejects(local.run(command), /the shell has ended/);
        assert.equal(await local.exitCode, LEFT_LOOP);
      });
    },
  );

  Deno.test(`${name}: a command that ends the shell fails instead of returning a result`, async () => {
    await withShell(async (local) => {
      await assert.rejects(local.run("exit 3"), /the shell has ended/);
    });
  });
}
