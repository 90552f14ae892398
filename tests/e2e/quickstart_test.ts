import assert from "node:assert/strict";
import { parse } from "jsonc-parser";
import { completeHosts } from "../../ctl/setup/host_keys.ts";
import { parseHosts } from "../../ctl/setup/layout.ts";
import { Agent } from "../demo/agent.ts";
import { currentUser, startSshTarget } from "../ssh_target/target.ts";
import { createTestCa } from "../ssh_target/certificates.ts";
import type { SshTarget } from "../ssh_target/ssh_target.ts";
import { denoDir } from "../stage/deno_dir.ts";
import { createFolder, names } from "../stage/folder.ts";
import { freePort } from "../stage/free_port.ts";
import { editConfig } from "../stage/stage.ts";
import { controlPlaneCommand, ROOT, signerCommand } from "../stage/service_command.ts";
import { ServiceProcess } from "../stage/service_process.ts";

/**
 * A home with a link to `bin/broker-ctl` in the PATH, and a host with an sshd of this account. Logins with certificates
 * are real. In place of the script that enrolls a host as root, `ssh` writes the CA of the script to sshd's file.
 */
class Home implements AsyncDisposable {
  readonly dir: string;
  readonly target: SshTarget;
  readonly #resources: AsyncDisposableStack;

  private constructor(dir: string, target: SshTarget, resources: AsyncDisposableStack) {
    this.dir = dir;
    this.target = target;
    this.#resources = resources;
  }

  static async create(): Promise<Home> {
    await using resources = new AsyncDisposableStack();
    const dir = resources.use(await createFolder()).path;
    for (const name of ["bin", "ssh", "elsewhere"]) await Deno.mkdir(`${dir}/${name}`, { mode: 0o700 });
    const target = await startSshTarget({
      caPublicKeyLine: createTestCa().publicKeyLine,
      principals: { [currentUser()]: ["host:web01"] },
      dir: `${dir}/ssh`,
      forceKind: "openssh",
    });
    resources.defer(() => target.close());
    await Deno.symlink(`${ROOT}bin/broker-ctl`, `${dir}/bin/broker-ctl`);
    const ssh = `#!/bin/sh
case "$*" in *"sh -s") exec sed -n '/^ssh-ed25519 /w ${dir}/ssh/ca.pub' ;; esac
exec /usr/bin/ssh "$@"\n`;
    await Deno.writeTextFile(`${dir}/bin/ssh`, ssh, { mode: 0o755 });
    return new Home(dir, target, resources.move());
  }

  get host(): string {
    return `web01=${this.target.user}@127.0.0.1:${this.target.port}`;
  }

