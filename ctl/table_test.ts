import assert from "node:assert/strict";
import { formatRow, formatTable } from "./table.ts";

Deno.test("formatTable() makes each column as wide as its widest cell", () => {
  assert.deepEqual(formatTable(["ID", "HOST"], [["a", "web01"], ["longer", "b"]]), [
    "ID      HOST",
    "a       web01",
    "longer  b",
  ]);
});

Deno.test("formatTable() counts characters as they are shown", () => {
  assert.deepEqual(formatTable(["A", "B"], [["\x1b[2J", "1"], ["😀", "2"]]), [
    "A        B",
    "\\x1b[2J  1",
    "😀        2",
  ]);
});

Deno.test("formatRow() lets a wide cell push the others aside", () => {
  assert.equal(formatRow(["a", "b", "c"], [3, 1]), "a    b  c");
  assert.equal(formatRow(["abcdef", "b"], [3, 5]), "abcdef  b");
});
