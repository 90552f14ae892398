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

Deno.test.each([
  {
    name: "without its CA key",
    spoil: (folder: string) => Deno.remove(`${folder}/pki/ssh_ca`),
    message: /Cannot read ca_key "[^"]*\/pki\/ssh_ca": no such file/,
  },
  {
    name: "with another file as its CA key",
    spoil: (folder: string) => Deno.writeTextFile(`${folder}/pki/ssh_ca`, "not a key\n"),
    message:
      /Cannot use ca_key "[^"]*\/pki\/ssh_ca": Cannot read private key: not the PEM text of exactly one key/,
  },
  {
    name: "without the folder of its audit log",
    spoil: (folder: string) => Deno.remove(`${folder}/log/signer`, { recursive: true }),
    message: /Cannot open audit log "[^"]*\/log\/signer\/audit\.log": its folder does not exist/,
  },
])("ctl/start.ts hands on that a signer does not start $name, and what is to be mended", async (row) => {
  await using folder = await createFolder();
  await createSetUp(folder.path);
  await row.spoil(folder.path);
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...LAUNCHER, "signer", "--config", `${folder.path}/signer.json`],
    stdin: "null",
  }).output();
  assert.notEqual(code, 0);
  assert.match(new TextDecoder().decode(stderr), row.message);
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
