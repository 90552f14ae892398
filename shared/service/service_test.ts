import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { exitCodeOf, parseServiceArguments } from "./service.ts";

const DEFAULTS = { config: "signer.json", version: false, verbose: false, help: false };

Deno.test.each([
  { args: [], expected: {} },
  { args: ["--config", "a.json"], expected: { config: "a.json" } },
  { args: ["--config=a.json"], expected: { config: "a.json" } },
  { args: ["-config", "a.json"], expected: { config: "a.json" } },
  { args: ["-config=a.json"], expected: { config: "a.json" } },
  { args: ["--config=a=b"], expected: { config: "a=b" } },
  { args: ["--config", "-"], expected: { config: "-" } },
  { args: ["-config", "a", "--config=b"], expected: { config: "b" } },
  { args: ["--version"], expected: { version: true } },
  { args: ["-version", "-verbose"], expected: { version: true, verbose: true } },
  { args: ["--version=false"], expected: {} },
  { args: ["-h"], expected: { help: true } },
  { args: ["--help"], expected: { help: true } },
  { args: ["--version", "-config", "a"], expected: { version: true, config: "a" } },
])("parseServiceArguments() reads $args", ({ args, expected }) => {
  const options = parseServiceArguments(args, { defaultConfig: "signer.json" });
  assert.deepEqual(options, { ...DEFAULTS, ...expected });
});

Deno.test.each([
  { args: ["--confg", "a.json"], message: /^Unknown argument "--confg": known are --config FILE, --version/ },
  { args: ["a.json"], message: /^Unknown argument "a.json"/ },
  { args: ["--config", "a.json", "b.json"], message: /^Unknown argument "b.json"/ },
  { args: ["---config", "a"], message: /^Unknown argument/ },
  { args: ["--"], message: /^Unknown argument/ },
  { args: [""], message: /^Unknown argument ""/ },
  { args: ["--constructor"], message: /^Unknown argument/ },
  { args: ["--config"], message: /^Option --config needs/ },
  { args: ["--config="], message: /^Option --config needs/ },
  { args: ["--version=yes"], message: /^Cannot use option "--version=yes"/ },
])("parseServiceArguments() refuses $args", ({ args, message }) => {
  assert.throws(() => parseServiceArguments(args, { defaultConfig: "signer.json" }), (error) => {
    assert.ok(error instanceof AppError && error.code === "invalid_request");
    assert.match(error.message, message);
    return true;
  });
});

Deno.test.each<
  { readonly name: string; readonly run: () => number | void; readonly code: number; readonly told: RegExp }
>([
  { name: "no failure", run: () => {}, code: 0, told: /^$/ },
  { name: "a code of its own", run: () => 3, code: 3, told: /^$/ },
  {
    name: "a wrong command line",
    run: () => {
      throw new AppError("invalid_request", "Unknown argument");
    },
    code: 2,
    told: /^Unknown argument\n$/,
  },
  {
    name: "a broken config",
    run: () => {
      throw new AppError("invalid_config", "Cannot load", { cause: new Error("secret") });
    },
    code: 1,
    told: /^Cannot load\n$/,
  },
  {
    name: "a defect",
    run: () => {
      throw new TypeError("x is undefined");
    },
    code: 1,
    told: /^Unexpected failure: TypeError: x is undefined\n/,
  },
])("exitCodeOf() gives $code for $name", async ({ run, code, told }) => {
  let text = "";
  assert.equal(await exitCodeOf(() => Promise.try(run), (more) => text += more), code);
  assert.match(text, told);
});
