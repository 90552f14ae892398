import { createBackupScene } from "./ctl_backup_fixture.ts";
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { Encrypter, generateIdentity, identityToRecipient } from "age-encryption";
import { writeTar } from "../../ctl/backup/tar.ts";

type BackupScene = Awaited<ReturnType<typeof createBackupScene>>;

/** Backs up with keys, then acts as an attacker who can write the backup and knows the age recipient. */
async function attacked(it: BackupScene, attack: (it: BackupScene, recipient: string) => Promise<void>) {
  const identity = await generateIdentity();
  const recipient = await identityToRecipient(identity);
  await Deno.writeTextFile(it.at("id.txt"), identity);
  const publicKey = await it.backup("--recipient", recipient);
  await attack(it, recipient);
  return publicKey;
}

async function addEntry({ at, editManifest }: BackupScene, entry: Record<string, unknown>, text: string) {
  await Deno.writeTextFile(at("backup/files/9999"), text);
  const bytes = new TextEncoder().encode(text);
  const file = {
    ...{ kind: "config", stored: "files/9999", mode: 0o644, uid: 0, gid: 0, size: bytes.length },
    ...{ sha256: createHash("sha256").update(bytes).digest("hex"), ...entry },
  };
  await editManifest((manifest) => {
    const { files, ...rest } = JSON.parse(manifest);
    return JSON.stringify({ ...rest, files: [...files, file] });
  });
}

async function replaceKeys({ at, editManifest }: BackupScene, recipient: string, path: string) {
  const encrypter = new Encrypter();
  encrypter.addRecipient(recipient);
  const content = new TextEncoder().encode("the attacker's CA\n");
  const sealed = await encrypter.encrypt(writeTar([{ path, mode: 0o600, uid: 0, gid: 0, content }]));
  await Deno.writeFile(at("backup/keys.age"), sealed);
  const keys = { count: 1, sha256: createHash("sha256").update(sealed).digest("hex") };
  await editManifest((manifest) => JSON.stringify({ ...JSON.parse(manifest), keys }));
}

const ATTACKS: readonly {
  readonly name: string;
  readonly attack: (it: BackupScene, recipient: string) => Promise<void>;
  /** The error of a restore without a signature check. */
  readonly unsigned?: RegExp;
}[] = [
  {
    name: "an added config outside the installation",
    attack: (it) => addEntry(it, { path: it.at("elsewhere/evil") }, "* * * * * root id\n"),
    unsigned: /elsewhere\/evil": it is not a config of an installation/,
  },
  {
    name: "an added log outside the installation",
    attack: (it) => addEntry(it, { kind: "audit_log", path: it.at("elsewhere/evil") }, "* * * * * root id\n"),
    unsigned: /elsewhere\/evil": it is outside of the installation/,
  },
  {
    name: "a symlink to a path outside",
    attack: (it) =>
      addEntry(
        it,
        { kind: "audit_log", path: it.at("gateway/evil"), link: it.at("elsewhere/evil") },
        "* * * * * root id\n",
      ),
  },
  {
    name: "replaced keys",
    attack: (it, recipient) => replaceKeys(it, recipient, it.at("gateway/pki/ssh_ca")),
  },
  {
    name: "replaced keys outside the installation",
    attack: (it, recipient) => replaceKeys(it, recipient, it.at("elsewhere/evil")),
    unsigned: /elsewhere\/evil": it is outside of the installation/,
  },
  {
    name: "a removed signature",
    attack: ({ at }) => Deno.remove(at("backup/manifest.sig")),
  },
  {
    name: "the signature of another key",
    attack: ({ at }) => Deno.writeTextFile(at("backup/manifest.sig"), `${"A".repeat(86)}==\n`),
  },
];

Deno.test.each([...ATTACKS])(
  "restore --public-key and doctor --backup reject a backup with $name",
  async ({ attack }) => {
    await using it = await createBackupScene();
    const publicKey = await attacked(it, attack);
    const expected = /Cannot trust backup ".*": (?:it is not signed|manifest\.sig is not a signature by )/;
    assert.match((await it.doctor()).out, /\[FAIL\] .*the backup cannot be restored: Cannot trust backup/);
    await Deno.remove(it.at("gateway"), { recursive: true });
    const { exit, out, err } = await it.restoreSigned("--identity", "id.txt", "--public-key", publicKey);
    assert.deepEqual([exit, out], [1, ""]);
    assert.match(err, expected);
    for (const folder of ["elsewhere", "gateway"]) {
      await assert.rejects(Deno.stat(it.at(folder)), Deno.errors.NotFound);
    }
  },
);

Deno.test.each(ATTACKS.filter(({ unsigned }) => unsigned !== undefined))(
  "restore --trust-unsigned writes nothing from a backup with $name",
  async ({ attack, unsigned }) => {
    await using it = await createBackupScene();
    await attacked(it, attack);
    await Deno.remove(it.at("gateway"), { recursive: true });
    const { exit, err } = await it.restore("--identity", "id.txt");
    assert.equal(exit, 1);
    assert.match(err, unsigned ?? /^$/);
    for (const folder of ["elsewhere", "gateway"]) {
      await assert.rejects(Deno.stat(it.at(folder)), Deno.errors.NotFound);
    }
  },
);

Deno.test("restore --trust-unsigned replaces a symlink to another place with a regular file", async () => {
  await using it = await createBackupScene();
  await it.backup();
  const log = it.at("gateway/log/signer/other.log");
  await addEntry(it, { kind: "audit_log", path: log, link: it.at("elsewhere/evil") }, "x\n");
  assert.equal((await it.restore("--without-keys")).exit, 0);
  assert.equal((await Deno.lstat(log)).isFile, true);
  await assert.rejects(Deno.stat(it.at("elsewhere")), Deno.errors.NotFound);
});
