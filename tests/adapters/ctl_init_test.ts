import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { join, resolve } from "node:path";
import { brokerConfig } from "@gateway/broker/config";
import { loadConfig } from "@gateway/shared/config";
import { tryLockFile } from "@gateway/shared/files";
import { systemRandom } from "@gateway/shared/clock";
import { createLayout, DEFAULT_LISTENERS } from "../../ctl/setup/layout.ts";
import { createKeyMaterial, planInstallation, writeInstallation } from "../../ctl/setup/write.ts";
import { createFolder, names, run } from "./ctl_fixture.ts";

const CLOCK = { now: () => Date.UTC(2026, 0, 2, 3, 4, 5), sleep: () => Promise.resolve() };

async function modes(folder: string, names: readonly string[]): Promise<Record<string, string>> {
  const entries = names.map(async (name) => {
    const { mode } = await Deno.lstat(join(folder, name));
    return [name, ((mode ?? 0) & 0o7777).toString(8)];
  });
  return Object.fromEntries(await Promise.all(entries));
}

const MODES = {
  "": "700",
  pki: "700",
  "pki/ssh_ca": "600",
  "pki/ssh_ca.pub": "644",
  "pki/mtls_ca.key": "600",
  "pki/broker.key": "600",
  "pki/broker.crt": "644",
  "pki/control-plane-client.key": "600",
  "pki/approver.p12": "600",
  "pki/signer_audit.seed": "600",
  "pki/control_plane_audit.seed": "600",
  log: "700",
  "log/signer": "700",
  "log/control-plane": "700",
  "log/broker": "700",
  "signer.json": "640",
  "control-plane.json": "640",
  "config.json": "640",
  "broker-ctl.json": "640",
};

