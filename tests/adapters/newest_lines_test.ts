import assert from "node:assert/strict";
import { newestLines } from "@gateway/shared/audit";

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
    name: "rotated files, the newest first, and none of another log",
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

Deno.test("newestLines() puts lines together that lie across what is read at a time", async () => {
  const written = Array.from({ length: 60 }, (_, index) => `${index} ${"é".repeat(index * 997)}`);
  const { lines } = await readBack({ "audit.log": written.map((line) => `${line}\n`).join("") });
  assert.deepEqual(lines, written.toReversed());
});

Deno.test("newestLines() reads no more than it is told to, and says so", async () => {
  const { lines, cuts } = await readBack({ "audit.log": "new\n", "audit.log.20260101T000000Z": "old\n" }, 5);
  assert.deepEqual({ lines, cuts }, { lines: ["new"], cuts: 1 });
});

Deno.test("newestLines() misses no line of a log that is rotated meanwhile, and has none twice", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/audit.log`;
    for (let round = 0; round < 100; round++) {
      await Deno.writeTextFile(path, "line\n");
      const reading = Array.fromAsync(newestLines(path, { maxBytes: MAX_BYTES }));
      // Each round somewhat later.
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
