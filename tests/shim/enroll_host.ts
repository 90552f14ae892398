import assert from "node:assert/strict";
import { formatEnrollScript } from "../../ctl/hosts/enroll.ts";
import { freePort } from "../stage/free_port.ts";
import { ACCOUNT, SealedHost } from "./sealed_host.ts";

export const CONFIG = "/etc/ssh/test_config";
/** The principal of the accepted certificates. */
export const PRINCIPAL = "host:web01";

const BROKER_CTL = new URL("../../ctl/main.ts", import.meta.url).pathname;

/** A host whose sshd config has these lines. Of two CAs, `ours` is new and `other` may already be trusted. */
export class EnrolHost implements AsyncDisposable {
  readonly port = freePort();
  readonly #host: SealedHost;

  private constructor(host: SealedHost) {
    this.#host = host;
  }

  static async start(lines: string): Promise<EnrolHost> {
    const sealed = await SealedHost.start();
    const host = new EnrolHost(sealed);
    await host.sh(`
      mkdir -p /run/sshd /var/k /etc/ssh/test.d && cd /var/k && ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/test_key
      rm -rf /etc/gateway/enrolments /etc/ssh/auth_principals /etc/ssh/gateway_ca.pub
      for key in ours other user; do ssh-keygen -q -t ed25519 -N '' -f $key; done
      cat >${CONFIG} <<END
Port ${host.port}
ListenAddress 127.0.0.1
HostKey /etc/ssh/test_key
PidFile /etc/ssh/test.pid
UsePAM no
LogLevel DEBUG1
StrictModes no
AuthorizedKeysFile none
${lines}
END
      "$(command -v sshd)" -f ${CONFIG} -E /var/k/log && for i in 1 2 3 4 5 6 7 8 9; do [ -s /etc/ssh/test.pid ] && break; sleep 0.2; done`);
    return host;
  }

  get launcher() {
    return this.#host.launcher;
  }

  async sh(script: string, stdin = ""): Promise<string> {
    const { code, stdout, stderr } = await this.#host.sh(script, stdin);
    assert.equal(code, 0, `${script}\n${stdout}${stderr}`);
    return stdout;
  }

  /** Whether a certificate of a CA for a principal can log in. */
  async mayLogIn(ca: string, principal: string): Promise<boolean> {
    const { stdout } = await this.#host.sh(
      `cd /var/k && ssh-keygen -q -s ${ca} -I t -n '${principal}' -V +5m user.pub &&
      ssh -F none -i user -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ConnectTimeout=20 \
        -p ${this.port} ${ACCOUNT}@127.0.0.1 echo in`,
    );
    return stdout === "in\n";
  }

  /** Runs the program that `host enrol` prints. */
  async enrol(options: Partial<Parameters<typeof formatEnrollScript>[0]> = {}) {
    const script = formatEnrollScript({
      mode: "add",
      user: ACCOUNT,
      principal: PRINCIPAL,
      ca: [(await this.sh("cat /var/k/ours.pub")).trim()],
      sshdConfig: CONFIG,
      ...options,
    });
    return await this.#host.sh("sh", `${script.join("\n")}\n`);
  }

  /** All state that the enrollment can change. */
  state(): Promise<string> {
    return this.sh(
      "cd /etc && for f in $(find ssh gateway -type f ! -name '*.pid' | sort); do echo \"== $f $(stat -c %a:%u $f)\"; cat $f; done",
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#host.sh("kill $(cat /etc/ssh/test.pid)");
    await this.#host[Symbol.asyncDispose]();
  }
}

/**
 * Runs `broker-ctl` in a directory with a setup, under its own permissions. Its commands as root over ssh run on the
 * host without a login. Logins to the account are real. If the file `bin/ssh.no-listener` exists, the first one is not:
 * it simulates a login while sshd restarts.
 */
export async function runOverSshTo(host: EnrolHost, folder: string, ...args: readonly string[]) {
  const program = `#!/bin/sh
case "$*" in *"sh -s") exec ${host.launcher.join(" ")} sh -s ;; esac
if rm "$0.no-listener" 2>/dev/null; then echo "ssh: connect to host 127.0.0.1 port ${host.port}: Connection refused" >&2; exit 255; fi
exec /usr/bin/ssh "$@"\n`;
  await Deno.mkdir(`${folder}/bin`, { recursive: true });
  await Deno.writeTextFile(`${folder}/bin/ssh`, program, { mode: 0o755 });
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--quiet", "--no-prompt", "--cached-only", "-P=broker-ctl", BROKER_CTL, ...args],
      ...["--over", "ssh", "--config", `${folder}/signer.json`, "--sshd-config", CONFIG],
    ],
    env: { PATH: `${folder}/bin:/usr/sbin:/usr/bin:/bin`, NO_COLOR: "1" },
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, text: text(stdout) + text(stderr) };
}
