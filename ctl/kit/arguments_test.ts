import assert from "node:assert/strict";
import { Command } from "commander";
import { countOf, normalizeArguments, once, repeated, rulesOf } from "./arguments.ts";

const BOOLEANS = new Set(["force", "json"]);

Deno.test.each<{ name: string; args: string[]; expected: string[] }>([
  { name: "a single dash before a long option", args: ["-config", "f"], expected: ["--config", "f"] },
  { name: "a single dash with a value", args: ["-config=f=g"], expected: ["--config=f=g"] },
  { name: "a true boolean", args: ["--force=true", "-json=true"], expected: ["--force", "--json"] },
  { name: "a false boolean", args: ["init", "--force=false"], expected: ["init"] },
  { name: "a short option, as it is", args: ["-h", "-", "--"], expected: ["-h", "-", "--"] },
  { name: "a text option that looks boolean, as it is", args: ["--log=true"], expected: ["--log=true"] },
  { name: "nothing after two dashes", args: ["-json", "--", "-json"], expected: ["--json", "--", "-json"] },
])("normalizeArguments() takes $name", ({ args, expected }) => {
  assert.deepEqual(normalizeArguments(args, { booleans: BOOLEANS, words: 1 }), expected);
});

Deno.test.each<{ args: string[]; words: number; expected: string[] }>([
  {
    args: ["freeze", "--reason", "INC", "42", "it", "leaks"],
    words: 1,
    expected: ["freeze", "--reason", "INC 42 it leaks"],
  },
  {
    args: ["freeze", "-reason", "a", "b", "--caller", "x"],
    words: 1,
    expected: ["freeze", "--reason", "a b", "--caller", "x"],
  },
  { args: ["deny", "ID", "--reason", "a", "b"], words: 2, expected: ["deny", "ID", "--reason", "a b"] },
  { args: ["deny", "--reason", "a", "b", "ID"], words: 2, expected: ["deny", "--reason", "a b", "ID"] },
  { args: ["deny", "--reason", "a", "ID"], words: 2, expected: ["deny", "--reason", "a", "ID"] },
  { args: ["deny", "--reason", "ID"], words: 2, expected: ["deny", "--reason", "ID"] },
  {
    args: ["deny", "--reason", "a b", "ID", "--url", "u"],
    words: 2,
    expected: ["deny", "--reason", "a b", "ID", "--url", "u"],
  },
  {
    args: ["deny", "--url", "u", "--json", "ID", "--reason", "a", "b"],
    words: 2,
    expected: ["deny", "--url", "u", "--json", "ID", "--reason", "a b"],
  },
  { args: ["freeze", "--reason", "--wait"], words: 1, expected: ["freeze", "--reason", "--wait"] },
  { args: ["freeze", "--reason"], words: 1, expected: ["freeze", "--reason"] },
  { args: ["freeze", "--reason=a", "b"], words: 1, expected: ["freeze", "--reason=a", "b"] },
])(
  "normalizeArguments() makes $args a reason of several words where the command wants no more",
  ({ args, words, expected }) => {
    assert.deepEqual(normalizeArguments(args, { booleans: BOOLEANS, words }), expected);
  },
);

Deno.test("once() and repeated() refuse an option where a value belongs", () => {
  assert.throws(() => once("--force", undefined));
  assert.throws(() => repeated("-h", ["a"]));
  assert.equal(once("-", undefined), "-");
  assert.deepEqual(repeated("b", ["a"]), ["a", "b"]);
});

Deno.test("once() refuses a second value", () => {
  assert.throws(() => once("b", "a"));
});

Deno.test("countOf() takes whole numbers within its bounds", () => {
  const count = countOf(1, 20);
  assert.deepEqual([count("1"), count("020")], [1, 20]);
  for (const text of ["0", "21", "-1", "1.5", "1e1", "", " 1", "0x1", "9".repeat(30)]) {
    assert.throws(() => count(text), { message: /from 1 to 20/ }, text);
  }
});

Deno.test("rulesOf() tells the switches of the command that is meant, and how many words it wants", () => {
  const program = new Command().option("--json").option("--config <file>");
  const host = program.command("host");
  host.command("add").option("--force").option("--sudo [value]");
  program.command("explain").option("--sudo").argument("<id>", "which");
  const rules = (...args: string[]) => {
    const { booleans, words } = rulesOf(program, args);
    return [[...booleans].sort(), words];
  };
  assert.deepEqual(rules("--config", "explain", "host", "add", "--sudo=false"), [
    ["force", "help", "json"],
    2,
  ]);
  assert.deepEqual(rules("-json", "explain", "-sudo=true"), [["help", "json", "sudo"], 2]);
  assert.deepEqual(rules("nothing"), [["help", "json"], 0]);
});
