import assert from "node:assert/strict";
import { collectProject, type ProjectRequest } from "../../debate/context/project.ts";
import { temporaryFolder } from "./debate_tools_fixture.ts";

async function write(root: string, files: Readonly<Record<string, string | Uint8Array>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await Deno.mkdir(`${root}/${path}`.replace(/\/[^/]*$/, ""), { recursive: true });
    if (typeof content === "string") await Deno.writeTextFile(`${root}/${path}`, content);
    else await Deno.writeFile(`${root}/${path}`, content);
  }
}

const request = (path: string, more: Partial<ProjectRequest> = {}): ProjectRequest => ({
  path,
  patterns: [],
  maxFiles: 20,
  maxCharsPerFile: 12_000,
  ...more,
});

Deno.test("collectProject() takes the default files, in order, and never the excluded folders", async () => {
  await using folder = await temporaryFolder();
  await write(folder.path, {
    "README.md": "readme",
    "package.json": "{}",
    "src/b.ts": "b",
    "src/a/c.ts": "c",
    "src/node_modules/x.js": "x",
    "tests/deep/t.ts": "t",
    "docs/README.md": "other",
    ".git/config": "x",
    "node_modules/y/README.md": "y",
    "main.ts": "m",
  });
  const { root, files, notes } = await collectProject(request(folder.path), [folder.path]);
  assert.equal(root, folder.path);
  assert.deepEqual(files.map(({ path, text }) => [path, text]), [
    ["README.md", "readme"],
    ["package.json", "{}"],
    ["src/a/c.ts", "c"],
    ["src/b.ts", "b"],
    ["tests/deep/t.ts", "t"],
  ]);
  assert.deepEqual(notes, []);
});

Deno.test("collectProject() fills up pattern by pattern, the same every time", async () => {
  await using folder = await temporaryFolder();
  await write(folder.path, { "z.md": "z", "a.ts": "a", "b.ts": "b", "c.ts": "c" });
  const { files, notes } = await collectProject(
    request(folder.path, { patterns: ["*.md", "*.ts"], maxFiles: 3 }),
    [folder.path],
  );
  assert.deepEqual(files.map(({ path }) => path), ["a.ts", "b.ts", "z.md"]);
  assert.deepEqual(notes, ["only the first 3 files that match are here"]);
});

Deno.test("collectProject() cuts long files between characters, without reading them whole", async () => {
  await using folder = await temporaryFolder();
  await write(folder.path, { "a.txt": "é".repeat(10), "b.txt": "😀".repeat(10), "c.txt": "abc" });
  const huge = await Deno.open(`${folder.path}/d.txt`, { write: true, create: true });
  await huge.write(new TextEncoder().encode("text"));
  await huge.truncate(5_000_000_000);
  huge.close();
  const { files } = await collectProject(request(folder.path, { patterns: ["*.txt"], maxCharsPerFile: 3 }), [
    folder.path,
  ]);
  assert.deepEqual(files.map(({ text, isCut }) => [text, isCut]), [
    ["ééé", true],
    ["😀", true],
    ["abc", false],
    // Zeros follow: it is binary.
    [undefined, false],
  ]);
});

Deno.test("collectProject() lists binary files without their content", async () => {
  await using folder = await temporaryFolder();
  await write(folder.path, {
    "a.bin": new Uint8Array([1, 0, 2]),
    "b.bin": new Uint8Array([0xff, 0xfe, 0x41]),
    "c.bin": new Uint8Array([0xc3]),
    "d.bin": "",
  });
  const { files } = await collectProject(request(folder.path, { patterns: ["*.bin"] }), [folder.path]);
  assert.deepEqual(files.map(({ text }) => text), [undefined, undefined, undefined, ""]);
});

