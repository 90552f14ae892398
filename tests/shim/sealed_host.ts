import { mayNotMount, TinyDisk } from "../adapters/tiny_disk.ts";
import { createTestCa, PRINCIPAL, type TestCa } from "../ssh_target/certificates.ts";
import { createOpensshTarget, findSshd } from "../ssh_target/openssh.ts";
import type { SshTarget } from "../ssh_target/ssh_target.ts";
import { SSHD_PROBLEM } from "../ssh_target/sshd_problem.ts";

/** The account that sessions log in to. */
export const ACCOUNT = "gw-sealed";

export interface HostResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const ROOT = new URL("../../", import.meta.url).pathname;
const MAKE_HOST = `
for folder in etc usr var home; do
  mkdir -p "$0/$folder" "$0/work-$folder" &&
    mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$0/$folder,workdir=$0/work-$folder" "/$folder" || exit
done
mkdir -p /etc/gateway && chown 0:0 /usr/local/bin && chmod go-w /usr/local/bin
useradd --create-home --shell /bin/sh ${ACCOUNT} && usermod -p '*' ${ACCOUNT} || exit
echo ready
exec cat
`;

/** A host with a separate file system, so that the machine does not see its installations. Needs root. */
export class SealedHost implements AsyncDisposable {
  readonly ca: TestCa = createTestCa();
  readonly #disk: TinyDisk;
  /** Keeps the mount namespace open until its input ends. */
  readonly #keeper: Deno.ChildProcess;

  private constructor(disk: TinyDisk, keeper: Deno.ChildProcess) {
    this.#disk = disk;
    this.#keeper = keeper;
  }

  static async start(): Promise<SealedHost> {
    const disk = await TinyDisk.mount("size=64m,mode=755");
    const keeper = new Deno.Command("unshare", {
      args: ["--mount", "--propagation", "private", "/bin/sh", "-c", MAKE_HOST, disk.folder],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const host = new SealedHost(disk, keeper);
    for await (const chunk of keeper.stdout.values({ preventCancel: true })) {
      if (new TextDecoder().decode(chunk).includes("ready")) return host;
    }
    await host[Symbol.asyncDispose]();
    throw new Error("Cannot make a host of its own");
  }

  /** The launcher prefix that runs a program on the host. */
  get launcher(): readonly string[] {
    return ["nsenter", `--mount=/proc/${this.#keeper.pid}/ns/mnt`, "--"];
  }

  /** Runs a shell script as root. */
  async sh(script: string, stdin = ""): Promise<HostResult> {
    const [program = "", ...words] = this.launcher;
    const process = new Deno.Command(program, {
      args: [...words, "/bin/sh", "-c", script],
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const writer = process.stdin.getWriter();
    await writer.write(new TextEncoder().encode(stdin)).catch(() => undefined);
    await writer.close().catch(() => undefined);
    const { code, stdout, stderr } = await process.output();
    const decoder = new TextDecoder();
    return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
  }

  /** Installs the shim of format v1 from this directory, with this Deno. */
  async installV1(keyLines: string): Promise<void> {
    const { code, stderr } = await this.sh(
      `mkdir -p /usr/local/lib/gateway && mount --bind '${ROOT}' /usr/local/lib/gateway &&
      touch /usr/local/bin/deno && mount --bind '${Deno.execPath()}' /usr/local/bin/deno &&
      ln -s /usr/local/lib/gateway/shim/gateway-shim-v1 /usr/local/bin/gateway-shim &&
      groupadd --system gateway-shim && usermod -aG gateway-shim ${ACCOUNT} &&
      mkdir -p /var/lib/gateway-shim/nonces && chown root:gateway-shim /var/lib/gateway-shim/nonces &&
      chmod 1770 /var/lib/gateway-shim/nonces && cat >/etc/gateway/envelope.pub`,
      keyLines,
    );
    if (code !== 0) throw new Error(stderr);
  }

  /** Starts sshd on the host. It trusts {@linkcode ca} for the account and for root. */
  async startSshd(): Promise<SshTarget> {
    const sshd = findSshd();
    if (sshd === undefined) throw new Error("sshd is not installed");
    const dir = `${this.#disk.folder}/sshd`;
    await Deno.mkdir(dir);
    return await createOpensshTarget(sshd, ACCOUNT, {
      caPublicKeyLine: this.ca.publicKeyLine,
      principals: { [ACCOUNT]: [PRINCIPAL], root: ["root"] },
      dir,
      launcher: this.launcher,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#keeper.stdin.close();
    await this.#keeper.stdout.cancel();
    await this.#keeper.status;
    await this.#disk[Symbol.asyncDispose]();
  }
}

async function mayOverlay(): Promise<boolean> {
  if (mayNotMount || Deno.uid() !== 0 || SSHD_PROBLEM !== "") return false;
  try {
    await using host = await SealedHost.start();
    return (await host.sh("true")).code === 0;
  } catch {
    return false;
  }
}

/** Whether this machine cannot run a {@linkcode SealedHost}: root, sshd, overlays, `unshare`. */
export const mayNotSeal: boolean = Deno.env.get("REQUIRE_REAL_SERVERS") !== "1" && !(await mayOverlay());

export function sealTest(name: string, fn: () => Promise<void>): void {
  Deno.test({ name: `${name} (needs root, sshd and overlays)`, ignore: mayNotSeal, fn });
}
