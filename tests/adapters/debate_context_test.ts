import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { addEvidence, collectContext } from "../../debate/context/collect.ts";
import { createContextRedactor } from "../../debate/context/redact_context.ts";
import { temporaryFolder } from "./debate_tools_fixture.ts";
import { collectProject, type ProjectRequest } from "../../debate/context/project.ts";

const file = (name: string, text: string | Uint8Array) => ({
  name,
  bytes: typeof text === "string" ? new TextEncoder().encode(text) : text,
});
const rules = { redact: createContextRedactor([]), clock: systemClock };

Deno.test("collectContext() puts base context first, then the incident, then the project", async () => {
  await using directory = await temporaryFolder();
  await Deno.writeTextFile(`${directory.path}/README.md`, "about\n```\npassword=hunter2");
  const { text, redactions, notes } = await collectContext({
    baseContext: [file("base.md", "the base"), file("other.md", "token: hunter2")],
    incident: file("incident.txt", "down since noon\n"),
    project: { path: directory.path, patterns: ["*.md", "/etc/*"], maxFiles: 20, maxCharsPerFile: 100 },
  }, { ...rules, allowedRoots: [directory.path] });
  assert.equal(
    text,
    [
      "# Base context\nFile: base.md\n\nthe base",
      "# Base context\nFile: other.md\n\ntoken: [REDACTED]",
      "# Incident\nFile: incident.txt\n\ndown since noon",
      `# Project\nRoot: ${directory.path}`,
      "## Files\n- README.md",
      "### README.md\n````\nabout\n```\npassword=[REDACTED]\n````",
      '## Omitted\n- pattern "/etc/*" was ignored: it leaves the project',
    ].join("\n\n"),
  );
  assert.deepEqual(redactions, { "config-value": 2 });
  assert.equal(notes.length, 1);
});

Deno.test("collectContext() masks the secrets of a project file wherever it is truncated", async () => {
  await using directory = await temporaryFolder();
  const key = "-----BEGIN PRIVATE KEY-----\nMIIMII\n-----END PRIVATE KEY-----";
  await Deno.writeTextFile(
    `${directory.path}/a.md`,
    `see https://u:MIIhunter2@h and ghp_MII${"x".repeat(30)}\n${key}\nend`,
  );
  await Deno.writeTextFile(`${directory.path}/b.md`, "still here");
  for (let maxCharsPerFile = 1; maxCharsPerFile < 180; maxCharsPerFile += 3) {
    const { text } = await collectContext({
      project: { path: directory.path, patterns: ["*.md"], maxFiles: 20, maxCharsPerFile },
    }, { ...rules, allowedRoots: [directory.path] });
    assert.doesNotMatch(text, /MII|hunt/, `cut at ${maxCharsPerFile}`);
    assert.ok(text.includes("still here".slice(0, maxCharsPerFile)));
  }
});

Deno.test("collectContext() masks nothing if the operator turns redaction off", async () => {
  const { text, redactions } = await collectContext({ incident: file("i", "password=hunter2") }, {
    ...rules,
    redact: undefined,
    allowedRoots: [],
  });
  assert.match(text, /hunter2/);
  assert.deepEqual(redactions, {});
});

Deno.test("collectContext() is empty without files", async () => {
  assert.deepEqual(await collectContext({}, { ...rules, allowedRoots: [] }), {
    text: "",
    redactions: {},
    notes: [],
  });
});

Deno.test("collectContext() does not extend an unterminated key into the next file", async () => {
  const { text } = await collectContext({
    baseContext: [file("a", "-----BEGIN PRIVATE KEY-----\nMII")],
    incident: file("b", "still here"),
  }, { ...rules, allowedRoots: [] });
  assert.doesNotMatch(text, /MII/);
  assert.match(text, /still here/);
});

