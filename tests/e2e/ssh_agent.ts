import { poll } from "../stage/poll.ts";

/** A running `ssh-agent` of the system. */
export interface RunningAgent extends AsyncDisposable {
  readonly socket: string;
  /** Hands a private key file to the agent. */
  add(keyPath: string): Promise<void>;
}

/** Whether the system has no ssh-agent; with REQUIRE_REAL_SERVERS=1 that is not looked at. */
export const isAgentMissing: boolean = Deno.env.get("REQUIRE_REAL_SERVERS") !== "1" &&
  !isInstalled("/usr/bin/ssh-agent");

/** Starts an agent on a socket. */
export async function startAgent(socket: string): Promise<RunningAgent> {
  const process = new Deno.Command("ssh-agent", {
    args: ["-D", "-a", socket],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  })
    .spawn();
  await poll(() => isSocket(socket), { what: "ssh-agent" });
  let ended = false;
  return {
    socket,
    async add(keyPath) {
      const { success, stderr } = await new Deno.Command("ssh-add", {
        args: ["-q", keyPath],
        env: { SSH_AUTH_SOCK: socket },
        stdin: "null",
      }).output();
      if (!success) throw new Error(`ssh-add: ${new TextDecoder().decode(stderr)}`);
    },
    async [Symbol.asyncDispose]() {
      if (ended) return;
      ended = true;
      process.kill("SIGTERM");
      await process.status;
    },
  };
}

async function isSocket(path: string): Promise<boolean> {
  try {
    return (await Deno.stat(path)).isSocket === true;
  } catch {
    return false;
  }
}

function isInstalled(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}
