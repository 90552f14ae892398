import assert from "node:assert/strict";
import { join } from "node:path";
import { Decrypter, generateIdentity, identityToRecipient } from "age-encryption";
import { createFolder, run as runCtl } from "../adapters/ctl_fixture.ts";
import { FREE } from "./control_plane_scene.ts";
import { poll } from "../stage/poll.ts";
import { HOST, post, type Stage } from "../stage/stage.ts";
import { brokerCommand, controlPlaneCommand, signerCommand } from "../stage/service_command.ts";
import { createInstallation } from "../stage/installation.ts";
import { ServiceProcess } from "../stage/service_process.ts";
import { withStage } from "../stage/with_stage.ts";

async function ctl(...args: string[]) {
  const { exit, out, err } = await runCtl("/", ...args);
  return { exit, out, err };
}

async function runOnce(stage: Stage, command = FREE) {
  const client = await stage.brokerClient();
  return await post(client, "/v1/ssh_run", { host: HOST, command });
}

async function contentsOf(folder: string): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (!isDirectory) found.set(name, (await Deno.readFile(join(folder, name))).toHex());
    else for (const [path, text] of await contentsOf(join(folder, name))) found.set(join(name, path), text);
  }
  return found;
}

Deno.test("a backup of running services, restored into an empty directory, verifies, keeps a freeze and works", () =>
  withStage({ controlPlane: true }, async (stage) => {
    await using spare = await createFolder();
    const identity = await generateIdentity();
    await Deno.writeTextFile(join(spare.path, "id.txt"), `# made by a test\n${identity}\n`);
    const signer = await stage.startSigner();
    const controlPlane = await stage.startControlPlane();
    const broker = await stage.startBroker();
    const operator = await stage.signerClient("operator");
    assert.equal((await runOnce(stage)).status, 200);
    const freeze = { kind: "end_user", value: "mallory", reason: "INC-7" };
    assert.equal((await post(operator, "/v1/freeze", freeze)).status, 200);

    // A backup while commands write must contain only complete files.
    const target = join(spare.path, "backup");
    const recipient = await identityToRecipient(identity);
    const busy = new AbortController();
    const running = (async () => {
      while (!busy.signal.aborted) assert.equal((await runOnce(stage)).status, 200);
    })();
    const made = await ctl("backup", target, "--config", stage.init.signer_config, "--recipient", recipient);
    busy.abort();
    await running;
    assert.equal(made.exit, 0, made.err);
    assert.match(
      made.out,
      /: 5 configs, 2 states, 1 list of denied callers, 3 audit log files, \d+ keys \(encrypted\)\n/,
    );
    assert.doesNotMatch(made.out, /left out/);
    const secrets = await Deno.readTextFile(stage.init.ssh_ca);
    for (const [path, hex] of await contentsOf(target)) {
      assert.equal(hex.includes(new TextEncoder().encode(secrets.slice(40, 80)).toHex()), false, path);
    }
    const opener = new Decrypter();
    opener.addIdentity(identity);
    const archive = await opener.decrypt(await Deno.readFile(join(target, "keys.age")));
    assert.ok(new TextDecoder("latin1").decode(archive).includes(secrets.slice(40, 80)));

    for (const service of [broker, controlPlane, signer]) await service.stop();
    const folder = join(spare.path, "gateway");
    const publicKey = /--public-key (?<key>\S+)/.exec(made.out)?.groups?.["key"] ?? "";
    const restore = ["restore", target, "--dir", folder, "--identity", join(spare.path, "id.txt")];
    const restored = await ctl(...restore, "--public-key", publicKey);
    assert.equal(restored.exit, 0, restored.out + restored.err);
    assert.match(restored.out, /\d audit logs: intact, with the heads of the backup\n/);
    assert.match(restored.out, /made after the backup are lost: freeze these identities again/);
    assert.doesNotMatch(restored.out, /missing|ERROR/);
    assert.equal(((await Deno.stat(join(folder, "pki", "ssh_ca"))).mode ?? 0) & 0o777, 0o600);
    const before = await contentsOf(folder);
    // The state after a restore was killed.
    for (const name of ["signer.json", "mcp.json", "log/signer/audit.log"]) {
      await Deno.remove(join(folder, name));
    }
    assert.match((await ctl(...restore, "--public-key", publicKey)).out, /^restored /m, "it goes on");
    assert.deepEqual(await contentsOf(folder), before);

    await Deno.remove(stage.init.folder, { recursive: true });
    await using _signer = await ServiceProcess.start(await signerCommand(join(folder, "signer.json")));
    await using _plane = await ServiceProcess.start(
      await controlPlaneCommand(join(folder, "control-plane.json")),
    );
    await using _broker = await ServiceProcess.start(
      await brokerCommand(join(folder, "config.json"), "serve-http"),
    );
    const client = ["--client-config", join(folder, "broker-ctl.json")];
    assert.match((await ctl("revocations", ...client)).out, /end_user\s+mallory.*INC-7/);
    const log = join(folder, "log", "signer", "audit.log");
    const key = join(folder, "pki", "signer_audit.seed");
    await poll(
      async () => /^OK: /.test((await ctl("audit", "verify", "--all", "--log", log, "--key", key)).out),
      {
        what: "a log that goes on where it ended",
      },
    );
  }));

