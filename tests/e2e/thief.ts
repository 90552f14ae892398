import assert from "node:assert/strict";
import { parseCertificate } from "@gateway/shared/ssh";
import { finish } from "../shim/installed_shim.ts";
import { HOST, post, type Stage } from "../stage/stage.ts";

/** An attacker with a broker's identity who connects to the signer and sshd without a broker. */
export class Thief {
  readonly forceCommand: string;
  readonly #stage: Stage;
  readonly #dir: string;

  private constructor(stage: Stage, dir: string, forceCommand: string) {
    this.#stage = stage;
    this.#dir = dir;
    this.forceCommand = forceCommand;
  }

  static async create(stage: Stage, { pty = false, role = "target", mode = "exec" } = {}): Promise<Thief> {
    const dir = `${stage.init.folder}/thief`;
    await Deno.mkdir(dir, { recursive: true });
    await Deno.remove(`${dir}/key`).catch(() => {});
    const made = await new Deno.Command("ssh-keygen", {
      args: ["-q", "-t", "ed25519", "-N", "", "-f", `${dir}/key`],
    }).output();
    assert.ok(made.success);
    const broker = await stage.signerClient("broker");
    const { body, text } = await post(broker, "/v1/sign", {
      ...{ host: HOST, role, purpose: "session", session_mode: mode, pty },
      public_key: await Deno.readTextFile(`${dir}/key.pub`),
    });
    const { certificate } = body as { readonly certificate?: string };
    assert.equal(typeof certificate, "string", text);
    await Deno.writeTextFile(`${dir}/key-cert.pub`, String(certificate));
    const options = parseCertificate(String(certificate)).criticalOptions;
    return new Thief(stage, dir, options["force-command"] ?? "");
  }

  /** The envelope that the signer returns for a command. */
  async envelope(command: string): Promise<string> {
    const broker = await this.#stage.signerClient("broker");
    const { body } = await post(broker, "/v1/sign", {
      ...{ host: HOST, role: "target", purpose: "session", session_mode: "exec", command },
      ...{ dry_run: true, preflight: true },
      public_key: await Deno.readTextFile(`${this.#dir}/key.pub`),
    });
    return String((body as { readonly envelope?: string }).envelope);
  }

  /** Logs in and runs a command or requests a shell. */
  async ssh(command?: string, options: readonly string[] = [], stdin = "") {
    const { port, user } = this.#stage.target;
    const process = new Deno.Command("ssh", {
      args: [
        ...["-F", "none", "-i", `${this.#dir}/key`, "-o", `CertificateFile=${this.#dir}/key-cert.pub`],
        ...["-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"],
        ...["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-p", String(port)],
        ...[...options, `${user}@127.0.0.1`, ...(command === undefined ? [] : ["--", command])],
      ],
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    return await finish(process, stdin);
  }
}
