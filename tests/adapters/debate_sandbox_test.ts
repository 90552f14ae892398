import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { createProgramRunner, type ProgramRequest } from "../../debate/tools/run_program.ts";
import { openRunner } from "../../debate/tools/sandbox.ts";
import { isMissing } from "../stage/is_missing.ts";
import { poll } from "../stage/poll.ts";
import { temporaryFolder } from "./debate_tools_fixture.ts";

const opened = await openRunner(createProgramRunner(systemClock), systemClock);
const ignore = isMissing("bwrap", ["/usr/bin/bwrap"]) || opened.problem !== undefined;
const { signal } = new AbortController();

const shell = (script: string, request: Partial<ProgramRequest> = {}) =>
  opened.runProgram({ program: "sh", args: ["-c", script], cwd: "/", signal, ...request });

Deno.test("a sandboxed program reads files and changes none", { ignore }, async () => {
  await using folder = await temporaryFolder();
  await Deno.writeTextFile(`${folder.path}/a`, "text");
  const { code, stdout, stderr } = await shell("cat a; echo b >a; touch b; pwd", { cwd: folder.path });
  assert.equal(code, 0);
  assert.equal(stdout, `text${folder.path}\n`);
  assert.match(stderr, /Read-only file system/);
  assert.equal(await Deno.readTextFile(`${folder.path}/a`), "text");
});

Deno.test("a sandboxed program has no privileges", { ignore }, async () => {
  assert.match((await shell("cat /proc/self/status")).stdout, /CapEff:\t0+\n[^]*NoNewPrivs:\t1\n/);
});

Deno.test("a sandboxed program has the network only if it needs it", { ignore }, async () => {
  const server = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const ask = `exec 3<>/dev/tcp/127.0.0.1/${server.addr.port} && echo connected`;
  const connect = (needs: ProgramRequest["needs"]) =>
    opened.runProgram({ program: "bash", args: ["-c", ask], cwd: "/", signal, ...(needs && { needs }) });
  assert.match((await connect(undefined)).stderr, /refused|unreachable/);
  assert.equal((await connect(["network"])).stdout, "connected\n");
  server.close();
});

Deno.test("a sandboxed program sees other processes only if it needs them", { ignore }, async () => {
  const look = `ls -d /proc/${Deno.pid}`;
  assert.notEqual((await shell(look)).code, 0);
  assert.equal((await shell(look, { needs: ["processes"] })).code, 0);
});

Deno.test("a program that is missing is reported in the sandbox too", { ignore }, async () => {
  await assert.rejects(opened.runProgram({ program: "no-such-program", args: [], cwd: "/", signal }), {
    message: "program no-such-program is not installed",
  });
});

Deno.test.each([{ needs: [] }, { needs: ["processes"] }] as const)(
  "a sandboxed program with $needs is stopped with its children",
  { ignore },
  async ({ needs }) => {
    const mark = `${3_000_000 + Deno.pid}`;
    const ended = new AbortController();
    const running = shell(`sleep ${mark} & sleep ${mark}`, { needs, signal: ended.signal });
    const sleeping = async () => {
      const { stdout } = await createProgramRunner(systemClock)({
        program: "ps",
        args: ["ax"],
        cwd: "/",
        signal,
      });
      return stdout.split("\n").filter((line) => line.includes(`sleep ${mark}`) && !line.includes("sh -c"))
        .length;
    };
    await poll(async () => (await sleeping()) === 2, { what: "two processes" });
    ended.abort();
    assert.equal((await running).stopped, "signal");
    await poll(async () => (await sleeping()) === 0, { what: "the end of both" });
  },
);
