import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { createProgramRunner, type ProgramRequest } from "../../debate/tools/run_program.ts";
import { poll } from "../stage/poll.ts";

const runProgram = createProgramRunner(systemClock);
const signal = () => new AbortController().signal;

async function run(program: string, args: readonly string[], more: Partial<ProgramRequest> = {}) {
  return await runProgram({ program, args, cwd: "/", signal: signal(), ...more });
}

Deno.test("createProgramRunner() gives both outputs and the exit code", async () => {
  const { code, stdout, stderr, stopped } = await run("sh", ["-c", "echo out; echo err >&2; exit 3"]);
  assert.deepEqual({ code, stdout, stderr, stopped }, {
    code: 3,
    stdout: "out\n",
    stderr: "err\n",
    stopped: undefined,
  });
});

Deno.test("createProgramRunner() gives a program nothing of this process's environment", async () => {
  assert.ok(Deno.env.has("HOME"), "there is something that could be passed on");
  const { stdout } = await run("env", [], { env: { EXTRA: "1" } });
  const names = stdout.trim().split("\n").map((line) => line.split("=")[0]);
  assert.deepEqual(names.toSorted(), ["EXTRA", "LC_ALL", "PAGER", "PATH", "TERM"]);
});

Deno.test("createProgramRunner() passes words as they are and closes the input", async () => {
  const words = ["$(id)", "; id", "a b", "*", "'", "-n"];
  const { stdout } = await run("printf", ["%s|", ...words]);
  assert.equal(stdout, words.map((word) => `${word}|`).join(""));
  assert.equal((await run("cat", [])).stdout, "");
});

Deno.test("createProgramRunner() refuses a program that is not there", async () => {
  await assert.rejects(run("no-such-program", []), {
    name: "ToolFailure",
    message: /no-such-program is not installed/,
  });
});

Deno.test("createProgramRunner() stops an endless writer at the bound, and keeps what came first", async () => {
  const { stopped, stdout } = await run("yes", [], { maxBytes: 10_000 });
  assert.equal(stopped, "output");
  assert.equal(stdout.length, 10_000);
});

Deno.test("createProgramRunner() leaves out the word that the bound cuts, which may be half a secret", async () => {
  const { stopped, stdout } = await run("sh", ["-c", "echo a; printf 'b https://u:hunter2@h'; yes"], {
    maxBytes: 18,
  });
  assert.deepEqual([stopped, stdout], ["output", "a\nb "]);
});

Deno.test("createProgramRunner() counts both outputs together", async () => {
  const { stopped, stdout, stderr } = await run("sh", ["-c", "yes & yes >&2"], { maxBytes: 10_000 });
  assert.equal(stopped, "output");
  assert.ok(stdout.length + stderr.length <= 10_000);
});

Deno.test("createProgramRunner() ends a program with all its children when the signal says so", async () => {
  const marker = `3${Math.floor(Math.random() * 1e8)}`;
  const stop = new AbortController();
  const running = run("sh", ["-c", `echo first; exec >/dev/null 2>&1; sleep ${marker} & sleep ${marker}`], {
    signal: stop.signal,
  });
  await poll(async () => await countSleeps(marker) === 2, { what: "both children" });
  stop.abort();
  const { stopped, stdout } = await running;
  assert.equal(stopped, "signal");
  assert.equal(stdout, "first\n");
  await poll(async () => await countSleeps(marker) === 0, { what: "the end of both children" });
});

Deno.test("createProgramRunner() ends a child that outlives its parent and holds the output", async () => {
  const marker = `4${Math.floor(Math.random() * 1e8)}`;
  const { code, stdout } = await run("sh", ["-c", `sleep ${marker} & echo gone`]);
  assert.equal(code, 0);
  assert.equal(stdout, "gone\n");
  await poll(async () => await countSleeps(marker) === 0, { what: "the end of the child" });
});

Deno.test("createProgramRunner() does not start for a signal that is aborted", async () => {
  const stop = AbortSignal.abort(new Error("over"));
  await assert.rejects(runProgram({ program: "true", args: [], cwd: "/", signal: stop }), /over/);
});

async function countSleeps(marker: string): Promise<number> {
  const { stdout } = await new Deno.Command("ps", { args: ["-eo", "args="] }).output();
  return new TextDecoder().decode(stdout).split("\n").filter((line) => line === `sleep ${marker}`).length;
}
