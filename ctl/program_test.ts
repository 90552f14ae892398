import assert from "node:assert/strict";
import { VERSION } from "@gateway/shared/service";
import type { Command } from "commander";
import { createProgram, runProgram } from "./program.ts";

/** The commands that dropped the permission to run programs before they started. */
const dropped: (readonly string[])[] = [];

const run = (...args: string[]) => runIn(undefined, ...args);

/** Runs the program in a terminal with this many columns. */
async function runIn(columns: number | undefined, ...args: string[]) {
  const result = { out: "", err: "" };
  const exit = await runProgram(args, {
    terminal: {
      out: (text) => void (result.out += text),
      err: (text) => void (result.err += text),
      columns,
    },
    dropPrograms: () => void dropped.push(args),
    workingFolder: "/nowhere",
    variables: {},
  });
  return { ...result, exit };
}

Deno.test.each<{ name: string; args: string[]; error: RegExp }>([
  { name: "an unknown command", args: ["bogus"], error: /^error: Unknown command 'bogus'\nfix: .*--help/ },
  {
    name: "an unknown option",
    args: ["hosts", "add", "--bogus"],
    error: /Unknown option '--bogus'\nfix: broker-ctl host add --help/,
  },
  {
    name: "help of an unknown command",
    args: ["help", "host", "bogus"],
    error: /Unknown command 'host bogus'/,
  },
  {
    name: "a missing name",
    args: ["host", "add"],
    error: /required argument 'name'\nfix: broker-ctl host add --help/,
  },
  {
    name: "two names",
    args: ["callers", "add", "a", "--name=b", "--group="],
    error: /name "a" with --name "b"/,
  },
  { name: "an unknown option with one dash", args: ["init", "-bogus"], error: /Unknown option '--bogus'/ },
  { name: "an option without value", args: ["init", "--dir"], error: /argument missing/ },
  {
    name: "an option in place of a value",
    args: ["init", "--dir", "--force"],
    error: /The value before it is missing/,
  },
  { name: "an option twice", args: ["init", "--dir", "a", "--dir=b"], error: /passed twice/ },
  { name: "an argument too many", args: ["init", "here"], error: /Too many arguments/ },
  { name: "a missing required option", args: ["audit", "repair"], error: /'--log <file>' not specified/ },
  {
    name: "an unknown service",
    args: ["permissions", "shim"],
    error: /Allowed choices are signer, control-plane, broker/,
  },
  {
    name: "a listener on a non-loopback address",
    args: ["init", "--listen-signer", ":9443"],
    error: /127\.0\.0\.1/,
  },
  { name: "an unknown subcommand", args: ["policy", "bogus"], error: /Unknown command 'bogus'/ },
  {
    name: "a value for a flag that takes none",
    args: ["freeze", "--volatile", "true"],
    error: /Too many arguments/,
  },
  { name: "a directory with a comma", args: ["init", "--dir", "a,b"], error: /comma/ },
])("runProgram() rejects $name with exit code 2", async ({ args, error }) => {
  const result = await run(...args);
  assert.match(result.err, error);
  assert.deepEqual([result.exit, result.out], [2, ""]);
});

/** Each command with values for all required arguments and options. */
function completeCommands(command: Command, path: readonly string[] = []): readonly (readonly string[])[] {
  if (command.commands.length > 0) {
    return command.commands.flatMap((inner) => completeCommands(inner, [...path, inner.name()]));
  }
  const words = command.registeredArguments.filter(({ required }) => required)
    .map(({ argChoices }) => argChoices?.[0] ?? "x");
  const options = command.options.filter(({ mandatory }) => mandatory).flatMap((
    { long = "" },
  ) => [long, "x"]);
  return [[...path, ...words, ...options]];
}

const COMPLETE_COMMANDS = completeCommands(createProgram({
  ...{ workingFolder: "/nowhere", variables: {}, terminal: { out: () => {}, err: () => {} } },
  run: () => Promise.resolve(),
}));

Deno.test.each(COMPLETE_COMMANDS.map((command) => ({ name: command.join(" "), command })))(
  "runProgram() accepts the global options before and after: $name",
  async ({ command }) => {
    const options = ["--config", "c", "--client-config=d", "--json", "--url", "127.0.0.1:1", "--ca-cert=x"];
    for (const args of [[...options, ...command], [...command, ...options]]) {
      const { err } = await run(...args);
      assert.doesNotMatch(err, /means nothing|nknown option/, args.join(" "));
    }
  },
);

Deno.test("runProgram() with --json prints an error as one object, wherever the option appears", async () => {
  for (
    const args of [["--json", "bogus"], ["init", "--bogus", "-json"], ["init", "--json=true", "--bogus"], [
      "bogus",
      "-o",
      "json",
    ], ["policy", "diff", "a", "-o=json"]]
  ) {
    const result = await run(...args);
    const error = JSON.parse(result.err);
    assert.deepEqual(Object.keys(error), ["code", "message", "hint"]);
    assert.equal(error.code, "invalid_request");
    assert.deepEqual([result.exit, result.out], [2, ""]);
  }
});

const HELPED = [
  ["init"],
  ["migrate"],
  ["permissions"],
  ["host", "list"],
  ["policy", "explain"],
  ["policy", "add"],
  ["policy", "remove"],
  ["policy", "grant"],
  ["policy", "grants"],
  ["policy", "revoke"],
  ["approval", "list"],
  ["approval", "show"],
  ["freeze"],
  ["unfreeze"],
  ["session", "kill"],
  ["revocations"],
  ["audit", "tail"],
  ["audit", "show"],
  ["audit", "verify"],
  ["audit", "repair"],
  ["reload"],
  ["version"],
];

