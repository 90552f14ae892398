import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";

/** An ssh-agent of its own, and the folder that its socket is in. */
export interface RealAgent extends AsyncDisposable {
  readonly socket: string;
  readonly folder: string;
  /** Makes a key and gives it to the agent; returns the path of its private half. */
  addKey(name: string, type: "ed25519" | "ecdsa" | "rsa"): Promise<string>;
  removeKeys(): Promise<void>;
  /** Stops the agent's process where it is, so that it accepts and never answers. */
  freeze(): void;
}

/** Starts an ssh-agent in the foreground, on a socket in a new temporary folder. */
export async function startAgent(): Promise<RealAgent> {
  const folder = await Deno.makeTempDir({ prefix: "gateway-agent-" });
  const socket = `${folder}/agent.sock`;
  const agent = new Deno.Command("ssh-agent", {
    args: ["-D", "-a", socket],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  await poll(() => exists(socket), { what: "the ssh-agent" });
  const env = { SSH_AUTH_SOCK: socket };
  return {
    socket,
    folder,
    async addKey(name, type) {
      const path = `${folder}/${name}`;
      await run("ssh-keygen", ["-q", "-t", type, "-N", "", "-C", name, "-f", path]);
      await run("ssh-add", ["-q", path], env);
      return path;
    },
    async removeKeys() {
      await run("ssh-add", ["-q", "-D"], env);
    },
    freeze: () => agent.kill("SIGSTOP"),
    async [Symbol.asyncDispose]() {
      agent.kill("SIGKILL");
      await agent.status;
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** Runs a program to its end, which must be a good one. */
export async function run(
  program: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args: [...args], env, stdin: "null" })
    .output();
  const decoder = new TextDecoder();
  assert.ok(success, `${program}: ${decoder.decode(stderr)}`);
  return decoder.decode(stdout);
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}
