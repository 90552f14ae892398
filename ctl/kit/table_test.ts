import assert from "node:assert/strict";
import { formatRow, formatTable, joinNames, LONGEST_LISTED, shorten, shortenText } from "./table.ts";

Deno.test("formatTable() makes each column as wide as its widest cell", () => {
  assert.deepEqual(formatTable(["ID", "HOST"], [["a", "web01"], ["longer", "b"]]), [
    "ID      HOST",
    "a       web01",
    "longer  b",
  ]);
});

Deno.test("formatTable() counts columns as a terminal shows them", () => {
  const cells = ["\x1b[2J", "😀", "日本", "한", "é", "e\u0301", "ｗ"];
  assert.deepEqual(formatTable(["A", "B"], cells.map((cell) => [cell, "1"])), [
    "A        B",
    "\\x1b[2J  1",
    "😀       1",
    "日本     1",
    "한       1",
    "é        1",
    "e\u0301        1",
    "ｗ       1",
  ]);
});

const WIDE_ROWS = [["web01", "10.0.0.5:22", "—", "local"], ["db", "10.0.0.6:22", "ann", "local"]];
const HOSTS = ["NAME", "ADDR", "JUMP", "GROUPS"];

Deno.test("formatTable() stays a table as long as the terminal is wide enough for its widest row", () => {
  const table = formatTable(HOSTS, WIDE_ROWS);
  assert.equal(Math.max(...table.map((line) => line.length)), 32);
  assert.deepEqual(formatTable(HOSTS, WIDE_ROWS, 32), table);
});

Deno.test("formatTable() makes paragraphs of what a terminal would break, without empty cells", () => {
  assert.deepEqual(formatTable(HOSTS, WIDE_ROWS, 31), [
    "web01",
    "    ADDR=10.0.0.5:22",
    "    GROUPS=local",
    "db",
    "    ADDR=10.0.0.6:22  JUMP=ann",
    "    GROUPS=local",
  ]);
});

Deno.test("formatTable() takes more rows than a call takes arguments", () => {
  assert.equal(formatTable(["A"], Array.from({ length: 200_000 }, () => ["b"])).length, 200_001);
});

Deno.test("formatRow() lets a wide cell push the others aside", () => {
  assert.equal(formatRow(["a", "b", "c"], [3, 1]), "a    b  c");
  assert.equal(formatRow(["abcdef", "b"], [3, 5]), "abcdef  b");
});

const LONGEST = "a".repeat(LONGEST_LISTED);

Deno.test.each([
  { name: "nothing", text: "" },
  { name: "the longest that is listed", text: LONGEST },
  { name: "as many characters of two units each", text: "😀".repeat(LONGEST_LISTED) },
])("shorten() leaves $name whole", ({ text }) => {
  assert.deepEqual(shorten(text), { shown: text, cut: undefined });
  assert.equal(shortenText(text), text);
});

Deno.test("shorten() cuts what is longer between two characters, and says so", () => {
  assert.deepEqual(shorten(`${LONGEST}b`), { shown: LONGEST, cut: "first 400 of 401 characters" });
  assert.equal(shorten("😀".repeat(LONGEST_LISTED + 1)).shown, "😀".repeat(LONGEST_LISTED));
  assert.equal(shortenText(`${LONGEST}bc`), `${LONGEST}…[first 400 of 402 characters]`);
});

Deno.test("joinNames() shows eight names, and how many there are", () => {
  assert.equal(joinNames(["a", "b"]), "a,b");
  assert.equal(joinNames([..."abcdefgh"]), "a,b,c,d,e,f,g,h");
  assert.equal(joinNames([..."abcdefghi"]), "a,b,c,d,e,f,g,h,…[first 8 of 9]");
});
