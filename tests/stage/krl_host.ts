import assert from "node:assert/strict";
import { dirname } from "node:path";
import { SSHD_PROBLEM } from "../ssh_target/sshd_problem.ts";
import { poll } from "./poll.ts";
import { ROOT } from "./service_command.ts";
import { HOST, revokedKeysIn, runBrokerCtl, type Stage } from "./stage.ts";

/** Returns the reason why a stage's host cannot fetch revocation lists; empty if it can. */
export function findKrlProblem(): string {
  const missing = ["curl", "ssh-keygen", "setsid"].filter((program) =>
    !["/usr/local/bin", "/usr/bin", "/bin"].some((folder) => isFile(`${folder}/${program}`))
  );
  return SSHD_PROBLEM === "" && missing.length > 0 ? `there is no ${missing.join(", no ")}` : SSHD_PROBLEM;
}

/** True if tests with such a host are skipped. With REQUIRE_REAL_SERVERS=1 they fail instead. */
export const mayNotPull: boolean = Deno.env.get("REQUIRE_REAL_SERVERS") !== "1" && findKrlProblem() !== "";

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

/** The puller of a stage's host in a separate process. */
export class KrlHost implements AsyncDisposable {
  /** The list that sshd reads. */
  readonly list: string;
  readonly #process: Deno.ChildProcess;
  readonly #log: Promise<unknown>;

  private constructor(list: string, process: Deno.ChildProcess) {
    this.list = list;
    this.#process = process;
    this.#log = new Response(process.stderr).text();
  }

  /** Adds the host to the signer's config, like `broker-ctl host krl`. Call it before the signer starts. */
  static async enrol({ init }: Stage): Promise<void> {
    const [, listen = ""] = (await Deno.readTextFile(init.signer_config)).match(/"listen": "([^"]+)"/) ?? [];
    const words = ["host", "krl", HOST, "--config", init.signer_config, "--url", `https://${listen}`];
    const files = ["--ca-key", init.mtls_ca.replace(/\.crt$/, ".key"), "--out", `${init.folder}/krl-host`];
    const { success, stderr } = await runBrokerCtl([...words, ...files], init.folder);
    assert.ok(success, new TextDecoder().decode(stderr));
  }

  /** Starts the puller of an enrolled host and waits until it has installed a list. */
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

  /** Version of the installed list; 0 if there is none. */
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
      // The process has exited.
    }
    await Promise.all([this.#process.status, this.#log]);
  }
}
