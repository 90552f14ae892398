import { run } from "../stage/run.ts";
import { type RunningAgent, startAgent as startAgentAt } from "../stage/ssh_agent.ts";

/** A separate ssh-agent, and the directory of its socket. */
export interface RealAgent extends RunningAgent {
  readonly folder: string;
  /** Makes a key and gives it to the agent; returns the path of its private half. */
  addKey(name: string, type: "ed25519" | "ecdsa" | "rsa", bits?: number): Promise<string>;
}

/** Starts an ssh-agent in the foreground, on a socket in a new temporary directory. */
export async function startAgent(): Promise<RealAgent> {
  const folder = await Deno.makeTempDir({ prefix: "gateway-agent-" });
  const agent = await startAgentAt(`${folder}/agent.sock`);
  return {
    ...agent,
    folder,
    async addKey(name, type, bits) {
      const path = `${folder}/${name}`;
      const length = bits === undefined ? [] : ["-b", `${bits}`];
      await run("ssh-keygen", ["-q", "-t", type, ...length, "-N", "", "-C", name, "-f", path]);
      await agent.add(path);
      return path;
    },
    async [Symbol.asyncDispose]() {
      await agent[Symbol.asyncDispose]();
      await Deno.remove(folder, { recursive: true });
    },
  };
}