Deno.test.each([
  { name: "bytes that are not UTF-8", bytes: new Uint8Array([0x61, 0xff]) },
  { name: "UTF-16", bytes: new Uint8Array([0xff, 0xfe, 0x61, 0x00]) },
  { name: "a NUL", bytes: new Uint8Array([0x61, 0x00]) },
])("collectContext() rejects $name with the file name, without its path", async ({ bytes }) => {
  await assert.rejects(
    collectContext({ incident: file("/tmp/upload-12/core.dump", bytes) }, { ...rules, allowedRoots: [] }),
    { code: "invalid_request", message: 'Cannot use file "core.dump": it is not UTF-8 text' },
  );
});

Deno.test.each([
  { name: "/tmp/x/a.txt", shown: "a.txt" },
  { name: "C:\\x\\a.txt", shown: "a.txt" },
  { name: "a\n# Fake", shown: "a# Fake" },
  { name: "..", shown: ".." },
  { name: "", shown: "unnamed" },
  { name: "\u202egpj.exe", shown: "gpj.exe" },
].map((row) => ({ ...row, title: JSON.stringify(row.name) })))(
  "collectContext() shows $title as one short name",
  async ({ name, shown }) => {
    const { text } = await collectContext({ incident: file(name, "x") }, { ...rules, allowedRoots: [] });
    assert.equal(text, `# Incident\nFile: ${shown}\n\nx`);
  },
);

Deno.test("addEvidence() redacts text and files, and keeps the previous context", async () => {
  const { text, redactions } = await addEvidence("old", {
    text: " password=a \n",
    files: [file("e.log", "token=b")],
  }, rules);
  assert.equal(
    text,
    "old\n\n# New evidence\n\npassword=[REDACTED]\n\n# Evidence\nFile: e.log\n\ntoken=[REDACTED]",
  );
  assert.deepEqual(redactions, { "config-value": 2 });
  assert.equal((await addEvidence("", { text: "x", files: [] }, rules)).text, "# New evidence\n\nx");
});

Deno.test("collectContext() does not block other requests while it masks a large file", async () => {
  let turns = 0;
  const over = new AbortController();
  const others = (async () => {
    while (!over.signal.aborted) {
      await systemClock.sleep(1);
      turns++;
    }
  })();
  const text = "2026-01-02 INFO token refreshed, password=hunter2\n".repeat(100_000);
  const { redactions } = await collectContext({ incident: file("app.log", text) }, {
    ...rules,
    allowedRoots: [],
  });
  over.abort();
  await others;
  assert.deepEqual(redactions, { "config-value": 100_000 });
  assert.ok(turns > 30, `${turns} turns`);
});

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

