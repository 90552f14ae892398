import { createBackupScene } from "./ctl_backup_fixture.ts";
import assert from "node:assert/strict";
import { lchown } from "node:fs/promises";
import { generateIdentity, identityToRecipient } from "age-encryption";
import { run } from "./ctl_fixture.ts";

Deno.test("a backup without keys contains denied_callers, and restore writes it", async () => {
  await using it = await createBackupScene();
  await it.backup();
  const { exit, err } = await it.restore("--dir", "new");
  assert.equal(exit, 0, err);
  assert.match(await Deno.readTextFile(it.at("new/pki/denied_callers")), /^mallory$/m);
});

Deno.test("backup removes the temporary directory that a killed backup to the same name left", async () => {
  await using it = await createBackupScene();
  const left = it.at(".backup.0123456789abcdef");
  await Deno.mkdir(left, { mode: 0o700 });
  await Deno.utime(left, 1_000_000_000, 1_000_000_000);
  await it.backup();
  await assert.rejects(Deno.stat(left), Deno.errors.NotFound);
});

Deno.test("a backup that fails prints the path and that nothing was written", async () => {
  await using it = await createBackupScene();
  // The temporary name is too long, so the step fails that also fails on a full disk.
  const { exit, err } = await run(it.at(""), "backup", "b".repeat(250), "--config", "gateway/signer.json");
  assert.equal(exit, 1);
  assert.match(err, /^error: Cannot create a backup in ".+": .*too long.*; nothing was written\n$/);
});

Deno.test("a config that is a symlink is backed up and restored at the target of the link", async () => {
  await using it = await createBackupScene();
  await Deno.mkdir(it.at("lib"), { mode: 0o750 });
  await Deno.rename(it.at("gateway/signer.json"), it.at("lib/signer.json"));
  await Deno.symlink(it.at("lib/signer.json"), it.at("gateway/signer.json"));
  const before = await Deno.readTextFile(it.at("lib/signer.json"));
  await it.backup();
  await Deno.remove(it.at("lib"), { recursive: true });
  await Deno.remove(it.at("gateway"), { recursive: true });
  for (const attempt of ["first", "again"]) {
    const { exit, err } = await it.restore();
    assert.deepEqual([exit, err], [0, ""], attempt);
    assert.equal(await Deno.readLink(it.at("gateway/signer.json")), it.at("lib/signer.json"));
    assert.equal(await Deno.readTextFile(it.at("lib/signer.json")), before);
    assert.equal(((await Deno.stat(it.at("lib"))).mode ?? 0) & 0o777, 0o750);
  }
  assert.equal((await it.restore("--dir", "new")).exit, 0);
  assert.equal((await Deno.lstat(it.at("new/signer.json"))).isFile, true);
  // Another file replaces the link.
  await Deno.remove(it.at("gateway/signer.json"));
  await Deno.writeTextFile(it.at("gateway/signer.json"), "{}");
  assert.match((await it.restore()).err, /signer\.json": a different file exists/);
});

Deno.test.each<
  { name: string; spoil: (it: Awaited<ReturnType<typeof createBackupScene>>) => Promise<void>; err: RegExp }
>([
  {
    name: "a directory below the target is a symlink",
    async spoil({ at }) {
      await Deno.mkdir(at("new"));
      await Deno.mkdir(at("elsewhere"));
      await Deno.symlink(at("elsewhere"), at("new/pki"));
    },
    err: /"[^"]*new\/pki" is a symbolic link; nothing was written/,
  },
  {
    name: "the backup has a path outside the installation",
    spoil: ({ at, editManifest }) =>
      editManifest((text) => text.replace(at("gateway/signer.json"), at("elsewhere/signer.json"))),
    err: /elsewhere\/signer\.json": it is outside of the installation/,
  },
  {
    name: "the backup has a directory path with ..",
    spoil: ({ at, editManifest }) =>
      editManifest((text) => text.replaceAll(at("gateway/pki"), `${at("gateway")}/../elsewhere`)),
    err: /manifest\.json is damaged/,
  },
  {
    name: "the backup's copy is a symlink to another file",
    async spoil({ at }) {
      await Deno.rename(at("backup/files/0001"), at("secret"));
      await Deno.symlink(at("secret"), at("backup/files/0001"));
    },
    err: /is not a regular file/,
  },
])("restore --dir writes no file if $name", async ({ spoil, err: expected }) => {
  await using it = await createBackupScene();
  await it.backup();
  await spoil(it);
  const { exit, err } = await it.restore("--dir", "new");
  assert.equal(exit, 1);
  assert.match(err, expected);
  for (const folder of ["elsewhere", "new"]) {
    const names = await Array.fromAsync(Deno.readDir(it.at(folder)), ({ name }) => name).catch(() => []);
    assert.deepEqual(names.filter((name) => name !== "pki"), []);
  }
});

