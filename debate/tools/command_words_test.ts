import assert from "node:assert/strict";
import { ToolFailure } from "./run_program.ts";
import { splitCommand } from "./argv.ts";

Deno.test.each([
  { text: "ls -l /tmp", words: ["ls", "-l", "/tmp"] },
  { text: "  ls\t-l  ", words: ["ls", "-l"] },
  { text: "grep 'a b|c' x", words: ["grep", "a b|c", "x"] },
  { text: 'grep "a \\"b\\" c" x', words: ["grep", 'a "b" c', "x"] },
  { text: "grep a\\ b x", words: ["grep", "a b", "x"] },
  { text: "grep '' x", words: ["grep", "", "x"] },
  { text: "a'b'\"c\"d", words: ["abcd"] },
  { text: 'x "a\\n"', words: ["x", "a\\n"] },
  { text: "ls *.log", words: ["ls", "*.log"] },
].map((row) => ({ ...row, name: row.text })))("splitCommand() splits $name", ({ text, words }) => {
  assert.deepEqual(splitCommand(text), words);
});

Deno.test.each([
  "",
  "   ",
  "ls; rm x",
  "ls | sh",
  "ls & rm x",
  "ls && rm x",
  "ls > x",
  "cat < x",
  "ls $HOME",
  "ls ${IFS}x",
  "ls `id`",
  "ls $(id)",
  "(ls)",
  'ls "$HOME"',
  'ls "`id`"',
  "ls\nrm x",
  "ls\rrm x",
  "ls\u2028rm x",
  "ls \0",
  "ls 'a\nb'",
  "ls \x1b[2J",
  "ls 'a",
  'ls "a',
  "ls a\\",
  "ls \ud800",
  "x".repeat(4001),
  "x ".repeat(101),
].map((text) => ({ name: JSON.stringify(text.slice(0, 20)), text })))(
  "splitCommand() refuses $name",
  ({ text }) => {
    assert.throws(() => splitCommand(text), ToolFailure);
  },
);
