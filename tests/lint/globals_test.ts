import { check, MODULE, type Row } from "./check.ts";

Deno.test.each<Row>([
  { name: "Deno", file: "shared/policy/a.ts", source: `${MODULE}Deno.readFileSync("x");`, rule: "pure" },
  { name: "an alias of Deno", file: "shared/ssh/a.ts", source: `${MODULE}const d = Deno;`, rule: "pure" },
  {
    name: "Deno through globalThis",
    file: "shared/ssh/a.ts",
    source: `${MODULE}globalThis.Deno.readFileSync("x");`,
    rule: "pure",
  },
  { name: "Deno in a new file", file: "signer/new.ts", source: 'Deno.readFileSync("x");', rule: "pure" },
  { name: "Deno in a new folder", file: "signer/a/b.ts", source: "const { readFile } = Deno;", rule: "pure" },
  {
    name: "the global fetch after a function with a parameter named fetch",
    file: "broker/a.ts",
    source: 'export const a = (fetch: () => void) => fetch(); fetch("x");',
    rule: "pure",
  },
  { name: "self", file: "broker/a.ts", source: "export const a = self.fetch;", rule: "pure" },
  { name: "globalThis", file: "broker/a.ts", source: "export const a = globalThis;", rule: "pure" },
  { name: "console", file: "shared/policy/a.ts", source: `${MODULE}console.log(1);`, rule: "pure" },
  {
    name: "a timer",
    file: "shared/policy/a.ts",
    source: `${MODULE}setTimeout(() => {}, 1);`,
    rule: "timers",
  },
  { name: "the network", file: "shared/policy/a.ts", source: `${MODULE}await fetch("x");`, rule: "pure" },
  { name: "the clock", file: "shared/policy/a.ts", source: `${MODULE}Date.now();`, rule: "ambient" },
  { name: "the current date", file: "shared/policy/a.ts", source: `${MODULE}new Date();`, rule: "ambient" },
  {
    name: "randomness",
    file: "shared/policy/a.ts",
    source: `${MODULE}crypto.getRandomValues(a);`,
    rule: "ambient",
  },
])("a pure file must not use $name", check);

Deno.test.each<Row>([
  { name: "a constant time", file: "shared/policy/a.ts", source: `${MODULE}new Date(0); Date.parse("x");` },
  { name: "a type of Deno", file: "shared/policy/a.ts", source: `${MODULE}let a: Deno.Signal;` },
  {
    name: "a property with the name of a global",
    file: "shared/policy/a.ts",
    source: `${MODULE}a.fetch; ({ console: 1 });`,
  },
  { name: "classes of errors", file: "signer/a.ts", source: "x instanceof Deno.errors.NotFound;" },
  { name: "the type of a global", file: "signer/a.ts", source: "let a: typeof fetch;" },
  {
    name: "a parameter with the name of a global",
    file: "signer/a.ts",
    source:
      "const a = ({ fetch }: A) => fetch(); function b(process: B, ...console: C[]) { process(console); }",
  },
  { name: "a variable of a global's name", file: "signer/a.ts", source: "{ const [process] = a; process; }" },
  { name: "an import of fetch", file: "signer/a.ts", source: 'import { fetch } from "./b.ts"; fetch();' },
  {
    name: "side effects in a test",
    file: "shared/policy/a_test.ts",
    source: "Deno.test(() => {}); Math.random();",
  },
])("a pure file can use $name", check);

