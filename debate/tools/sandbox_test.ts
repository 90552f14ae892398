import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { type ProgramRequest, type ProgramResult, refuse } from "./run_program.ts";
import { openRunner } from "./sandbox.ts";

const DONE: ProgramResult = { stopped: undefined, code: 0, stdout: "", stderr: "" };
const { signal } = new AbortController();

Deno.test.each([
  {
    name: "that does not work",
    result: { ...DONE, code: 1, stderr: "bwrap: No permissions\n" },
    problem: "bwrap: No permissions",
  },
  { name: "that fails silently", result: { ...DONE, code: 3 }, problem: "its check ended with exit code 3" },
  {
    name: "that does not end",
    result: { ...DONE, stopped: "signal" as const },
    problem: "its check ended with exit code 0",
  },
  { name: "that is missing", result: undefined, problem: "program bwrap is not installed" },
])("openRunner() runs programs without a sandbox $name, and reports why", async ({ result, problem }) => {
  const runs: ProgramRequest[] = [];
  const runner = await openRunner((request) => {
    runs.push(request);
    return Promise.try(() => result ?? refuse("program bwrap is not installed"));
  }, new FakeClock());
  assert.equal(runner.problem, problem);
  await runner.runProgram({ program: "id", args: ["-u"], cwd: "/", signal }).catch(() => {});
  assert.deepEqual(runs.map(({ program }) => program), ["bwrap", "bwrap", "id"]);
});

Deno.test.each(
  [
    { needs: [], network: false, processes: false },
    { needs: ["network"], network: true, processes: false },
    { needs: ["processes"], network: false, processes: true },
    { needs: ["network", "processes"], network: true, processes: true },
  ] as const,
)("openRunner() gives a program $needs", async ({ needs, network, processes }) => {
  const runs: ProgramRequest[] = [];
  const { runProgram } = await openRunner((request) => {
    runs.push(request);
    return Promise.resolve(DONE);
  }, new FakeClock());
  await runProgram({ program: "ss", args: ["-t"], cwd: "/srv", needs, signal });
  const { program, args } = runs[1] as ProgramRequest;
  assert.equal(program, "bwrap");
  assert.deepEqual(args.slice(0, 3), ["--ro-bind", "/", "/"]);
  assert.deepEqual(args.slice(-5), ["--chdir", "/srv", "--", "ss", "-t"]);
  assert.equal(args.includes("--unshare-net"), !network);
  assert.equal(args.includes("--unshare-pid"), !processes);
});

Deno.test("openRunner() keeps /proc of the machine if another one cannot be mounted", async () => {
  const runs: ProgramRequest[] = [];
  const runner = await openRunner((request) => {
    runs.push(request);
    return Promise.resolve(request.args.includes("--proc") ? { ...DONE, code: 1 } : DONE);
  }, new FakeClock());
  assert.equal(runner.problem, undefined);
  await runner.runProgram({ program: "id", args: [], cwd: "/", signal });
  assert.ok(runs[2]?.args.includes("--unshare-pid"));
  assert.ok(!runs[2]?.args.includes("--proc"));
});
