import assert from "node:assert/strict";
import { join } from "node:path";
import { loadCaKeys } from "@gateway/shared/ca";
import { systemClock } from "@gateway/shared/clock";
import { loadConfig } from "@gateway/shared/config";
import { ifThere, readRegularFile, removeLeftovers, writeFileAtomic } from "@gateway/shared/files";
import { loadTlsMaterial } from "@gateway/shared/http";
import { createMetrics } from "@gateway/shared/service/metrics";
import { getServiceLogger } from "@gateway/shared/service/log";
import { newestLines, openServiceAudit } from "@gateway/shared/audit";
import { readApiLogs } from "../../ctl/audit/tokens.ts";
import { readOperatorFile } from "../../ctl/kit/files.ts";
import { poll } from "../stage/poll.ts";
import { controlPlaneConfig } from "../../control_plane/config/config.ts";
import { openConfigFile } from "../../signer/config/snapshot.ts";

const readEnv = () => undefined;

/** All functions that read a file named by an operator and report a failure. */
const READERS: Readonly<Record<string, (path: string) => Promise<unknown>>> = {
  "a config": (path) => loadConfig({ path, what: "control plane config", schema: controlPlaneConfig }),
  "the signer's config": (path) => openConfigFile(path, { clock: systemClock, fetch, readEnv }).read(),
  "a CA key": (path) =>
    loadCaKeys({ ca_key: path, ca_keys: {} }, { what: "config", clock: systemClock, readEnv }),
  "a certificate": (path) =>
    loadTlsMaterial({ cert: { key: "cert", path }, key: { key: "key", path }, ca: { key: "ca", path } }),
  "an audit key": (path) =>
    openServiceAudit({
      config: { audit_log: "/nonexistent/audit.log", audit_key: path, audit_fail_mode: "" },
      clock: systemClock,
      metrics: createMetrics(),
      logger: getServiceLogger("test"),
    }),
  "an operator's file": (path) => readOperatorFile(path, "certificate"),
  "an audit log of an API server": (path) => readApiLogs([path], "/", () => {}),
};

Deno.test.each(Object.entries(READERS).map(([what, read]) => ({ what, read })))(
  "$what that can't be read is told of in the same words",
  async ({ read }) => {
    await assert.rejects(read("/nonexistent/x"), {
      name: "AppError",
      message: /^Cannot .* "\/nonexistent\/x": no such file$/,
    });
    await assert.rejects(read("/tmp"), { message: /^Cannot .* "\/tmp": it is a directory, not a file$/ });
  },
);

