/** A signer started by `ctl/start.sh`. */
import assert from "node:assert/strict";
import { run } from "../adapters/ctl_fixture.ts";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { ROOT } from "../stage/service_command.ts";

export const START = `${ROOT}ctl/start.sh`;
export const ENV = { DENO: Deno.execPath(), NO_COLOR: "1" };

export async function createSetUp(folder: string) {
  const [signer, broker, signerMonitor, brokerMonitor] = [freePort(), freePort(), freePort(), freePort()];
  const at = (port: number) => `127.0.0.1:${port}`;
  const listeners = { "--listen-signer": signer, "--listen-broker": broker };
  const monitors = { "--monitor-signer": signerMonitor, "--monitor-broker": brokerMonitor };
  const flags = Object.entries({ ...listeners, ...monitors }).flatMap(([flag, port]) => [flag, at(port)]);
  const result = await run(folder, "init", "--dir=.", "--direct", ...flags);
  assert.equal(result.exit, 0, result.err);
  return { monitor: `http://${at(signerMonitor)}` };
}

export async function isReady(monitor: string): Promise<boolean> {
  try {
    const response = await fetch(`${monitor}/readyz`);
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}

export async function startSigner(folder: string, monitor: string) {
  const child = new Deno.Command(START, {
    args: ["signer", "-config", "signer.json"],
    cwd: folder,
    env: ENV,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const log = new Response(child.stderr).text();
  await poll(() => isReady(monitor), { what: "the signer to be ready" });
  return { child, log };
}
