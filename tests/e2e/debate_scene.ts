import { ENV_NAMES, loadSettings } from "../../debate/settings/config.ts";
import { serveFlags } from "../../debate/permissions.ts";
import { denoDir } from "../stage/deno_dir.ts";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { ROOT } from "../stage/service_command.ts";
import { createFolder } from "../stage/folder.ts";

/** A script for a hidden page in a browser that allows notifications. */
export const LOOKS_ELSEWHERE: string = `
  localStorage.setItem("notify", "yes");
  Object.defineProperty(document, "hidden", { get: () => true });
  globalThis.told = [];
  globalThis.Notification = class {
    static permission = "granted";
    constructor(title, { body }) { told.push([title, body]); }
  };`;

/** A debate server in a separate process with exactly the permissions of its settings. */
export class DebateProcess implements AsyncDisposable {
  readonly url: string;
  readonly #child: Deno.ChildProcess;
  readonly #collecting: Promise<void>;
  #log = "";
  #status: Deno.CommandStatus | undefined;

  private constructor(url: string, child: Deno.ChildProcess) {
    this.url = url;
    this.#child = child;
    this.#collecting = this.#collect(child.stderr);
    child.status.then((status) => this.#status = status);
  }

  /** Starts a server and waits until it responds or exits. */
  static async start(env: Readonly<Record<string, string>>, port = freePort()): Promise<DebateProcess> {
    const settings = loadSettings({ env, workingFolder: ROOT });
    const child = new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        ...serveFlags(settings, { workingFolder: ROOT, hasSandbox: true }),
        `${ROOT}debate/main.ts`,
        "serve",
        "--port",
        String(port),
      ],
      cwd: ROOT,
      clearEnv: true,
      env: { PATH: Deno.env.get("PATH") ?? "", DENO_DIR: denoDir(), NO_COLOR: "1", ...env },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const server = new DebateProcess(`http://127.0.0.1:${port}`, child);
    try {
      await poll(() => server.#answers(), { what: "the debate server" });
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  get log(): string {
    return this.#log;
  }

  get pid(): number {
    return this.#child.pid;
  }

  async json(path: string, init?: RequestInit) {
    return await (await fetch(`${this.url}${path}`, init)).json();
  }

  async post(path: string, body: object) {
    const headers = { "content-type": "application/json" };
    return await this.json(path, { method: "POST", headers, body: JSON.stringify(body) });
  }

  async run(fields: Readonly<Record<string, string>>): Promise<string> {
    const body = new FormData();
    for (const [name, value] of Object.entries(fields)) body.append(name, value);
    return (await this.json("/api/runs", { method: "POST", body })).run_id;
  }

  async event(runId: string, type: string) {
    let found: { readonly call_id: string } | undefined;
    await poll(async () => {
      const { events } = await this.json(`/api/runs/${runId}`);
      found = events.find((event: { readonly type: string }) => event.type === type);
      return found !== undefined;
    }, { what: type, timeoutMs: 60_000, intervalMs: 50 });
    return found;
  }

  async stop(signal: Deno.Signal = "SIGTERM"): Promise<Deno.CommandStatus> {
    if (this.#status === undefined) this.#child.kill(signal);
    const status = await this.#child.status;
    await this.#collecting;
    return status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop("SIGKILL");
  }

  async #answers(): Promise<boolean> {
    if (this.#status !== undefined) {
      await this.#collecting;
      throw new Error(`the debate server ended with status ${this.#status.code}:\n${this.#log}`);
    }
    try {
      const response = await fetch(`${this.url}/healthz`);
      await response.body?.cancel();
      return response.ok;
    } catch {
      return false;
    }
  }

  async #collect(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const bytes of stream) this.#log += decoder.decode(bytes, { stream: true });
  }
}

const SCENARIO = "replay/memory_leak";

/** Settings of a server with scripted models and without the environment of this machine. */
export function sceneEnv(home: string, more: Readonly<Record<string, string>> = {}): Record<string, string> {
  const env = {
    HOME: home,
    DATA_DIR: `${home}/runs`,
    ALLOWED_PROJECT_ROOTS: `${home}/project`,
    DIAGNOSTIC_MODEL: SCENARIO,
    SKEPTIC_MODEL: SCENARIO,
    MODERATOR_MODEL: SCENARIO,
    ...more,
  };
  for (const name of Object.keys(env)) if (!ENV_NAMES.includes(name)) throw new Error(`no setting ${name}`);
  return env;
}

export async function withHome(test: (home: string) => Promise<void>): Promise<void> {
  await using home = await createFolder();
  await Deno.mkdir(`${home.path}/project`);
  await test(home.path);
}