Deno.test("collectProject() follows links only to files within the project, and notes the others", async () => {
  await using folder = await temporaryFolder();
  const root = `${folder.path}/project`;
  await write(folder.path, {
    "project/a.txt": "a",
    "project/.env": "KEY=x",
    "project/sub/b.txt": "b",
    "project/.git/config": "g",
    "outside/secret.txt": "outside-content",
    "project-2/x.txt": "outside-content",
  });
  for (
    const [target, path] of [
      ["a.txt", "inner.txt"],
      [`${folder.path}/outside/secret.txt`, "absolute.txt"],
      ["../outside/secret.txt", "relative.txt"],
      ["../project-2/x.txt", "sibling.txt"],
      ["../outside", "folder"],
      [".", "loop"],
      ["self.txt", "self.txt"],
      [".env", "disguised.txt"],
      [".git/config", "git.txt"],
      ["/proc/self/environ", "environ.txt"],
      ["/dev/zero", "zero.txt"],
    ] as const
  ) await Deno.symlink(target, `${root}/${path}`);
  const { files, notes } = await collectProject(request(root, { patterns: ["**/*.txt", "**/*"] }), [root]);
  assert.deepEqual(files.map(({ path, text }) => [path, text]), [["a.txt", "a"], ["inner.txt", "a"], [
    "sub/b.txt",
    "b",
  ]]);
  assert.equal(notes.filter((note) => /^the link .* was left out/.test(note)).length, 5);
  assert.ok(notes.includes("3 more links were left out"));
  assert.ok(notes.includes("disguised.txt was left out: it may hold secrets"));
});

Deno.test("collectProject() does not stop at a pipe, and takes none", async () => {
  await using folder = await temporaryFolder();
  await write(folder.path, { "a.txt": "a" });
  await new Deno.Command("mkfifo", { args: [`${folder.path}/pipe.txt`] }).output();
  await Deno.symlink("pipe.txt", `${folder.path}/link.txt`);
  const { files } = await collectProject(request(folder.path, { patterns: ["*"] }), [folder.path]);
  assert.deepEqual(files.map(({ path }) => path), ["a.txt"]);
});

Deno.test("collectProject() skips patterns that leave the project", async () => {
  await using folder = await temporaryFolder();
  await write(folder.path, { "a/x": "x", "b/y": "y" });
  const { files, notes } = await collectProject(
    request(`${folder.path}/a`, { patterns: ["../b/*", `${folder.path}/b/*`, "*"] }),
    [folder.path],
  );
  assert.deepEqual(files.map(({ path }) => path), ["x"]);
  assert.equal(notes.filter((note) => note.includes("it leaves the project")).length, 2);
});

Deno.test("collectProject() refuses folders outside of the allowed roots, by where they really are", async () => {
  await using folder = await temporaryFolder();
  const root = `${folder.path}/root`;
  await write(folder.path, { "root/a": "a", "root-2/b": "b", "root/file": "f" });
  await Deno.symlink(`${folder.path}/root-2`, `${root}/link`);
  await Deno.symlink(root, `${folder.path}/alias`);
  for (
    const path of [
      `${folder.path}/root-2`,
      `${root}/../root-2`,
      `${root}/link`,
      `${root}/nothing`,
      `${root}/file`,
      "/",
      "",
      `${root}\0`,
    ]
  ) {
    await assert.rejects(collectProject(request(path), [root]), { code: "invalid_request" }, path);
  }
  await assert.rejects(collectProject(request(root), []), { code: "invalid_request" });
  await assert.rejects(collectProject(request(root), [`${folder.path}/missing`]), {
    code: "invalid_request",
  });
  assert.equal((await collectProject(request(`${folder.path}/alias`), [root])).root, root);
  assert.equal((await collectProject(request(root), [`${folder.path}/alias`])).root, root);
});

Deno.test.each([
  { name: "max_files", limits: { maxFiles: 0 } },
  { name: "max_files", limits: { maxFiles: 1.5 } },
  { name: "max_chars_per_file", limits: { maxCharsPerFile: -1 } },
].map((row) => ({ ...row, name: `${row.name} ${JSON.stringify(row.limits)}` })))(
  "collectProject() refuses $name",
  async ({ limits }) => {
    await using folder = await temporaryFolder();
    await assert.rejects(collectProject(request(folder.path, limits), [folder.path]), {
      code: "invalid_request",
    });
  },
);
