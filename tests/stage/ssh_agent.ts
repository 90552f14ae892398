import { poll } from "./poll.ts";
import { run } from "./run.ts";
import type { Pkcs11Token } from "./pkcs11_token.ts";

export interface RunningAgent extends AsyncDisposable {
  readonly socket: string;
  /** Adds a private key file to the agent. */
  add(keyPath: string): Promise<void>;
  /** Adds the keys of the token with which the agent was started. */
  addToken(token: Pkcs11Token): Promise<void>;
  /** The public keys, as lines of authorized_keys. */
  list(): Promise<readonly string[]>;
  removeKeys(): Promise<void>;
  /** Suspends the agent, so that it accepts connections and never answers. */
  freeze(): void;
}

/** True if the system has no ssh-agent. With REQUIRE_REAL_SERVERS=1 it is always false. */
export const isAgentMissing: boolean = Deno.env.get("REQUIRE_REAL_SERVERS") !== "1" &&
  !isInstalled("/usr/bin/ssh-agent");

/** Starts an agent on a socket. With a token, the agent can load only the token's module. */
export async function startAgent(socket: string, token?: Pkcs11Token): Promise<RunningAgent> {
  const process = new Deno.Command("ssh-agent", {
    args: ["-D", "-a", socket, ...(token === undefined ? [] : ["-P", token.module])],
    env: token?.env ?? {},
    stdin: "null",
    stdout: "null",
    stderr: "null",
  })
    .spawn();
  await poll(() => isSocket(socket), { what: "ssh-agent" });
  const sshAdd = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    run("ssh-add", args, { ...env, SSH_AUTH_SOCK: socket });
  let ended = false;
  return {
    socket,
    add: async (keyPath) => void await sshAdd(["-q", keyPath]),
    addToken: async ({ module, askPin }) => {
      await sshAdd(["-q", "-s", module], { SSH_ASKPASS: askPin, SSH_ASKPASS_REQUIRE: "force" });
    },
    list: async () => (await sshAdd(["-L"])).trimEnd().split("\n"),
    removeKeys: async () => void await sshAdd(["-q", "-D"]),
    freeze: () => process.kill("SIGSTOP"),
    async [Symbol.asyncDispose]() {
      if (ended) return;
      ended = true;
      // A suspended agent does not receive SIGTERM.
      process.kill("SIGKILL");
      await process.status;
      await Deno.remove(socket).catch(() => {});
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