/** A backup of an installation without running processes. */
async function backedUp(folder: string, ...more: string[]) {
  await createInstallation(join(folder, "gateway"), []);
  const made = await ctl(
    "backup",
    join(folder, "backup"),
    "--config",
    join(folder, "gateway", "signer.json"),
    ...more,
  );
  assert.equal(made.exit, 0, made.err);
  return made;
}

/** Restores without checking the signature, because the damage would already invalidate it. */
function restore(folder: string, ...more: string[]) {
  return ctl("restore", join(folder, "backup"), "--trust-unsigned", "--dir", join(folder, "new"), ...more);
}

Deno.test("a backup without recipients contains no key, and restore reports the missing keys", async () => {
  await using spare = await createFolder();
  assert.match(
    (await backedUp(spare.path)).out,
    /no keys\n.*\n?the backup contains no keys; --recipient adds them/,
  );
  const all = [...(await contentsOf(join(spare.path, "backup"))).values()].join("");
  assert.equal(all.includes(new TextEncoder().encode("PRIVATE KEY").toHex()), false);
  const { exit, out } = await restore(spare.path);
  assert.equal(exit, 0);
  assert.match(out, /missing: ca_key of signer\.json: .*new\/pki\/ssh_ca does not exist/);
});

Deno.test.each<
  { name: string; damage: (backup: string, target: string) => Promise<void>; flags?: string[]; err: RegExp }
>([
  {
    name: "with a changed file",
    damage: (backup) => Deno.writeTextFile(join(backup, "files", "0001"), "{}"),
    err: /copy of ".*" is damaged: its content has changed/,
  },
  {
    name: "that lacks a file",
    damage: (backup) => Deno.remove(join(backup, "files", "0002")),
    err: /copy of ".*" is missing/,
  },
  {
    name: "with a truncated manifest",
    damage: (backup) => Deno.truncate(join(backup, "manifest.json"), 100),
    err: /manifest\.json is damaged, or of a later version/,
  },
  {
    name: "of a later format",
    async damage(backup) {
      const path = join(backup, "manifest.json");
      await Deno.writeTextFile(path, (await Deno.readTextFile(path)).replace('"format": 1', '"format": 2'));
    },
    err: /of a later version/,
  },
  {
    name: "that does not exist",
    damage: (backup) => Deno.remove(backup, { recursive: true }),
    err: /no such file/,
  },
  {
    name: "over a different existing file",
    async damage(_backup, target) {
      await Deno.mkdir(target);
      await Deno.writeTextFile(join(target, "mcp.json"), "{}");
    },
    err: /"[^"]*mcp\.json": a different file exists; nothing was written/,
  },
])("restore rejects a backup $name and writes nothing", async ({ damage, err: expected }) => {
  await using spare = await createFolder();
  await backedUp(spare.path);
  const target = join(spare.path, "new");
  await damage(join(spare.path, "backup"), target);
  const { exit, out, err } = await restore(spare.path);
  assert.deepEqual([exit, out], [1, ""]);
  assert.match(err, expected);
  const names = await Array.fromAsync(Deno.readDir(target), ({ name }) => name).catch(() => []);
  assert.ok(names.length <= 1, names.join());
});

Deno.test("restore rejects damaged keys and the wrong identity", async () => {
  await using spare = await createFolder();
  const identity = await generateIdentity();
  await backedUp(spare.path, "--recipient", await identityToRecipient(identity));
  const file = join(spare.path, "id.txt");
  await Deno.writeTextFile(file, await generateIdentity());
  const opened = () => restore(spare.path, "--identity", file);
  assert.match((await opened()).err, /Cannot decrypt the backup's keys with --identity: no identity matched/);
  await Deno.writeTextFile(file, "nonsense");
  assert.match((await opened()).err, /Cannot decrypt the backup's keys/);
  await Deno.writeTextFile(file, identity);
  const sealed = join(spare.path, "backup", "keys.age");
  await Deno.truncate(sealed, (await Deno.stat(sealed)).size - 1);
  assert.match((await opened()).err, /keys are damaged/);
  await assert.rejects(Deno.stat(join(spare.path, "new")));
});

Deno.test("backup does not overwrite an existing path, and reports a damaged audit log", async () => {
  await using spare = await createFolder();
  await backedUp(spare.path);
  const setUp = join(spare.path, "gateway");
  const again = (name: string) =>
    ctl("backup", join(spare.path, name), "--config", join(setUp, "signer.json"));
  assert.match((await again("backup")).err, /Cannot create a backup in ".*": it exists/);
  await Deno.writeTextFile(join(setUp, "log", "signer", "audit.log"), '{"seq":1}\n{"seq":7}\n');
  const { exit, out } = await again("second");
  assert.match(out, /ERROR: Audit log ".*" is not intact/);
  assert.equal(exit, 1);
  const names = await Array.fromAsync(Deno.readDir(spare.path), ({ name }) => name);
  assert.deepEqual(names.sort(), ["backup", "gateway", "second"], "nothing half is left");
  assert.match(
    (await ctl("backup", join(spare.path, "third"), "--config", join(spare.path, "x.json"))).err,
    /no config in/,
  );
});