Deno.test("collectProject() reads the default files in order, without the excluded directories", async () => {
  await using directory = await temporaryFolder();
  await write(directory.path, {
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
  const { root, files, notes } = await collectProject(request(directory.path), [directory.path]);
  assert.equal(root, directory.path);
  assert.deepEqual(files.map(({ path, text }) => [path, text]), [
    ["README.md", "readme"],
    ["package.json", "{}"],
    ["src/a/c.ts", "c"],
    ["src/b.ts", "b"],
    ["tests/deep/t.ts", "t"],
  ]);
  assert.deepEqual(notes, []);
});

Deno.test("collectProject() selects files pattern by pattern, with a stable result", async () => {
  await using directory = await temporaryFolder();
  await write(directory.path, { "z.md": "z", "a.ts": "a", "b.ts": "b", "c.ts": "c" });
  const { files, notes } = await collectProject(
    request(directory.path, { patterns: ["*.md", "*.ts"], maxFiles: 3 }),
    [directory.path],
  );
  assert.deepEqual(files.map(({ path }) => path), ["a.ts", "b.ts", "z.md"]);
  assert.deepEqual(notes, ["only the first 3 matching files are included"]);
});

Deno.test("collectProject() truncates long files between characters, without reading them completely", async () => {
  await using directory = await temporaryFolder();
  await write(directory.path, { "a.txt": "é".repeat(10), "b.txt": "😀".repeat(10), "c.txt": "abc" });
  const huge = await Deno.open(`${directory.path}/d.txt`, { write: true, create: true });
  await huge.write(new TextEncoder().encode("text"));
  await huge.truncate(5_000_000_000);
  huge.close();
  const { files } = await collectProject(
    request(directory.path, { patterns: ["*.txt"], maxCharsPerFile: 3 }),
    [
      directory.path,
    ],
  );
  assert.deepEqual(files.map(({ text, isCut }) => [text, isCut]), [
    ["ééé", true],
    ["😀", true],
    ["abc", false],
    // The zeros that follow make the file binary.
    [undefined, false],
  ]);
});

Deno.test("collectProject() lists binary files without their content", async () => {
  await using directory = await temporaryFolder();
  await write(directory.path, {
    "a.bin": new Uint8Array([1, 0, 2]),
    "b.bin": new Uint8Array([0xff, 0xfe, 0x41]),
    "c.bin": new Uint8Array([0xc3]),
    "d.bin": "",
  });
  const { files } = await collectProject(request(directory.path, { patterns: ["*.bin"] }), [directory.path]);
  assert.deepEqual(files.map(({ text }) => text), [undefined, undefined, undefined, ""]);
});

Deno.test("collectProject() follows links only to files within the project, and notes the others", async () => {
  await using directory = await temporaryFolder();
  const root = `${directory.path}/project`;
  await write(directory.path, {
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
      [`${directory.path}/outside/secret.txt`, "absolute.txt"],
      ["../outside/secret.txt", "relative.txt"],
      ["../project-2/x.txt", "sibling.txt"],
      ["../outside", "directory"],
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
  assert.equal(notes.filter((note) => /^link .* was omitted/.test(note)).length, 5);
  assert.ok(notes.includes("3 more links were omitted"));
  assert.ok(notes.includes("disguised.txt was omitted: it may contain secrets"));
});

Deno.test("collectProject() skips a named pipe without blocking", async () => {
  await using directory = await temporaryFolder();
  await write(directory.path, { "a.txt": "a" });
  await new Deno.Command("mkfifo", { args: [`${directory.path}/pipe.txt`] }).output();
  await Deno.symlink("pipe.txt", `${directory.path}/link.txt`);
  const { files } = await collectProject(request(directory.path, { patterns: ["*"] }), [directory.path]);
  assert.deepEqual(files.map(({ path }) => path), ["a.txt"]);
});

Deno.test("collectProject() skips patterns that leave the project", async () => {
  await using directory = await temporaryFolder();
  await write(directory.path, { "a/x": "x", "b/y": "y" });
  const { files, notes } = await collectProject(
    request(`${directory.path}/a`, { patterns: ["../b/*", `${directory.path}/b/*`, "*"] }),
    [directory.path],
  );
  assert.deepEqual(files.map(({ path }) => path), ["x"]);
  assert.equal(notes.filter((note) => note.includes("it leaves the project")).length, 2);
});

Deno.test("collectProject() rejects directories whose real path is outside the allowed roots", async () => {
  await using directory = await temporaryFolder();
  const root = `${directory.path}/root`;
  await write(directory.path, { "root/a": "a", "root-2/b": "b", "root/file": "f" });
  await Deno.symlink(`${directory.path}/root-2`, `${root}/link`);
  await Deno.symlink(root, `${directory.path}/alias`);
  for (
    const path of [
      `${directory.path}/root-2`,
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
  await assert.rejects(collectProject(request(root), [`${directory.path}/missing`]), {
    code: "invalid_request",
  });
  assert.equal((await collectProject(request(`${directory.path}/alias`), [root])).root, root);
  assert.equal((await collectProject(request(root), [`${directory.path}/alias`])).root, root);
});

Deno.test.each([
  { name: "max_files", limits: { maxFiles: 0 } },
  { name: "max_files", limits: { maxFiles: 1.5 } },
  { name: "max_chars_per_file", limits: { maxCharsPerFile: -1 } },
].map((row) => ({ ...row, name: `${row.name} ${JSON.stringify(row.limits)}` })))(
  "collectProject() refuses $name",
  async ({ limits }) => {
    await using directory = await temporaryFolder();
    await assert.rejects(collectProject(request(directory.path, limits), [directory.path]), {
      code: "invalid_request",
    });
  },
);