Deno.test.each([
  { name: "a umask that removes no permissions", umask: "0" },
  { name: "a umask that removes all permissions of others", umask: "077" },
])("broker-ctl with its own permissions creates exact modes under $name", async ({ umask }) => {
  await using folder = await createFolder();
  const main = new URL("../../ctl/main.ts", import.meta.url).pathname;
  const { success, stderr } = await new Deno.Command("sh", {
    // The umask belongs to a whole process: setting it here would affect concurrent tests.
    args: ["-c", 'umask "$0"; exec "$@"', umask, Deno.execPath()]
      .concat("run -q --no-prompt -P=broker-ctl".split(" "), main, "init", "--dir", "set-up"),
    cwd: folder.path,
    env: { XDG_CONFIG_HOME: folder.path },
    stdout: "null",
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  assert.deepEqual(await modes(join(folder.path, "set-up"), Object.keys(MODES)), MODES);
});

Deno.test("init keeps the mode of an existing directory", async () => {
  await using folder = await createFolder();
  await Deno.chmod(folder.path, 0o755);
  assert.equal((await run(folder.path, "init", "--dir=.")).exit, 0);
  assert.deepEqual(await modes(folder.path, ["", "pki"]), { "": "755", pki: "700" });
});

const HELD = "signer.json control-plane.json config.json broker-ctl.json pki log".split(" ");

Deno.test.each(HELD.map((name) => ({ name })))(
  "init refuses a folder that holds $name, names it and --force, and changes nothing",
  async ({ name }) => {
    await using folder = await createFolder();
    await Deno.writeTextFile(join(folder.path, name), "mine");
    const result = await run(folder.path, "init", "--dir=.");
    assert.deepEqual([result.exit, result.out], [1, ""]);
    assert.match(result.err, new RegExp(`"${name}" exists\nfix: pass --force`));
    assert.deepEqual(await names(folder.path), [name]);
    assert.equal(await Deno.readTextFile(join(folder.path, name)), "mine");
  },
);

Deno.test("init rejects a dangling symlink in place of a config", async () => {
  await using folder = await createFolder();
  await Deno.symlink("/nowhere/signer.json", join(folder.path, "signer.json"));
  assert.equal((await run(folder.path, "init", "--dir=.")).exit, 1);
});

Deno.test.each<{ name: string; spoil: (path: string) => Promise<void>; dir: string; says: RegExp }>([
  {
    name: "that everyone can write to",
    dir: "a/set-up",
    spoil: async (path) => {
      await Deno.mkdir(join(path, "a/set-up"), { recursive: true, mode: 0o755 });
      await Deno.chmod(join(path, "a/set-up"), 0o777);
    },
    says: /may write to ".*\/a\/set-up" \(mode 0777\)/,
  },
  {
    name: "that everyone can add files to, although it is sticky",
    dir: "set-up",
    spoil: async (path) => {
      await Deno.mkdir(join(path, "set-up"));
      await Deno.chmod(join(path, "set-up"), 0o1777);
    },
    says: /may write to ".*\/set-up" \(mode 1777\)/,
  },
  {
    name: "below a directory that the group can write to",
    dir: "a/b/set-up",
    spoil: async (path) => {
      await Deno.mkdir(join(path, "a"));
      await Deno.chmod(join(path, "a"), 0o775);
    },
    says: /may write to ".*\/a" \(mode 0775\)/,
  },
  {
    name: "that is a symlink",
    dir: "set-up",
    spoil: async (path) => {
      await Deno.mkdir(join(path, "elsewhere"));
      await Deno.symlink("elsewhere", join(path, "set-up"));
    },
    says: /set-up" is a symbolic link/,
  },
  {
    name: "that is a dangling symlink",
    dir: "set-up",
    spoil: (path) => Deno.symlink("nowhere", join(path, "set-up")),
    says: /set-up" is a symbolic link/,
  },
  {
    name: "below a symlink whose path passes a directory that others can write to",
    dir: "b/link/set-up",
    spoil: async (path) => {
      await Deno.mkdir(join(path, "a/c"), { recursive: true, mode: 0o755 });
      await Deno.chmod(join(path, "a"), 0o777);
      await Deno.mkdir(join(path, "b"), { mode: 0o755 });
      await Deno.symlink("../a/c", join(path, "b/link"));
    },
    says: /may write to ".*\/a" \(mode 0777\)/,
  },
])("init rejects a directory $name and creates nothing", async ({ dir, spoil, says }) => {
  await using folder = await createFolder();
  await spoil(folder.path);
  const before = await names(folder.path);
  const { exit, err, out } = await run(folder.path, "init", "--dir", dir);
  assert.deepEqual([exit, out], [2, ""]);
  assert.match(err, says);
  assert.deepEqual(await names(folder.path), before);
  for (const name of before) {
    if ((await Deno.stat(join(folder.path, name)).catch(() => undefined))?.isDirectory) {
      assert.ok((await names(join(folder.path, name))).every((entry) => /^(?:set-up|c|link)$/.test(entry)));
    }
  }
});

const OTHER_UID = 61_004;
Deno.test.each([
  { name: "the directory", owned: "a/set-up", mode: 0o755 },
  { name: "a parent directory", owned: "a", mode: 0o755 },
  { name: "a sticky parent directory", owned: "a", mode: 0o1777 },
])(
  "init rejects an installation if another user owns $name (needs root)",
  { ignore: Deno.uid() !== 0 },
  async ({ owned, mode }) => {
    await using folder = await createFolder();
    await Deno.mkdir(join(folder.path, "a/set-up"), { recursive: true, mode: 0o755 });
    await Deno.chown(join(folder.path, owned), OTHER_UID, OTHER_UID);
    await Deno.chmod(join(folder.path, owned), mode);
    const { exit, err } = await run(folder.path, "init", "--dir", "a/set-up");
    assert.equal(exit, 2);
    assert.match(err, /belongs to another user \(uid 61004\)/);
    assert.deepEqual(await names(join(folder.path, "a/set-up")), []);
  },
);

Deno.test("init accepts the user's own directory in a sticky one, also through a symlink", async () => {
  await using folder = await createFolder();
  await Deno.mkdir(join(folder.path, "tmp"));
  await Deno.chmod(join(folder.path, "tmp"), 0o1777);
  await Deno.symlink("tmp", join(folder.path, "link"));
  for (const dir of ["tmp/set-up", "link/other"]) {
    const { exit, err } = await run(folder.path, "init", "--dir", dir);
    assert.equal(exit, 0, err);
  }
  assert.deepEqual(await names(join(folder.path, "tmp")), ["other", "set-up"]);
});

Deno.test("init --force backs up the old installation, fixes modes and creates new keys (C16)", async () => {
  await using folder = await createFolder();
  await run(folder.path, "init", "--dir", ".");
  const formerKey = await Deno.readTextFile(join(folder.path, "pki/ssh_ca"));
  await Deno.chmod(join(folder.path, "pki"), 0o755);
  await Deno.chmod(join(folder.path, "signer.json"), 0o666);
  await Deno.writeTextFile(join(folder.path, "log/signer/audit.log"), "{}\n");
  await Deno.writeTextFile(join(folder.path, "notes.txt"), "mine");

  const result = await run(folder.path, "init", "--dir=.", "--force", "--json");
  assert.equal(result.exit, 0);
  const { backup } = JSON.parse(result.out);
  assert.match(backup, /\/backup-\d{8}T\d{6}Z$/);
  assert.equal(await Deno.readTextFile(join(backup, "pki/ssh_ca")), formerKey);
  assert.equal(await Deno.readTextFile(join(backup, "log/signer/audit.log")), "{}\n");
  assert.notEqual(await Deno.readTextFile(join(folder.path, "pki/ssh_ca")), formerKey);
  assert.deepEqual(await names(join(folder.path, "log/signer")), []);
  assert.equal(await Deno.readTextFile(join(folder.path, "notes.txt")), "mine");
  const { "": _, ...expected } = MODES;
  assert.deepEqual(await modes(folder.path, Object.keys(expected)), expected);
  assert.deepEqual(await modes(backup, [""]), { "": "700" });
});

async function planOf(folder: string) {
  const choices = { route: "control_plane", listeners: DEFAULT_LISTENERS, networks: [], hosts: [] } as const;
  return planInstallation(createLayout(folder), choices, await createKeyMaterial(systemRandom));
}

Deno.test("init --force keeps both backups if it runs twice within a second", async () => {
  await using folder = await createFolder();
  const options = { folder: folder.path, clock: CLOCK, random: systemRandom };
  const plan = await planOf(folder.path);
  assert.equal((await writeInstallation(plan, { ...options, force: true })).backup, undefined);
  const first = await writeInstallation(plan, { ...options, force: true });
  const second = await writeInstallation(plan, { ...options, force: true });
  assert.deepEqual([first.backup, second.backup], [
    join(folder.path, "backup-20260102T030405Z"),
    join(folder.path, "backup-20260102T030405Z-2"),
  ]);
});

Deno.test.each([{ args: [] }, { args: ["--force"] }])(
  "init $args fails immediately while another init runs in the same directory",
  async ({ args }) => {
    await using folder = await createFolder();
    {
      using _other = await tryLockFile(folder.path);
      const { exit, err } = await run(folder.path, "init", "--dir", ".", ...args);
      assert.equal(exit, 1);
      assert.match(err, /another init is running; try again\n$/);
    }
    assert.deepEqual(await names(folder.path), []);
    assert.equal((await run(folder.path, "init", "--dir", ".", ...args)).exit, 0);
  },
);

Deno.test("an init that fails halfway leaves no files and keeps the old installation", async () => {
  await using folder = await createFolder();
  const plan = await planOf(folder.path);
  const broken = [...plan.slice(0, -1), { path: "no/such/folder", mode: 0o640, content: "" }];
  const options = { folder: folder.path, clock: CLOCK, random: systemRandom };

  await assert.rejects(writeInstallation(broken, { ...options, force: false }));
  assert.deepEqual(await names(folder.path), []);

  await writeInstallation(plan, { ...options, force: false });
  const former = await Deno.readTextFile(join(folder.path, "signer.json"));
  await assert.rejects(writeInstallation(broken, { ...options, force: true }));
  assert.deepEqual(
    await names(folder.path),
    "broker-ctl.json config.json control-plane.json log mcp.json pki signer.json state".split(" "),
  );
  assert.equal(await Deno.readTextFile(join(folder.path, "signer.json")), former);
});

Deno.test("init --json prints one JSON object with existing paths", async () => {
  await using folder = await createFolder();
  const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO0Gnb+kCpVhi8T8PX2F2Vhmcu0T9vqTZy9GlkSGn1JF";
  const host = `web01=127.0.0.1:2222,user=deploy,key=${key}`;
  const listen = ["--listen-signer", "127.0.0.1:19443", "-listen-control-plane=127.0.0.1:17443"];
  const result = await run(folder.path, "init", "--dir=.", "--json", "--host", host, ...listen);
  const json = JSON.parse(result.out);
  assert.equal(json.folder, folder.path);
  for (
    const path of [
      json.signer_config,
      json.control_plane_config,
      json.broker_config,
      json.client_config,
      json.ssh_ca,
      json.operator.key,
      json.control_plane_audit_key,
      json.control_plane_client.key,
      json.approver_bundle,
    ]
  ) {
    assert.ok((await Deno.stat(path)).isFile, path);
  }
  assert.match(await Deno.readTextFile(json.control_plane_config), /https:\/\/127\.0\.0\.1:19443/);
  assert.match(await Deno.readTextFile(json.broker_config), /https:\/\/127\.0\.0\.1:17443/);
  assert.equal(json.approvals_url, "https://127.0.0.1:17443/ui/approvals");
  assert.equal(new X509Certificate(await Deno.readTextFile(json.operator.cert)).subject, "CN=operator-local");
  assert.ok(json.enrolment.web01.some((line: string) => line.includes(json.ssh_ca_public_key)));
  assert.equal(json.agent_socket, join(folder.path, "run/agent.sock"));
  assert.equal(json.mcp_server.args.at(-1), json.agent_socket);
});

Deno.test.each([
  { name: "in its directory for this account", args: [], path: "run/agent.sock", mode: "0600" },
  { name: "at the given path, for a group", args: ["--socket", "s/bot"], path: "s/bot", mode: "0660" },
  { name: "elsewhere, for a group", args: ["--socket=/run/gw/bot"], path: "/run/gw/bot", mode: "0660" },
])("init makes the broker listen $name", async ({ args, path, mode }) => {
  await using folder = await createFolder();
  const { out } = await run(folder.path, "init", "--json", "--dir=set-up", ...args);
  const json = JSON.parse(out);
  const config = await loadConfig({ path: json.broker_config, what: "broker config", schema: brokerConfig });
  const base = args.length === 0 ? json.folder : folder.path;
  assert.deepEqual(config.sockets.map((socket) => ({ ...socket })), [{
    path: resolve(base, path),
    caller: "agent-local",
    mode,
  }]);
  assert.deepEqual(config.run_callers, ["agent-local"]);
});

Deno.test("init --direct connects the brokers to the signer and starts no control plane", async () => {
  await using folder = await createFolder();
  const words = ["--dir=.", "--json", "--direct=true", "--listen-signer=127.0.0.1:19443"];
  const { out } = await run(folder.path, "init", ...words);
  const json = JSON.parse(out);
  for (const path of [json.broker_config, json.mcp_config]) {
    assert.match(await Deno.readTextFile(path), /"url": "https:\/\/127\.0\.0\.1:19443"/);
  }
  assert.doesNotMatch(json.start.join("\n"), /control-plane/);
});
