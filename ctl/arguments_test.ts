import assert from "node:assert/strict";
import { Command } from "commander";
import { booleansOf, countOf, normalizeArguments, once, repeated } from "./arguments.ts";

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
  assert.deepEqual(normalizeArguments(args, BOOLEANS), expected);
});

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

Deno.test("booleansOf() tells the switches of the command that is meant, and not those that take a value", () => {
  const program = new Command().option("--json").option("--config <file>");
  const host = program.command("host");
  host.command("add").option("--force").option("--sudo [value]");
  program.command("explain").option("--sudo");
  const names = (...args: string[]) => [...booleansOf(program, args)].sort();
  assert.deepEqual(names("--config", "explain", "host", "add", "--sudo=false"), ["force", "help", "json"]);
  assert.deepEqual(names("-json", "explain", "-sudo=true"), ["help", "json", "sudo"]);
  assert.deepEqual(names("nothing"), ["help", "json"]);
});
