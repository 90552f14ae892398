import assert from "node:assert/strict";
import { denoDir } from "../stage/deno_dir.ts";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { readProcFile } from "../stage/proc_file.ts";
import { sceneEnv, withHome } from "./debate_scene.ts";

const START = new URL("../../debate/start.ts", import.meta.url).pathname;

function start(home: string, env: Readonly<Record<string, string>>, args: readonly string[] = []) {
  return new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-q", "--no-prompt", "--cached-only", "--allow-read", "--allow-env", "--allow-run"],
      ...[START, ...args],
    ],
    cwd: home,
    clearEnv: true,
    env: { ...env, PATH: Deno.env.get("PATH") ?? "", DENO_DIR: denoDir(), NO_COLOR: "1" },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
}

/** The arguments of the only process that another one has started. */
async function commandOfChild(pid: number): Promise<readonly string[]> {
  const child = (await readProcFile(`/proc/${pid}/task/${pid}/children`)).trim();
  return (await readProcFile(`/proc/${child}/cmdline`)).split("\0");
}

Deno.test("debate/start.ts runs the server under the permissions that .env calls for, and ends with it", () =>
  withHome(async (home) => {
    const port = freePort();
    await Deno.writeTextFile(`${home}/.env`, `ENABLED_TOOLS=run_kubectl\nPROMPTS_DIR=${home}/prompts\n`);
    const child = start(home, sceneEnv(home), ["--port", String(port)]);
    const log = new Response(child.stderr).text();
    try {
      await poll(() => isUp(port), { what: "the debate server" });
      const flags = await commandOfChild(child.pid);
      const allowed = flags.filter((flag) => flag.startsWith("--allow-") && !flag.startsWith("--allow-env="));
      assert.deepEqual(allowed.map((flag) => flag.replace(/=.*/, "")), [
        "--allow-read",
        "--allow-write",
        "--allow-net",
        "--allow-run",
      ]);
      assert.ok(flags.includes(`--allow-write=${home}/runs,${home}/.config/debate`));
      assert.ok(flags.includes("--allow-run=kubectl,kill"));
      assert.match(allowed[0] ?? "", new RegExp(`,${home}/prompts,`));
    } finally {
      child.kill("SIGTERM");
    }
    assert.equal((await child.status).code, 0, await log);
    assert.equal(await isUp(port), false);
  }));

Deno.test("debate/start.ts starts nothing with settings that are wrong, and says which", () =>
  withHome(async (home) => {
    const { code, stderr } = await start(home, sceneEnv(home, { MAX_ROUNDS: "11" })).output();
    assert.match(new TextDecoder().decode(stderr), /^error: Cannot load settings .*MAX_ROUNDS/s);
    assert.equal(code, 2);
  }));

Deno.test("debate/start.ts hands on the failure of the server", () =>
  withHome(async (home) => {
    const { code, stderr } = await start(home, sceneEnv(home), ["--port", "0"]).output();
    assert.match(new TextDecoder().decode(stderr), /^error: .*--port/);
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
