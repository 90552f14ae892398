import type { CertificateFields } from "@gateway/shared/ssh";
import { run } from "../stage/run.ts";
import type { TestCa } from "../ssh_target/certificates.ts";
import type { SshTarget } from "../ssh_target/ssh_target.ts";
import { finish, type RunResult } from "./installed_shim.ts";

/** Writes a key and its certificate to a directory, with the names that `ssh` and `ssh-add` expect. */
export async function writeIdentity(
  folder: string,
  ca: TestCa,
  fields: Partial<CertificateFields>,
): Promise<string> {
  const path = `${folder}/id_ed25519`;
  await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", path]);
  const certificate = await ca.certify(await Deno.readTextFile(`${path}.pub`), fields);
  await Deno.writeTextFile(`${path}-cert.pub`, `${certificate}\n`);
  return path;
}

export class SshClient implements AsyncDisposable {
  readonly #folder: string;
  readonly #target: SshTarget;

  private constructor(folder: string, target: SshTarget) {
    this.#folder = folder;
    this.#target = target;
  }

  /** @param fields additional fields of the certificate */
  static async logIn(
    target: SshTarget,
    ca: TestCa,
    fields: Partial<CertificateFields>,
  ): Promise<SshClient> {
    const folder = await Deno.makeTempDir({ prefix: "ssh-client-" });
    const client = new SshClient(folder, target);
    await writeIdentity(folder, ca, fields);
    await Deno.writeTextFile(`${folder}/known_hosts`, `target ${target.hostKeyLine}\n`);
    // ssh goes to the background when the connection is established.
    await run("ssh", [...client.#options, "-f", "-N", "-M", "127.0.0.1"]);
    return client;
  }

  get #options(): string[] {
    return [
      ...[
        "-F",
        "none",
        "-S",
        `${this.#folder}/socket`,
        "-i",
        `${this.#folder}/id_ed25519`,
        "-l",
        this.#target.user,
      ],
      ...["-p", String(this.#target.port), "-o", `UserKnownHostsFile=${this.#folder}/known_hosts`],
      ..."-o HostKeyAlias=target -o BatchMode=yes -o IdentitiesOnly=yes -o LogLevel=ERROR".split(" "),
    ];
  }

  /** Requests a command, or a shell if there is no command. */
  async exec(command: string | undefined, options: readonly string[] = [], stdin = ""): Promise<RunResult> {
    const process = new Deno.Command("ssh", {
      args: [...this.#options, ...options, "127.0.0.1", ...command === undefined ? [] : [command]],
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    return await finish(process, stdin);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run("ssh", [...this.#options, "-O", "exit", "127.0.0.1"]).catch(() => undefined);
    await Deno.remove(this.#folder, { recursive: true });
  }
}
