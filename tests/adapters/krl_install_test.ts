import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { runCommand } from "../../broker/ssh/run_command.ts";
import { createTestCa, PRINCIPAL } from "../ssh_target/certificates.ts";
import { createHostKey } from "../ssh_target/host_key.ts";
import { PATIENT_LIMITS } from "../ssh_target/patient_limits.ts";
import { currentUser } from "../ssh_target/target.ts";
import { mayNotPull } from "../stage/krl_host.ts";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { listOf, PullerHost } from "./krl_puller_fixture.ts";

const ignore = mayNotPull || (Deno.uid() !== 0 && Deno.env.get("REQUIRE_REAL_SERVERS") !== "1");
const SCRIPT = new URL("../../shim/install-gateway-krl", import.meta.url).pathname;
const ca = createTestCa();

/** A host with a separate sshd in a directory that serves as its root. */
class Host implements AsyncDisposable {
  readonly puller: PullerHost;
  readonly root: string;
  readonly #port = freePort();
  readonly #hostKey = createHostKey();
  #sshd: Deno.ChildProcess | undefined;

  private constructor(puller: PullerHost) {
    this.puller = puller;
    this.root = `${puller.state}/root`;
  }

  static async create(include: boolean): Promise<Host> {
    const host = new Host(await PullerHost.create());
    await host.#start(include);
    return host;
  }

  async #start(include: boolean): Promise<void> {
    const ssh = `${this.root}/etc/ssh`;
    await Deno.mkdir(ssh, { recursive: true });
    await Deno.mkdir("/run/sshd", { recursive: true });
    await Deno.writeTextFile(`${ssh}/host_key`, this.#hostKey.pem, { mode: 0o600 });
    await Deno.writeTextFile(`${ssh}/ca.pub`, `${ca.publicKeyLine}\n`);
    await Deno.writeTextFile(`${ssh}/principals`, `${PRINCIPAL}\n`);
    const lines = [
      ...(include ? [`Include ${ssh}/sshd_config.d/*.conf`] : []),
      "ListenAddress 127.0.0.1",
      `Port ${this.#port}`,
      `HostKey ${ssh}/host_key`,
      `PidFile ${ssh}/sshd.pid`,
      `TrustedUserCAKeys ${ssh}/ca.pub`,
      `AuthorizedPrincipalsFile ${ssh}/principals`,
      "StrictModes no",
      "UsePAM no",
    ];
    await Deno.writeTextFile(`${ssh}/sshd_config`, `${lines.join("\n")}\n`);
    const args = ["-D", "-f", `${ssh}/sshd_config`, "-E", `${ssh}/log`];
    this.#sshd = new Deno.Command("/usr/sbin/sshd", { args, stdin: "null", stdout: "null", stderr: "null" })
      .spawn();
    await poll(() => isThere(`${ssh}/sshd.pid`), { what: "sshd" });
  }

  async install(...args: readonly string[]): Promise<{ code: number; text: string }> {
    const { code, stdout, stderr } = await new Deno.Command(SCRIPT, {
      args: [...args],
      env: { GATEWAY_KRL_ROOT: this.root, GATEWAY_KRL_TRIAL_SECONDS: this.trialSeconds },
      stdin: "null",
    }).output();
    const decoder = new TextDecoder();
    return { code, text: decoder.decode(stdout) + decoder.decode(stderr) };
  }

  trialSeconds = "600";

  get setting(): string {
    return `${this.root}/etc/ssh/sshd_config.d/50-gateway-krl.conf`;
  }

  async mayLogIn(serial: bigint): Promise<boolean> {
    const key = createEphemeralKey();
    const certificate = await ca.certify(key.publicKeyLine, { serial });
    const addr = `127.0.0.1:${this.#port}`;
    const login = { name: "host", addr, hostKey: this.#hostKey.line, user: currentUser(), certificate, key };
    try {
      const options = { clock: systemClock, hops: [login] as const, command: "true", pty: false };
      return (await runCommand({ ...options, limits: PATIENT_LIMITS })).exitCode === 0;
    } catch {
      return false;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Stop a trial that is still running.
    const trial = await Deno.readTextFile(`${this.root}/var/lib/gateway-krl/on_trial`).catch(() => "");
    if (trial !== "") Deno.kill(-Number(trial), "SIGKILL");
    this.#sshd?.kill("SIGKILL");
    await this.#sshd?.status;
    await this.puller[Symbol.asyncDispose]();
  }
}

async function isThere(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}

Deno.test(
  "install-gateway-krl configures sshd to read the list, and --keep keeps the setting (needs root)",
  { ignore },
  async () => {
    await using host = await Host.create(true);
    host.puller.answers.list = listOf(7);
    assert.equal(await host.mayLogIn(7n), true);
    const { code, text } = await host.install(host.puller.conf);
    assert.equal(code, 0, text);
    assert.match(text, /Stay logged in here\. Open a second login/);
    // While sshd restarts, all logins fail.
    await poll(async () => await host.mayLogIn(8n) && !await host.mayLogIn(7n) && await host.mayLogIn(8n), {
      what: "sshd to read the list",
    });
    assert.equal((await host.install("--keep")).code, 0);
    assert.match((await host.install("--keep")).text, /already kept it or rolled it back/);
    assert.equal(await isThere(host.setting), true);
  },
);

Deno.test({
  name: "install-gateway-krl rolls the setting back without --keep (needs root)",
  ignore,
}, async () => {
  await using host = await Host.create(true);
  host.trialSeconds = "1";
  assert.equal((await host.install(host.puller.conf)).code, 0);
  await Deno.writeTextFile(`${host.root}/var/lib/gateway-krl/revoked_keys`, "garbage");
  await poll(async () => !await isThere(host.setting), { what: "the end of the trial" });
  await poll(() => host.mayLogIn(1n), { what: "the way in" });
});

Deno.test.each<{ name: string; include: boolean; break: (host: Host) => void | Promise<void>; text: RegExp }>(
  [
    {
      name: "there is no list",
      include: true,
      break: ({ puller }) => void (puller.answers.status = 500),
      text: /there is no list yet; sshd is unchanged/,
    },
    {
      name: "a file is missing",
      include: true,
      break: ({ puller }) => Deno.remove(puller.signers),
      text: /cannot read "\S+krl_signers": missing or empty/,
    },
    {
      name: "sshd does not read the setting",
      include: false,
      break: () => {},
      text: /in sshd_config, before any RevokedKeys: Include/,
    },
  ],
)(
  "install-gateway-krl leaves sshd unchanged if $name (needs root)",
  { ignore },
  async ({ include, break: spoil, text }) => {
    await using host = await Host.create(include);
    await spoil(host);
    const installed = await host.install(host.puller.conf);
    assert.match(installed.text, text);
    assert.equal(installed.code, 1);
    assert.equal(await isThere(host.setting), false);
    assert.equal(await host.mayLogIn(1n), true);
  },
);
