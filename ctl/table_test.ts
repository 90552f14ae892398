import assert from "node:assert/strict";
import { formatRow, formatTable } from "./table.ts";

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

Deno.test("formatRow() lets a wide cell push the others aside", () => {
  assert.equal(formatRow(["a", "b", "c"], [3, 1]), "a    b  c");
  assert.equal(formatRow(["abcdef", "b"], [3, 5]), "abcdef  b");
});
