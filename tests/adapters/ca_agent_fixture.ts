import { run } from "../stage/run.ts";
import { type RunningAgent, startAgent as startAgentAt } from "../stage/ssh_agent.ts";

export interface RealAgent extends RunningAgent {
  readonly folder: string;
  /** Creates a key and adds it to the agent. Returns the path of the private key. */
  addKey(name: string, type: "ed25519" | "ecdsa" | "rsa", bits?: number): Promise<string>;
}

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