Deno.test("restore sets mode and owner of files, keys and directories (as root)", {
  ignore: Deno.uid() !== 0,
}, async () => {
  await using it = await createBackupScene();
  const identity = await generateIdentity();
  await Deno.writeTextFile(it.at("id.txt"), identity);
  const files = ["gateway/signer.json", "gateway/pki", "gateway/pki/ssh_ca", "gateway/pki/denied_callers"];
  const state = () =>
    Promise.all(files.map(async (path) => {
      const { mode, uid, gid } = await Deno.stat(it.at(path));
      return [path, (mode ?? 0) & 0o777, uid, gid];
    }));
  await Deno.chown(it.at("gateway/pki/ssh_ca"), 0, 1235);
  await Deno.chmod(it.at("gateway/pki/ssh_ca"), 0o640);
  await Deno.chown(it.at("gateway/signer.json"), 1234, 1235);
  await Deno.chown(it.at("gateway/pki"), 0, 1236);
  await Deno.chmod(it.at("gateway/pki"), 0o751);
  const before = await state();
  await it.backup("--recipient", await identityToRecipient(identity));
  await Deno.remove(it.at("gateway"), { recursive: true });
  assert.equal((await it.restore("--identity", "id.txt")).exit, 0);
  assert.deepEqual(await state(), before);
});

Deno.test("backup reports broken logs that users of the machine can create, and copies everything else", async () => {
  await using it = await createBackupScene();
  // All accounts that can start a stdio broker write to this directory.
  const log = (name: string) => it.at(`gateway/log/mcp/${name}`);
  await Deno.writeTextFile(log("audit-2.log"), "nonsense\n");
  await new Deno.Command("mkfifo", { args: [log("audit-3.log")] }).output();
  await Deno.mkdir(log("audit-4.log"));
  const { exit, out } = await it.tryBackup();
  assert.equal(exit, 1, "it is said");
  assert.match(out, /ERROR: Audit log ".*audit-2\.log" is not intact: line 1/);
  assert.match(out, /ERROR: Cannot copy ".*audit-3\.log": it is a pipe, not a file/);
  assert.match(out, /ERROR: Cannot copy ".*audit-4\.log": it is a directory, not a file/);
  assert.match((await it.doctor()).out, /the backup is incomplete: /);
  const { exit: code, out: restored, err } = await it.restore("--dir", "new");
  assert.equal(code, 0, err);
  assert.match(restored, /missing: Audit log ".*audit-2\.log" is not intact/);
  assert.match(await Deno.readTextFile(it.at("new/pki/denied_callers")), /^mallory$/m);
  assert.equal(await Deno.readTextFile(it.at("new/log/mcp/audit-2.log")), "nonsense\n");
});

Deno.test("a backup with file numbers above 9999 can be restored", async () => {
  await using it = await createBackupScene();
  await it.backup();
  await Deno.rename(it.at("backup/files/0001"), it.at("backup/files/10000"));
  await it.editManifest((text) => text.replace('"files/0001"', '"files/10000"'));
  const { exit, err } = await it.restore("--dir", "new");
  assert.equal(exit, 0, err);
});

