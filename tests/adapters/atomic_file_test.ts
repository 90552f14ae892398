import assert from "node:assert/strict";
import { removeLeft, writeFileAtomic } from "@gateway/shared/files";

class Folder implements AsyncDisposable {
  readonly path = Deno.makeTempDirSync({ prefix: "atomic-" });
  readonly file = `${this.path}/config.json`;

  names(): readonly string[] {
    return Array.from(Deno.readDirSync(this.path), ({ name }) => name).sort();
  }

  mode(): number {
    return Deno.statSync(this.file).mode! & 0o7777;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.path, { recursive: true });
  }
}

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("writeFileAtomic() creates a file for its owner alone (C4)", async () => {
  await using folder = new Folder();
  await writeFileAtomic(folder.file, bytes("new"));
  assert.equal(Deno.readTextFileSync(folder.file), "new");
  assert.equal(folder.mode(), 0o600);
  assert.deepEqual(folder.names(), ["config.json"]);
});

Deno.test.each([
  { name: "keeps the mode of the file it replaces", old: 0o640, mode: undefined, after: 0o640 },
  { name: "sets the mode it is given", old: 0o644, mode: 0o600, after: 0o600 },
  { name: "sets bits that the umask would hold back", old: 0o600, mode: 0o666, after: 0o666 },
])("writeFileAtomic() $name", async ({ old, mode, after }) => {
  await using folder = new Folder();
  Deno.writeTextFileSync(folder.file, "old");
  Deno.chmodSync(folder.file, old);
  await writeFileAtomic(folder.file, bytes("new"), { mode });
  assert.equal(folder.mode(), after);
  assert.equal(Deno.readTextFileSync(folder.file), "new");
});

Deno.test("writeFileAtomic() puts a new file in place, so that a reader keeps the old one whole", async () => {
  await using folder = new Folder();
  Deno.writeTextFileSync(folder.file, "old");
  using reader = Deno.openSync(folder.file);
  await writeFileAtomic(folder.file, bytes("new"));
  const buffer = new Uint8Array(3);
  reader.readSync(buffer);
  assert.equal(new TextDecoder().decode(buffer), "old");
});

Deno.test("writeFileAtomic() removes what killed processes have left of the same file, and nothing else", async () => {
  await using folder = new Folder();
  const hex = "0123456789abcdef01234567";
  const old = new Date(Date.now() - 11 * 60_000);
  const left = [`.config.json.${hex}`, `..config.json.${hex}.${hex}`, `.config.json.${hex.slice(8)}`];
  const kept = [
    `.config.json.${hex.replace("0", "a")}`,
    `.other.json.${hex}`,
    `.config.json.${hex}0`,
    "config.json.bak",
  ];
  for (const name of [...left, ...kept]) Deno.writeTextFileSync(`${folder.path}/${name}`, "");
  Deno.mkdirSync(`${folder.path}/.config.json.${hex.replace("0", "b")}`);
  // The first of those that are kept may be another process's that is still writing.
  for (const name of [...left, ...kept.slice(1)]) Deno.utimeSync(`${folder.path}/${name}`, old, old);
  await writeFileAtomic(folder.file, bytes("new"));
  assert.deepEqual(
    folder.names(),
    ["config.json", ...kept, `.config.json.${hex.replace("0", "b")}`].sort(),
  );
});

Deno.test("removeLeft() removes of a folder what was left, when nothing in it was written for long", async () => {
  await using folder = new Folder();
  const at = (name: string) => `${folder.path}/${name}`;
  const old = new Date(Date.now() - 11 * 60_000);
  const [left, busy, file] = [
    ".backup.0123456789abcdef",
    ".backup.0123456789abcdee",
    ".backup.0123456789abcded",
  ];
  for (const name of [left, busy]) {
    Deno.mkdirSync(at(`${name}/files`), { recursive: true });
    Deno.writeTextFileSync(at(`${name}/files/0001`), "");
    if (name === left) Deno.utimeSync(at(`${name}/files/0001`), old, old);
    for (const each of [`${name}/files`, name]) Deno.utimeSync(at(each), old, old);
  }
  Deno.writeTextFileSync(at(file), "");
  Deno.utimeSync(at(file), old, old);
  Deno.mkdirSync(at("backup"));
  await removeLeft(at("backup"));
  assert.deepEqual(folder.names(), [busy, file, "backup"].sort());
});

Deno.test("writeFileAtomic() follows a symbolic link", async () => {
  await using folder = new Folder();
  Deno.writeTextFileSync(`${folder.path}/real.json`, "old");
  Deno.symlinkSync("real.json", folder.file);
  await writeFileAtomic(folder.file, bytes("new"));
  assert.equal(Deno.lstatSync(folder.file).isSymlink, true);
  assert.equal(Deno.readTextFileSync(`${folder.path}/real.json`), "new");
});

Deno.test("writeFileAtomic() leaves no temporary file behind when it fails (C4)", async () => {
  await using folder = new Folder();
  Deno.mkdirSync(folder.file);
  await assert.rejects(writeFileAtomic(folder.file, bytes("new")));
  assert.deepEqual(folder.names(), ["config.json"]);
});

Deno.test("writeFileAtomic() survives concurrent writers: one content wins whole", async () => {
  await using folder = new Folder();
  const contents = Array.from({ length: 8 }, (_, index) => String(index).repeat(50_000));
  await Promise.all(contents.map((content) => writeFileAtomic(folder.file, bytes(content))));
  assert.ok(contents.includes(Deno.readTextFileSync(folder.file)));
  assert.deepEqual(folder.names(), ["config.json"]);
});

Deno.test({
  name: "writeFileAtomic() keeps the owner of the file it replaces (as root)",
  ignore: Deno.uid() !== 0,
  fn: async () => {
    await using folder = new Folder();
    Deno.writeTextFileSync(folder.file, "old");
    Deno.chmodSync(folder.file, 0o640);
    Deno.chownSync(folder.file, 1234, 1235);
    await writeFileAtomic(folder.file, bytes("new"), { keepOwner: true });
    const { uid, gid } = Deno.statSync(folder.file);
    assert.deepEqual([Deno.readTextFileSync(folder.file), uid, gid, folder.mode()], [
      "new",
      1234,
      1235,
      0o640,
    ]);
    assert.deepEqual(folder.names(), ["config.json"]);
  },
});

Deno.test({
  name: "writeFileAtomic() follows no symbolic link that somebody else put there (as root)",
  ignore: Deno.uid() !== 0,
  fn: async () => {
    await using folder = new Folder();
    Deno.writeTextFileSync(`${folder.path}/real.json`, "root's");
    Deno.symlinkSync("real.json", folder.file);
    await new Deno.Command("chown", { args: ["-h", "1234:1234", folder.file] }).output();
    await assert.rejects(writeFileAtomic(folder.file, bytes("new")), /symbolic link of another user's/);
    assert.equal(Deno.readTextFileSync(`${folder.path}/real.json`), "root's");
    Deno.chownSync(folder.file, 1234, 1234);
    await writeFileAtomic(folder.file, bytes("new"));
    assert.equal(Deno.readTextFileSync(`${folder.path}/real.json`), "new", "his own file by his own link");
  },
});