  async brokerCtl(...args: readonly string[]) {
    const { code, stdout, stderr } = await new Deno.Command("broker-ctl", {
      args: [...args],
      cwd: `${this.dir}/elsewhere`,
      clearEnv: true,
      env: {
        PATH: `${this.dir}/bin:${Deno.env.get("PATH")}`,
        HOME: this.dir,
        DENO_DIR: denoDir(),
        NO_COLOR: "1",
      },
      stdin: "null",
    }).output();
    const [out = "", err = ""] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    return { code, out, err };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}

/** Runs commands with an MCP client that has only the printed entry. */
async function asAgent<T>(entry: { command: string; args: string[] }, use: (agent: Agent) => Promise<T>) {
  const agent = await Agent.start(entry, new AbortController().signal);
  try {
    return await use(agent);
  } finally {
    await agent.close();
  }
}

Deno.test("the quickstart: init --local, an allowed and a denied command, the audit log, then the services", async () => {
  await using home = await Home.create();
  const init = ["init", "--local", "--host", home.host, "--enroll", "--yes"];
  const shown = await home.brokerCtl(...init);
  assert.equal(shown.code, 0, shown.out + shown.err);
  assert.match(shown.err, /^Scanned host key: web01 \(\S+@127\.0\.0\.1:\d+\) SHA256:\S+\nIt can be/);
  const json = /^ {3}\{[\s\S]*?^ {3}\}$/m.exec(shown.out)?.[0] ?? "";
  const entry = JSON.parse(json).mcpServers.gateway;
  const folder = `${home.dir}/.config/gateway`;
  assert.deepEqual(entry, {
    command: `${ROOT}bin/gateway`,
    args: ["serve-mcp", "--config", `${folder}/mcp.json`],
  });
  assert.match(shown.out, /web01: login as \S+ with a certificate for host:web01 succeeded/);

  await asAgent(entry, async (agent) => {
    const allowed = await agent.execute("web01", "whoami");
    assert.deepEqual([allowed.isError, allowed.text.includes(home.target.user)], [false, true], allowed.text);
    const denied = await agent.execute("web01", "id");
    assert.deepEqual([denied.isError, /\(403\)/.test(denied.text)], [true, true], denied.text);
    const running = await home.brokerCtl("init", "--from-local", folder);
    assert.match(running.err, /the local broker runs; close its MCP clients/);
  });
  const verify = async () =>
    (await home.brokerCtl(
      ...["audit", "verify", "--all", "--log", `${folder}/log/mcp/audit.log`],
      ...["--key", `${folder}/pki/mcp_audit.seed`],
    )).out;
  assert.match(await verify(), /^OK: 3 entries, chain intact.*all signatures valid/);

  // Repeating the command enrolls the host again, without a question because the config has this host key.
  const again = await home.brokerCtl(...init.slice(0, -1), "--json");
  assert.equal(again.code, 0, again.err);
  assert.deepEqual([again.err, JSON.parse(again.out).mcp_server], ["", entry]);

  const tests = `${folder}/policy_tests.jsonc`;
  await editConfig(`${folder}/mcp.json`, [{ path: ["policy_tests"], value: tests }]);
  await Deno.writeTextFile(tests, "\n// kept", { append: true });
  const before = parse(await Deno.readTextFile(`${folder}/mcp.json`));
  const caKey = await Deno.readTextFile(`${folder}/pki/ssh_ca`);
  const listeners = ["signer", "control-plane", "broker"].flatMap((name) =>
    [`--listen-${name}`, `--monitor-${name}`].map((flag) => `${flag}=127.0.0.1:${freePort()}`)
  );
  const services = await home.brokerCtl("init", "--from-local", folder, "--json", ...listeners);
  assert.equal(services.code, 0, services.err);
  const { signer_config, control_plane_config, backup, mcp_server } = JSON.parse(services.out);
  assert.deepEqual(mcp_server, {
    command: `${ROOT}bin/gateway`,
    args: ["connect", `${folder}/run/agent.sock`],
  });
  assert.deepEqual(await names(backup), ["log", "mcp.json", "pki", "policy_tests.jsonc"]);
  assert.match(await Deno.readTextFile(tests), /^[^]*"uptime"[^]*\n\/\/ kept$/);
  assert.equal(await Deno.readTextFile(`${folder}/pki/ssh_ca`), caKey);
  const signer = parse(await Deno.readTextFile(signer_config));
  assert.deepEqual(signer.command_policies, before.command_policies);
  assert.equal(signer.policy_tests, tests);
  assert.deepEqual({ ...signer.hosts.web01, ...before.hosts.web01 }, signer.hosts.web01);

  await using _signer = await ServiceProcess.start(await signerCommand(signer_config));
  await using _controlPlane = await ServiceProcess.start(await controlPlaneCommand(control_plane_config));
  await asAgent(entry, async (agent) => {
    const allowed = await agent.execute("web01", "whoami");
    assert.deepEqual([allowed.isError, allowed.text.includes(home.target.user)], [false, true], allowed.text);
    assert.equal((await agent.execute("web01", "id")).isError, true);
  });
  assert.match(await verify(), /^OK: 5 entries, chain intact.*all signatures valid/);
  const twice = await home.brokerCtl("init", "--from-local", folder);
  assert.match(twice.err, /Cannot find a local installation/);
});

Deno.test("a scanned host key is trusted only after confirmation and never replaces the key in the config", async () => {
  await using home = await Home.create();
  const folder = `${home.dir}/.config/gateway`;
  const closed = await home.brokerCtl("init", "--local", "--host", home.host);
  assert.equal(closed.code, 2);
  assert.match(
    closed.err,
    /SHA256:\S+\n[^]*ssh-keygen -lf[^]*without a terminal; nothing was written\nfix: .*run broker-ctl init --local --host \S+ --yes; or .*,key=/,
  );
  await assert.rejects(Deno.stat(folder), Deno.errors.NotFound);

  const given = parseHosts([home.host]);
  const ask = async (typed: string, hosts = {}) => {
    let err = "";
    const terminal = { out: () => {}, err: (text: string) => void (err += text) };
    const keys = async function* () {
      yield* await Promise.resolve(typed);
    };
    const [host] = await completeHosts(given, hosts, { terminal, keys, withYes: "" });
    return { key: host?.hostKey ?? "", err };
  };
  for (const typed of ["n", "\r", "\x03", "", "ny"]) {
    await assert.rejects(ask(typed), /not confirmed; nothing was/);
  }
  const { key, err } = await ask("y");
  assert.ok(home.target.hostKeyLine.startsWith(key));
  assert.match(err, /Is it the same\? \[y\/N\] yes\n$/);

  const there = { addr: `127.0.0.1:${home.target.port}`, user: home.target.user };
  const asked = await ask("", { web01: { ...there, host_key: key } });
  assert.deepEqual(asked, { key, err: "" });
  const other = createTestCa().publicKeyLine;
  await assert.rejects(
    ask("y", { web01: { ...there, host_key: other } }),
    /may be an attacker's key; the config has web01/,
  );
});

Deno.test("init --local --enroll keeps the installation and prints the command if the enrollment fails", async () => {
  await using home = await Home.create();
  await Deno.writeTextFile(
    `${home.dir}/bin/ssh`,
    "#!/bin/sh\necho 'Permission denied (publickey).' >&2; exit 255\n",
  );
  const { code, out } = await home.brokerCtl("init", "--local", "--host", home.host, "--enroll", "--yes");
  assert.equal(code, 1);
  assert.match(
    out,
    /web01: Permission denied[^]*--login <account>[^]*1\. Enroll[^]*bin\/broker-ctl host enroll web01 --over ssh --config[^]*"mcpServers"/,
  );
  const script = await home.brokerCtl(
    "host",
    "enroll",
    "web01",
    "--config",
    `${home.dir}/.config/gateway/mcp.json`,
  );
  assert.match(script.out, /^#!\/bin\/sh\n[^]*--user '\S+' --principal 'host:web01'/);
});