Deno.test(
  "a backup by root does not copy an audit log that is another user's symlink",
  { ignore: Deno.uid() !== 0 },
  async () => {
    await using it = await createBackupScene();
    await Deno.writeTextFile(it.at("shadow"), "root:secret\n");
    const log = it.at("gateway/log/signer/audit.log");
    await Deno.symlink(it.at("shadow"), log);
    await lchown(log, 1234, 1234);
    const { exit, out } = await it.tryBackup();
    assert.equal(exit, 1);
    assert.match(out, /Cannot copy ".*audit\.log": it is a symbolic link of another user's/);
    for await (const { name } of Deno.readDir(it.at("backup/files"))) {
      assert.doesNotMatch(await Deno.readTextFile(it.at(`backup/files/${name}`)), /root:secret/);
    }
  },
);

Deno.test("a backup by root does not copy a key that is another user's symlink", {
  ignore: Deno.uid() !== 0,
}, async () => {
  await using it = await createBackupScene();
  const key = it.at("gateway/pki/signer.key");
  await Deno.writeTextFile(it.at("shadow"), "root:secret\n");
  await Deno.remove(key);
  await Deno.symlink(it.at("shadow"), key);
  await lchown(key, 1234, 1234);
  const recipient = await identityToRecipient(await generateIdentity());
  const { exit, err } = await it.tryBackup("--recipient", recipient);
  assert.equal(exit, 1);
  assert.match(err, /Cannot copy ".*signer\.key": it is a symbolic link of another user's/);
  await assert.rejects(Deno.lstat(it.at("backup")), Deno.errors.NotFound);
});

Deno.test("a backup contains other brokers' logs and the chat bridge's files", async () => {
  await using it = await createBackupScene();
  const mcp = await Deno.readTextFile(it.at("gateway/mcp.json"));
  const log = it.at("gateway/log/mcp-http/audit.log");
  await Deno.writeTextFile(
    it.at("gateway/mcp-http.json"),
    mcp.replace(it.at("gateway/log/mcp/audit.log"), log),
  );
  await Deno.mkdir(it.at("gateway/log/mcp-http"), { recursive: true });
  await Deno.writeTextFile(log, "");
  await Deno.writeTextFile(it.at("gateway/approval-bridge.json"), '{ "U0BOB": "bob@example.org" }');
  await Deno.writeTextFile(it.at("gateway/approval-bridge.env"), "SLACK_BOT_TOKEN=xoxb-secret\n");
  const identity = await generateIdentity();
  await Deno.writeTextFile(it.at("id.txt"), identity);
  await it.backup("--recipient", await identityToRecipient(identity));
  assert.doesNotMatch(await Deno.readTextFile(it.at("backup/manifest.json")), /\.env/, "a token is a secret");
  const { exit, err } = await it.restore("--dir", "new", "--identity", "id.txt");
  assert.equal(exit, 0, err);
  for (
    const file of ["mcp-http.json", "log/mcp-http/audit.log", "approval-bridge.json", "approval-bridge.env"]
  ) {
    assert.equal((await Deno.lstat(it.at(`new/${file}`))).isFile, true, file);
  }
});

Deno.test("restore requires --public-key or --trust-unsigned, and prints the plan before it writes", async () => {
  await using it = await createBackupScene();
  const publicKey = await it.backup();
  assert.match(publicKey, /^[A-Za-z0-9+/]{43}=$/);
  for (const options of [[], ["--trust-unsigned", "--public-key", publicKey]]) {
    const { exit, out, err } = await it.restoreSigned("--dir", "new", ...options);
    assert.deepEqual([exit, out], [2, ""]);
    assert.match(err, /pass either --public-key or --trust-unsigned\nfix: pass --public-key KEY/);
  }
  const { exit, out, err } = await it.restoreSigned("--dir", "new", "--public-key", publicKey);
  assert.equal(exit, 0, err);
  assert.ok(
    out.startsWith("plan: backup of ") && out.includes(`, signed by ${publicKey}\n`) &&
      out.includes(`\nplan: write ${it.at("new/signer.json")} (mode 0`) &&
      out.indexOf("plan: write") < out.indexOf("restored "),
    out,
  );
  assert.match(
    (await it.restoreSigned("--dir", "new", "--public-key", publicKey)).out,
    /plan: keep .*new\/signer\.json/,
  );
  assert.match((await it.doctor()).out, /^\d+ PASS/m);
  const json = await it.restoreSigned("--dir", "new", "--public-key", publicKey, "--json");
  assert.equal(JSON.parse(json.out).plan.length > 5, true);
});

Deno.test("all backups of an installation have the same public key, also after a restore", async () => {
  await using it = await createBackupScene();
  const identity = await generateIdentity();
  await Deno.writeTextFile(it.at("id.txt"), identity);
  const keys = ["--recipient", await identityToRecipient(identity)];
  const publicKey = await it.backup(...keys);
  assert.equal(((await Deno.stat(it.at("gateway/pki/backup.seed"))).mode ?? 0) & 0o777, 0o600);
  await Deno.remove(it.at("gateway"), { recursive: true });
  const restored = await it.restoreSigned("--identity", "id.txt", "--public-key", publicKey);
  assert.equal(restored.exit, 0, restored.err);
  await Deno.remove(it.at("backup"), { recursive: true });
  assert.equal(await it.backup(), publicKey);
});

Deno.test("restore fails on encrypted keys unless --identity or --without-keys is passed", async () => {
  await using it = await createBackupScene();
  await it.backup("--recipient", await identityToRecipient(await generateIdentity()));
  const { exit, out, err } = await it.restore("--dir", "new");
  assert.deepEqual([exit, out], [2, ""]);
  assert.match(err, /Cannot restore: the backup contains \d+ encrypted keys\nfix: pass --identity FILE/);
  await assert.rejects(Deno.stat(it.at("new")), Deno.errors.NotFound);
  assert.match((await it.restore("--dir", "new", "--without-keys")).out, /and 0 keys of/);
});

Deno.test("backup rejects the sample key of age's README, and its help contains no key", async () => {
  await using it = await createBackupScene();
  const sample = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
  const { exit, err } = await it.tryBackup("--recipient", sample);
  assert.equal(exit, 2);
  assert.match(err, /it is the sample key of age's README, not yours\nfix: create a key with/);
  await assert.rejects(Deno.stat(it.at("backup")), Deno.errors.NotFound);
  assert.doesNotMatch((await run(it.at(""), "backup", "--help")).out, /age1[a-z0-9]{58}/);
});

Deno.test("a backup omits a key outside the installation and reports it", async () => {
  await using it = await createBackupScene();
  await Deno.rename(it.at("gateway/pki/signer.key"), it.at("signer.key"));
  const config = it.at("gateway/signer.json");
  const text = await Deno.readTextFile(config);
  await Deno.writeTextFile(config, text.replace(it.at("gateway/pki/signer.key"), it.at("signer.key")));
  const recipient = await identityToRecipient(await generateIdentity());
  const { exit, out } = await it.tryBackup("--recipient", recipient);
  assert.equal(exit, 0);
  assert.match(out, /not included: server_key of signer\.json: \S+\/signer\.key is outside /);
});
