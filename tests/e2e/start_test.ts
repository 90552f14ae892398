import assert from "node:assert/strict";
import { createFolder, run } from "../adapters/ctl_fixture.ts";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";

const START = new URL("../../ctl/start.ts", import.meta.url).pathname;
const LAUNCHER = ["run", "-q", "--no-prompt", "--cached-only", "--allow-read", "--allow-run", START];

/** A set-up on free ports, and the monitor of its signer. */
async function createSetUp(folder: string) {
  const [signer, broker, signerMonitor, brokerMonitor] = [freePort(), freePort(), freePort(), freePort()];
  const at = (port: number) => `127.0.0.1:${port}`;
  const listeners = { "--listen-signer": signer, "--listen-broker": broker };
  const monitors = { "--monitor-signer": signerMonitor, "--monitor-broker": brokerMonitor };
  const flags = Object.entries({ ...listeners, ...monitors }).flatMap(([flag, port]) => [flag, at(port)]);
  const result = await run(folder, "init", ...flags);
  assert.equal(result.exit, 0, result.err);
  return { monitor: `http://${at(signerMonitor)}` };
}

async function isReady(monitor: string): Promise<boolean> {
  try {
    const response = await fetch(`${monitor}/readyz`);
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}

Deno.test("ctl/start.ts runs the signer, passes signals on and ends with its exit code", async () => {
  await using folder = await createFolder();
  const { monitor } = await createSetUp(folder.path);
  const child = new Deno.Command(Deno.execPath(), {
    args: [...LAUNCHER, "signer", "-config", `${folder.path}/signer.json`],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const log = new Response(child.stderr).text();
  try {
    await poll(() => isReady(monitor), { what: "the signer to be ready" });
    const client = `${folder.path}/broker-ctl.json`;
    assert.equal((await run("/", "reload", "--client-config", client)).exit, 0);
  } finally {
    child.kill("SIGTERM");
  }
  const status = await child.status;
  assert.equal(status.code, 0, await log);
  assert.equal(await isReady(monitor), false);
  assert.match(await log, /"signal":"SIGTERM"/);
});

Deno.test("ctl/start.ts hands on the failure of a service", async () => {
  await using folder = await createFolder();
  await createSetUp(folder.path);
  await Deno.remove(`${folder.path}/pki/ssh_ca`);
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...LAUNCHER, "signer", "--config", `${folder.path}/signer.json`],
    stdin: "null",
  }).output();
  assert.notEqual(code, 0);
  assert.match(new TextDecoder().decode(stderr), /ssh_ca/);
});

Deno.test("ctl/start.ts starts nothing on a broken config", async () => {
  await using folder = await createFolder();
  await Deno.writeTextFile(`${folder.path}/signer.json`, '{ "host": {} }');
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...LAUNCHER, "signer", "--config", `${folder.path}/signer.json`],
    stdin: "null",
  }).output();
  assert.equal(code, 1);
  assert.match(new TextDecoder().decode(stderr), /unknown key "host"/);
});