Deno.test("ifThere() returns undefined for a missing file and rejects on other errors", async () => {
  const folder = await Deno.makeTempDir();
  try {
    assert.equal(await ifThere(Deno.stat(join(folder, "absent"))), undefined);
    assert.equal((await ifThere(Deno.stat(folder)))?.isDirectory, true);
    await Deno.writeTextFile(join(folder, "file"), "");
    await assert.rejects(ifThere(Deno.stat(join(folder, "file", "below"))), Deno.errors.NotADirectory);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

/** Special files in place of a regular file, by the program that creates them. */
const SPECIAL = [
  { made: ["mkfifo"], says: /^Cannot .*: it is a pipe, not a file$/ },
  { made: ["ln", "-s", "/dev/zero"], says: /^Cannot .*: it is a device, not a file$/ },
  { made: ["mkdir"], says: /^Cannot .*: it is a directory, not a file$/ },
  { made: ["truncate", "-s", "1T"], says: /^Cannot .*: it is larger than 256 MiB$/ },
];

Deno.test.each(SPECIAL)(
  "reading a file created by $made fails with the reason and does not block",
  async (row) => {
    const folder = await Deno.makeTempDir();
    try {
      const path = join(folder, "x");
      const [program = "", ...args] = row.made;
      assert.ok((await new Deno.Command(program, { args: [...args, path] }).output()).success);
      for (const [what, read] of Object.entries(READERS)) {
        // Logs have no size limit.
        if (program === "truncate" && what.includes("API server")) continue;
        await assert.rejects(read(path), { message: row.says }, what);
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

Deno.test("readRegularFile() does not block if a pipe replaces the file during the call", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const [path, pipe] = [join(folder, "x"), join(folder, "pipe")];
    await new Deno.Command("mkfifo", { args: [pipe] }).output();
    let ended = 0;
    for (let count = 1; count <= 50; count++) {
      await Deno.writeTextFile(`${path}.new`, "text");
      await Deno.rename(`${path}.new`, path);
      readRegularFile(path).then(() => ended++, () => ended++);
      // Replaces the file by a pipe during the call.
      Deno.linkSync(pipe, `${path}.new`);
      Deno.renameSync(`${path}.new`, path);
      await poll(() => ended === count, { what: "the end of a reading" });
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

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

Deno.test("writeFileAtomic() creates a file with mode 0600 (C4)", async () => {
  await using folder = new Folder();
  await writeFileAtomic(folder.file, bytes("new"));
  assert.equal(Deno.readTextFileSync(folder.file), "new");
  assert.equal(folder.mode(), 0o600);
  assert.deepEqual(folder.names(), ["config.json"]);
});

Deno.test.each([
  { name: "keeps the mode of the file it replaces", old: 0o640, mode: undefined, after: 0o640 },
  { name: "sets the given mode", old: 0o644, mode: 0o600, after: 0o600 },
  { name: "sets bits that the umask would hold back", old: 0o600, mode: 0o666, after: 0o666 },
])("writeFileAtomic() $name", async ({ old, mode, after }) => {
  await using folder = new Folder();
  Deno.writeTextFileSync(folder.file, "old");
  Deno.chmodSync(folder.file, old);
  await writeFileAtomic(folder.file, bytes("new"), { mode });
  assert.equal(folder.mode(), after);
  assert.equal(Deno.readTextFileSync(folder.file), "new");
});

Deno.test("writeFileAtomic() replaces the file, and an open reader keeps the old content", async () => {
  await using folder = new Folder();
  Deno.writeTextFileSync(folder.file, "old");
  using reader = Deno.openSync(folder.file);
  await writeFileAtomic(folder.file, bytes("new"));
  const buffer = new Uint8Array(3);
  reader.readSync(buffer);
  assert.equal(new TextDecoder().decode(buffer), "old");
});

Deno.test("writeFileAtomic() removes only temporary files that killed processes left for the same file", async () => {
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
  // The first kept file may belong to another process that is still writing.
  for (const name of [...left, ...kept.slice(1)]) Deno.utimeSync(`${folder.path}/${name}`, old, old);
  await writeFileAtomic(folder.file, bytes("new"));
  assert.deepEqual(
    folder.names(),
    ["config.json", ...kept, `.config.json.${hex.replace("0", "b")}`].sort(),
  );
});

Deno.test("removeLeftovers() removes of a folder what was left, when nothing in it was written for long", async () => {
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
  await removeLeftovers(at("backup"));
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

Deno.test("writeFileAtomic() leaves no temporary file if it fails (C4)", async () => {
  await using folder = new Folder();
  Deno.mkdirSync(folder.file);
  await assert.rejects(writeFileAtomic(folder.file, bytes("new")));
  assert.deepEqual(folder.names(), ["config.json"]);
});

Deno.test("writeFileAtomic() with concurrent writers keeps the complete content of one of them", async () => {
  await using folder = new Folder();
  const contents = Array.from({ length: 8 }, (_, index) => String(index).repeat(50_000));
  await Promise.all(contents.map((content) => writeFileAtomic(folder.file, bytes(content))));
  assert.ok(contents.includes(Deno.readTextFileSync(folder.file)));
  assert.deepEqual(folder.names(), ["config.json"]);
});

Deno.test(
  "writeFileAtomic() keeps the owner of the file it replaces (as root)",
  { ignore: Deno.uid() !== 0 },
  async () => {
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
);

Deno.test("writeFileAtomic() does not follow another user's symlink (as root)", {
  ignore: Deno.uid() !== 0,
}, async () => {
  await using folder = new Folder();
  Deno.writeTextFileSync(`${folder.path}/real.json`, "root's");
  Deno.symlinkSync("real.json", folder.file);
  await new Deno.Command("chown", { args: ["-h", "1234:1234", folder.file] }).output();
  await assert.rejects(writeFileAtomic(folder.file, bytes("new")), /symbolic link of another user's/);
  assert.equal(Deno.readTextFileSync(`${folder.path}/real.json`), "root's");
  Deno.chownSync(folder.file, 1234, 1234);
  await writeFileAtomic(folder.file, bytes("new"));
  assert.equal(Deno.readTextFileSync(`${folder.path}/real.json`), "new", "his own file by his own link");
});

const MAX_BYTES = 64 * 1024 * 1024;

async function readBack(files: Readonly<Record<string, string>>, maxBytes = MAX_BYTES) {
  const folder = await Deno.makeTempDir();
  try {
    for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${folder}/${name}`, text);
    let cuts = 0;
    const lines = newestLines(`${folder}/audit.log`, { maxBytes, onCut: () => cuts++ });
    return { lines: await Array.fromAsync(lines), cuts };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test.each<{ name: string; files: Readonly<Record<string, string>>; expected: readonly string[] }>([
  { name: "no log", files: {}, expected: [] },
  { name: "an empty log", files: { "audit.log": "" }, expected: [] },
  { name: "one line", files: { "audit.log": "a\n" }, expected: ["a"] },
  { name: "a torn line at the end, left out", files: { "audit.log": "a\nb\nto" }, expected: ["b", "a"] },
  { name: "a torn line alone", files: { "audit.log": "to" }, expected: [] },
  { name: "characters of several bytes", files: { "audit.log": "é\n😀\n" }, expected: ["😀", "é"] },
  {
    name: "rotated files, the newest first, without other logs",
    files: {
      "audit.log": "5\n",
      "audit.log.20260101T000000Z": "1\n2\n",
      "audit.log.20260101T000000Z.1": "3\n4\n",
      "audit-2.log": "other\n",
      "audit.log.bak": "other\n",
    },
    expected: ["5", "4", "3", "2", "1"],
  },
])("newestLines() of $name", async ({ files, expected }) => {
  assert.deepEqual(await readBack(files), { lines: expected, cuts: 0 });
});

Deno.test("newestLines() joins lines that span several reads", async () => {
  const written = Array.from({ length: 60 }, (_, index) => `${index} ${"é".repeat(index * 997)}`);
  const { lines } = await readBack({ "audit.log": written.map((line) => `${line}\n`).join("") });
  assert.deepEqual(lines, written.toReversed());
});

Deno.test("newestLines() reads at most maxBytes and reports that it stopped", async () => {
  const { lines, cuts } = await readBack({ "audit.log": "new\n", "audit.log.20260101T000000Z": "old\n" }, 5);
  assert.deepEqual({ lines, cuts }, { lines: ["new"], cuts: 1 });
});

Deno.test("newestLines() returns each line exactly once while the log rotates", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/audit.log`;
    for (let round = 0; round < 100; round++) {
      await Deno.writeTextFile(path, "line\n");
      const reading = Array.fromAsync(newestLines(path, { maxBytes: MAX_BYTES }));
      // Each round runs somewhat later.
      for (let turn = 0; turn < round % 10; turn++) await Deno.stat(folder);
      await Deno.rename(path, `${path}.20260101T000000Z`);
      await Deno.writeTextFile(path, "");
      assert.deepEqual(await reading, ["line"], `round ${round}`);
      await Deno.remove(`${path}.20260101T000000Z`);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
