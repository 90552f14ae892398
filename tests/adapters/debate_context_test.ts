import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { addEvidence, collectContext } from "../../debate/context/collect.ts";
import { createContextRedactor } from "../../debate/context/redact_context.ts";
import { temporaryFolder } from "./debate_tools_fixture.ts";

const file = (name: string, text: string | Uint8Array) => ({
  name,
  bytes: typeof text === "string" ? new TextEncoder().encode(text) : text,
});
const rules = { redact: createContextRedactor([]), clock: systemClock };

Deno.test("collectContext() puts base context first, then the incident, then the project", async () => {
  await using folder = await temporaryFolder();
  await Deno.writeTextFile(`${folder.path}/README.md`, "about\n```\npassword=hunter2");
  const { text, redactions, notes } = await collectContext({
    baseContext: [file("base.md", "the base"), file("other.md", "token: hunter2")],
    incident: file("incident.txt", "down since noon\n"),
    project: { path: folder.path, patterns: ["*.md", "/etc/*"], maxFiles: 20, maxCharsPerFile: 100 },
  }, { ...rules, allowedRoots: [folder.path] });
  assert.equal(
    text,
    [
      "# Base context\nFile: base.md\n\nthe base",
      "# Base context\nFile: other.md\n\ntoken: [REDACTED]",
      "# Incident\nFile: incident.txt\n\ndown since noon",
      `# Project\nRoot: ${folder.path}`,
      "## Files\n- README.md",
      "### README.md\n````\nabout\n```\npassword=[REDACTED]\n````",
      '## Left out\n- the pattern "/etc/*" was left out: it leaves the project',
    ].join("\n\n"),
  );
  assert.deepEqual(redactions, { "config-value": 2 });
  assert.equal(notes.length, 1);
});

Deno.test("collectContext() shows no part of a secret of a project's file, wherever the file is cut", async () => {
  await using folder = await temporaryFolder();
  const key = "-----BEGIN PRIVATE KEY-----\nMIIMII\n-----END PRIVATE KEY-----";
  await Deno.writeTextFile(
    `${folder.path}/a.md`,
    `see https://u:MIIhunter2@h and ghp_MII${"x".repeat(30)}\n${key}\nend`,
  );
  await Deno.writeTextFile(`${folder.path}/b.md`, "still here");
  for (let maxCharsPerFile = 1; maxCharsPerFile < 180; maxCharsPerFile += 3) {
    const { text } = await collectContext({
      project: { path: folder.path, patterns: ["*.md"], maxFiles: 20, maxCharsPerFile },
    }, { ...rules, allowedRoots: [folder.path] });
    assert.doesNotMatch(text, /MII|hunt/, `cut at ${maxCharsPerFile}`);
    assert.ok(text.includes("still here".slice(0, maxCharsPerFile)));
  }
});

Deno.test("collectContext() masks nothing when the operator wishes so", async () => {
  const { text, redactions } = await collectContext({ incident: file("i", "password=hunter2") }, {
    ...rules,
    redact: undefined,
    allowedRoots: [],
  });
  assert.match(text, /hunter2/);
  assert.deepEqual(redactions, {});
});

Deno.test("collectContext() gives nothing for nothing", async () => {
  assert.deepEqual(await collectContext({}, { ...rules, allowedRoots: [] }), {
    text: "",
    redactions: {},
    notes: [],
  });
});

Deno.test("collectContext() does not let an unfinished key swallow the next file", async () => {
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
])("collectContext() refuses $name and names the file, not where it lies", async ({ bytes }) => {
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

Deno.test("addEvidence() redacts text and files, and leaves the context before as it is", async () => {
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

Deno.test("collectContext() lets others be served while it masks a large file", async () => {
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