/** The spelling that the usage shows after a name. */
const SPELLINGS: Record<string, string> = { list: "\\|ls", remove: "\\|rm", freeze: "\\|freezes" };

Deno.test.each<{ name: string; args: string[]; text: RegExp }>([
  { name: "the program", args: ["--help"], text: /Start here:[\s\S]*broker-ctl init --dir/ },
  { name: "the program, by command", args: ["help"], text: /Start here:/ },
  { name: "a command", args: ["init", "-help"], text: /--host[\s\S]*Examples:/ },
  { name: "a command, by command", args: ["help", "reload"], text: /broker-ctl help connection/ },
  { name: "a subcommand, by command", args: ["help", "hosts", "add"], text: /^Usage: broker-ctl host add / },
  {
    name: "the groups of commands",
    args: ["-h"],
    text: /^Set up:\n[^]*^Access:\n[^]*^Incident:\n {2}freeze /m,
  },
  {
    name: "the connection options",
    args: ["help", "connection"],
    text: /BROKER_CTL_SIGNER_URL[\s\S]*_CP_URL/,
  },
  {
    name: "an earlier spelling",
    args: ["host", "enrol", "-h"],
    text: /Usage: broker-ctl host enroll\|enrol /,
  },
  {
    name: "approval allow",
    args: ["approval", "approve", "--help"],
    text:
      /Usage: broker-ctl approval allow\|approve [\s\S]*--ttl [\s\S]*broker-ctl approval allow [\s\S]*approval\.callers/,
  },
  {
    name: "approval deny",
    args: ["approval", "deny", "--help"],
    text: /Usage: broker-ctl approval deny\|reject [\s\S]*Examples:\n {2}broker-ctl approval deny /,
  },
  ...HELPED.map((words) => ({
    name: words.join(" "),
    args: [...words, "--help"],
    text: new RegExp(
      `Usage: broker-ctl ${words.join(" ")}${
        SPELLINGS[words.at(-1)!] ?? ""
      } [\\s\\S]*Examples:\\n {2}broker-ctl ${words.join(" ")}`,
    ),
  })),
])("runProgram() prints the help of $name to stdout", async ({ args, text }) => {
  const result = await run(...args);
  assert.match(result.out, text);
  assert.deepEqual([result.exit, result.err], [0, ""]);
});

Deno.test.each([
  { args: ["version"], drops: 1 },
  { args: ["host", "list"], drops: 1 },
  { args: ["init", "--dir", "g"], drops: 1 },
  { args: ["init", "--import-ssh-config"], drops: 0 },
  { args: ["init", "--import-ssh-config", "config"], drops: 0 },
  { args: ["init", "--import-ssh-config", "--register-mcp"], drops: 0 },
  { args: ["reload"], drops: 1 },
  { args: ["reload", "--pid-file", "signer.pid"], drops: 0 },
  { args: ["cluster", "add", "prod"], drops: 1 },
  { args: ["cluster", "enroll", "prod"], drops: 1 },
  { args: ["host", "install-shim", "web01"], drops: 0 },
  { args: ["host", "enroll", "web01"], drops: 0 },
  { args: ["host", "enrol", "web01"], drops: 0 },
  { args: ["host", "unenroll", "web01"], drops: 0 },
  { args: ["ca", "rotate", "begin"], drops: 0 },
  { args: ["ca", "rotate", "status"], drops: 0 },
  { args: ["ca", "rotate", "finish"], drops: 0 },
  { args: ["host", "add", "--name", "web02"], drops: 0 },
  { args: ["host", "remove", "web02"], drops: 1 },
  { args: ["audit", "show", "--log", "audit.log"], drops: 1 },
  { args: ["doctor", "--live"], drops: 1 },
  { args: ["doctor", "--live", "--over", "ssh"], drops: 0 },
])(
  "runProgram() drops the permission to start programs for $args unless it may be needed: $drops",
  async ({ args, drops }) => {
    dropped.length = 0;
    await run(...args);
    assert.equal(dropped.length, drops);
  },
);

Deno.test.each([{ columns: 60 }, { columns: 100 }, { columns: 200 }])(
  "runProgram() breaks the paragraphs of help at spaces in a terminal of $columns columns",
  async ({ columns }) => {
    const { out } = await runIn(columns, "help", "approval", "watch");
    const { out: whole } = await run("help", "approval", "watch");
    assert.deepEqual(out.split(/\s+/), whole.split(/\s+/));
    const longest = Math.max(...out.split("\n").map(({ length }) => length));
    assert.ok(longest <= Math.min(columns, 100) && longest > Math.min(columns, 100) - 12, `${longest}`);
  },
);

Deno.test("runProgram() without arguments prints its help and fails", async () => {
  const result = await run();
  assert.match(result.err, /Start here:/);
  assert.deepEqual([result.exit, result.out], [1, ""]);
});

Deno.test("runProgram() prints its version", async () => {
  assert.deepEqual(await run("-version"), { out: `${VERSION}\n`, err: "", exit: 0 });
  assert.deepEqual(await run("version"), { out: `${VERSION}\n`, err: "", exit: 0 });
  for (const args of [["version", "--verbose"], ["--version", "--verbose"], ["-verbose", "-version"]]) {
    assert.match((await run(...args)).out, /^version .*\n {2}deno: /, args.join(" "));
  }
  assert.equal(JSON.parse((await run("--json", "version")).out).version, VERSION);
});