Deno.test.each<Row>([
  { name: "Date.now", file: "ctl/setup/a.ts", source: "Date.now();", rule: "ambient" },
  { name: "Date.now in brackets", file: "ctl/setup/a.ts", source: 'Date["now"]();', rule: "ambient" },
  {
    name: "Date.now through globalThis",
    file: "ctl/setup/a.ts",
    source: "globalThis.Date.now();",
    rule: "ambient",
  },
  { name: "Date.now taken out", file: "ctl/setup/a.ts", source: "const { now } = Date;", rule: "ambient" },
  { name: "new Date()", file: "ctl/setup/a.ts", source: "new Date();", rule: "ambient" },
  { name: "Date()", file: "ctl/setup/a.ts", source: "Date();", rule: "ambient" },
  { name: "Math.random", file: "ctl/setup/a.ts", source: "Math.random();", rule: "ambient" },
  { name: "crypto.randomUUID", file: "ctl/setup/a.ts", source: "crypto.randomUUID();", rule: "ambient" },
  { name: "the environment", file: "ctl/setup/a.ts", source: 'Deno.env.get("X");', rule: "ambient" },
  {
    name: "the destructured environment",
    file: "ctl/setup/a.ts",
    source: "const { env } = Deno;",
    rule: "ambient",
  },
  { name: "exit", file: "signer/app.ts", source: "Deno.exit(1);", rule: "ambient" },
  { name: "the exit code", file: "signer/app.ts", source: "Deno.exitCode = 1;", rule: "ambient" },
])("gateway/ambient rejects $name outside main.ts and adapters", check);

Deno.test.each<Row>([
  { name: "main.ts", file: "signer/main.ts", source: 'Deno.env.get("X"); Deno.exit(Date.now());' },
  { name: "the clock", file: "shared/clock.ts", source: `${MODULE}Date.now();` },
  { name: "a browser", file: "debate/web/page/app.js", source: "Date.now();" },
  { name: "tests", file: "tests/e2e/a.ts", source: "Date.now(); Math.random();" },
])("gateway/ambient allows $name", check);

Deno.test.each<Row>([
  { name: "setTimeout", file: "ctl/setup/a.ts", source: "setTimeout(() => {}, 1);", rule: "timers" },
  { name: "setInterval", file: "signer/main.ts", source: "setInterval(() => {}, 1);", rule: "timers" },
  { name: "setImmediate", file: "ctl/setup/a.ts", source: "setImmediate(() => {});", rule: "timers" },
  {
    name: "setTimeout through globalThis",
    file: "ctl/setup/a.ts",
    source: "globalThis.setTimeout(() => {}, 1);",
    rule: "timers",
  },
  {
    name: "an alias of setTimeout",
    file: "ctl/setup/a.ts",
    source: "const later = setTimeout;",
    rule: "timers",
  },
  {
    name: "destructured setTimeout",
    file: "ctl/setup/a.ts",
    source: "const { setTimeout: later } = globalThis;",
    rule: "timers",
  },
  {
    name: "AbortSignal.timeout",
    file: "ctl/setup/a.ts",
    source: "AbortSignal.timeout(1);",
    rule: "timers",
  },
  {
    name: "destructured AbortSignal.timeout",
    file: "ctl/setup/a.ts",
    source: "const { timeout } = AbortSignal;",
    rule: "timers",
  },
  {
    name: "node:timers",
    file: "ctl/setup/a.ts",
    source: 'import { setTimeout } from "node:timers/promises";',
    rule: "timers",
  },
])("gateway/timers rejects $name outside the clock", check);

Deno.test.each<Row>([
  { name: "the clock", file: "shared/clock.ts", source: `${MODULE}setTimeout(() => {}, 1);` },
  { name: "a browser", file: "debate/web/page/app.js", source: "setTimeout(() => {}, 1);" },
  { name: "a test", file: "broker/a_test.ts", source: "setTimeout(() => {}, 1); AbortSignal.timeout(1);" },
  {
    name: "a timeout method of another object",
    file: "broker/a.ts",
    source: "socket.setTimeout(1, end); a.timeout(1);",
  },
])("gateway/timers allows $name", check);

Deno.test.each<Row>([
  { name: "by its path", file: "ctl/setup/a.ts", source: 'await Deno.chown("x", 1, 1);', rule: "owners" },
  {
    name: "synchronously",
    file: "shared/files/mod.ts",
    source: `${MODULE}Deno.chownSync("x", 1, 1);`,
    rule: "owners",
  },
])("gateway/owners rejects a change of a file's owner $name", check);
