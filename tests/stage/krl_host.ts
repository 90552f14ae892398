import assert from "node:assert/strict";
import { dirname } from "node:path";
import { SSHD_PROBLEM } from "../ssh_target/sshd_problem.ts";
import { poll } from "./poll.ts";
import { ROOT } from "./service_command.ts";
import { HOST, revokedKeysIn, runBrokerCtl, type Stage } from "./stage.ts";

/** Why a stage's host can't fetch revocation lists here; empty: it can. */
export function findKrlProblem(): string {
  const missing = ["curl", "ssh-keygen", "setsid"].filter((program) =>
    !["/usr/local/bin", "/usr/bin", "/bin"].some((folder) => isFile(`${folder}/${program}`))
  );
  return SSHD_PROBLEM === "" && missing.length > 0 ? `there is no ${missing.join(", no ")}` : SSHD_PROBLEM;
}

/** Whether tests do without such a host. A run that has to be complete fails instead of passing over them. */
export const mayNotPull: boolean = Deno.env.get("REQUIRE_REAL_SERVERS") !== "1" && findKrlProblem() !== "";

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

/** The puller of a stage's host, as a process of its own. */
export class KrlHost implements AsyncDisposable {
  /** The file that sshd looks at. */
  readonly list: string;
  readonly #process: Deno.ChildProcess;
  readonly #log: Promise<unknown>;

  private constructor(list: string, process: Deno.ChildProcess) {
    this.list = list;
    this.#process = process;
    this.#log = new Response(process.stderr).text();
  }

  /** Names the host in the signer's config, as `broker-ctl host krl` does; before the signer starts. */
  static async enrol({ init }: Stage): Promise<void> {
    const [, listen = ""] = (await Deno.readTextFile(init.signer_config)).match(/"listen": "([^"]+)"/) ?? [];
    const words = ["host", "krl", HOST, "--config", init.signer_config, "--url", `https://${listen}`];
    const files = ["--ca-key", init.mtls_ca.replace(/\.crt$/, ".key"), "--out", `${init.folder}/krl-host`];
    const { success, stderr } = await runBrokerCtl([...words, ...files], init.folder);
    assert.ok(success, new TextDecoder().decode(stderr));
  }

  /** Starts the puller of an enrolled host, and waits until it has installed a list. */
  static async start({ init }: Stage): Promise<KrlHost> {
    const list = revokedKeysIn(dirname(init.folder));
    await Deno.mkdir(dirname(list), { recursive: true });
    const settings = await Deno.readTextFile(`${init.folder}/krl-host/signer.env`);
    const [name = "", url = ""] = settings.trim().split("=");
    const process = new Deno.Command("setsid", {
      args: [`${ROOT}shim/gateway-krl`],
      env: { [name]: url, GATEWAY_KRL_CONF: `${init.folder}/krl-host`, GATEWAY_KRL_DIR: dirname(list) },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const host = new KrlHost(list, process);
    try {
      await poll(async () => await host.version() > 0, { what: "the first list" });
    } catch (error) {
      await host[Symbol.asyncDispose]();
      throw error;
    }
    return host;
  }

  /** The version that is installed, as it stands in the list; 0: none. */
  async version(): Promise<number> {
    try {
      const bytes = await Deno.readFile(this.list);
      return Number(new DataView(bytes.buffer).getBigUint64(12));
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return 0;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      Deno.kill(-this.#process.pid, "SIGKILL");
    } catch {
      // It has ended.
    }
    await Promise.all([this.#process.status, this.#log]);
  }
}
