import assert from "node:assert/strict";
import { fenced, LONGEST_ROW, messageOf } from "./mattermost.ts";

const CARD = {
  approval: "a",
  nonce: "n",
  title: "Approval required",
  note: "",
  page: "https://gw/a",
  verbs: ["approve", "deny"],
} as const;

Deno.test("messageOf() breaks long lines: blocks of code do not, and what is beyond their right edge is approved unseen", () => {
  const command = `command    "true ${"x".repeat(30)}${" ".repeat(500)}${"😀".repeat(60)}\u0301; rm -rf /"`;
  const message = messageOf({ ...CARD, lines: ["host       web01", command, "created    now"] });
  const [, block = ""] = /```text\n([^]*?)\n```/.exec(message) ?? [];
  const rows = block.split("\n");
  for (const row of rows) assert.ok([...row].length <= LONGEST_ROW, row);
  const [host, first, ...rest] = rows;
  assert.deepEqual([host, first?.startsWith('command    "true'), rest.at(-1)], [
    "host       web01",
    true,
    "created    now",
  ]);
  // No row that goes on can pass for one that begins.
  for (const row of rest.slice(0, -1)) assert.match(row, /^ {9}↳ /);
  assert.equal(first + rest.slice(0, -1).map((row) => row.slice(11)).join(""), command);
});

Deno.test("fenced() has a longer fence than any that breaking a line can make", () => {
  const text = `command    "${"`".repeat(400)}"`;
  const block = messageOf({ ...CARD, lines: [text] });
  const [fence = ""] = /`+(?=text\n)/.exec(block) ?? [];
  assert.ok(!block.slice(block.indexOf("text\n")).replace(/\n`+\n/, "\n").includes(fence));
  assert.equal(fenced("a``b"), "```text\na``b\n```");
});
