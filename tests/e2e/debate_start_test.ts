import assert from "node:assert/strict";
import { PROGRAM_PATH } from "../../debate/tools/run_program.ts";
import { denoDir } from "../stage/deno_dir.ts";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { commandOf, readProcFile } from "../stage/proc_file.ts";
import { ROOT } from "../stage/service_command.ts";
import { DebateProcess, sceneEnv, withHome } from "./debate_scene.ts";

function start(home: string, env: Readonly<Record<string, string>>, args: readonly string[] = []) {
  return new Deno.Command(`${ROOT}debate/start.sh`, {
    args: [...args],
    cwd: home,
    clearEnv: true,
    env: {
      ...env,
      DENO: Deno.execPath(),
      PATH: Deno.env.get("PATH") ?? "",
      DENO_DIR: denoDir(),
      NO_COLOR: "1",
    },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
}

Deno.test("debate/start.sh becomes the server, under the permissions that .env calls for", () =>
  withHome(async (home) => {
    const port = freePort();
    await Deno.writeTextFile(`${home}/.env`, `ENABLED_TOOLS=run_kubectl\nPROMPTS_DIR=${home}/prompts\n`);
    const child = start(home, sceneEnv(home), ["--port", String(port)]);
    const log = new Response(child.stderr).text();
    try {
      await poll(() => isUp(port), { what: "the debate server" });
      const flags = await commandOf(child.pid);
      const allowed = flags.filter((flag) => flag.startsWith("--allow-") && !flag.startsWith("--allow-env="));
      assert.deepEqual(allowed.map((flag) => flag.replace(/=.*/, "")), [
        "--allow-read",
        "--allow-write",
        "--allow-net",
        "--allow-run",
      ]);
      assert.ok(flags.includes(`--allow-write=${home}/runs,${home}/.config/debate`));
      assert.ok(flags.includes("--allow-run=kubectl,kill"));
      assert.ok(flags.includes(`${ROOT}debate/main.ts`));
      assert.match(allowed[0] ?? "", new RegExp(`,${home}/prompts,`));
      const environment = (await readProcFile(`/proc/${child.pid}/environ`)).split("\0");
      assert.ok(
        environment.includes(`PATH=${PROGRAM_PATH}`),
        "programs are permitted where tools look for them",
      );
    } finally {
      child.kill("SIGTERM");
    }
    assert.equal((await child.status).code, 0, await log);
    assert.equal(await isUp(port), false);
  }));

Deno.test.each([
  { level: "DEBUG", says: /^The debate service is at .*Z GET \/healthz: 200\n/s },
  { level: "ERROR", says: /^$/ },
])("the server logs what LOG_LEVEL=$level leaves", ({ level, says }) =>
  withHome(async (home) => {
    const port = freePort();
    const child = start(home, sceneEnv(home, { LOG_LEVEL: level }), ["--port", String(port)]);
    const log = new Response(child.stderr).text();
    try {
      await poll(() => isUp(port), { what: "the debate server" });
    } finally {
      child.kill("SIGTERM");
    }
    assert.match(await log, says);
  }));

Deno.test("the server logs a run that fails, also where only errors are logged", () =>
  withHome(async (home) => {
    await using server = await DebateProcess.start(sceneEnv(home, { LOG_LEVEL: "ERROR" }));
    const runId = await server.run({ topic: "slow", diagnostic_model: "replay/gone" });
    await poll(() => server.log.includes(`run ${runId} failed: `), { what: "the failure in the log" });
  }));

Deno.test("debate/start.sh starts nothing with settings that are wrong, and says which", () =>
  withHome(async (home) => {
    const { code, stderr } = await start(home, sceneEnv(home, { MAX_ROUNDS: "11" })).output();
    assert.match(new TextDecoder().decode(stderr), /^error: Cannot load settings .*MAX_ROUNDS/s);
    assert.equal(code, 2);
  }));

async function isUp(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/healthz`);
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}
