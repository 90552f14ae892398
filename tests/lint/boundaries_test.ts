import assert from "node:assert/strict";
import plugin from "./boundaries.ts";

const MODULE = "/** What it is. @module */\n";

function lint(path: string, source: string): string[] {
  const file = new URL(`../../${path}`, import.meta.url).pathname;
  return Deno.lint.runPlugin(plugin, file, source).map(({ id, message }) => `${id}: ${message}`);
}

interface Row {
  readonly name: string;
  readonly file: string;
  readonly source: string;
  readonly rule?: string;
}

function check({ file, source, rule }: Row): void {
  const found = lint(file, source);
  if (rule === undefined) assert.deepEqual(found, []);
  else assert.deepEqual(found.map((text) => text.split(":")[0]), [`gateway/${rule}`]);
}

Deno.test.each<Row>([
  { name: "a member in another", file: "signer/a.ts", source: 'import "../broker/app.ts";', rule: "imports" },
  {
    name: "a member by its name",
    file: "broker/a.ts",
    source: 'import "@gateway/control-plane";',
    rule: "imports",
  },
  {
    name: "a type of another member",
    file: "shim/a.ts",
    source: 'import type { A } from "../ctl/a.ts";',
    rule: "imports",
  },
  {
    name: "a member through export",
    file: "ctl/a.ts",
    source: 'export { a } from "../signer/a.ts";',
    rule: "imports",
  },
  {
    name: "a member through export all",
    file: "ctl/a.ts",
    source: 'export * from "../signer/a.ts";',
    rule: "imports",
  },
  {
    name: "a member through import()",
    file: "ctl/a.ts",
    source: 'await import("../signer/a.ts");',
    rule: "imports",
  },
  {
    name: "a member in a type's import()",
    file: "ctl/a.ts",
    source: 'export type A = import("../signer/a.ts").A;',
    rule: "imports",
  },
  {
    name: "a member in a member's test",
    file: "broker/a_test.ts",
    source: 'import "../signer/a.ts";',
    rule: "imports",
  },
  {
    name: "a member's contract in a service",
    file: "broker/a.ts",
    source: 'import "@gateway/signer/config";',
    rule: "imports",
  },
  {
    name: "a member's contract in shared",
    file: "shared/log.ts",
    source: `${MODULE}import type { A } from "@gateway/signer/config";`,
    rule: "imports",
  },
  {
    name: "the debate's contract in the operators' tool",
    file: "ctl/commands/a.ts",
    source: 'import "@gateway/debate/config";',
    rule: "imports",
  },
  {
    name: "a member's contract by its path",
    file: "ctl/a.ts",
    source: 'import "../signer/config.ts";',
    rule: "imports",
  },
  {
    name: "a member's inside in a tool",
    file: "ctl/a.ts",
    source: 'import "@gateway/signer/snapshot";',
    rule: "imports",
  },
  {
    name: "a member in deploy",
    file: "deploy/a.ts",
    source: 'import "../signer/app.ts";',
    rule: "imports",
  },
  {
    name: "a program in another file of deploy",
    file: "deploy/compile.ts",
    source: 'import "../broker/main.ts";',
    rule: "imports",
  },
  {
    name: "a member in shared",
    file: "shared/log.ts",
    source: `${MODULE}import "../signer/a.ts";`,
    rule: "imports",
  },
  {
    name: "tests in a member",
    file: "broker/a.ts",
    source: 'import "../tests/stage/poll.ts";',
    rule: "imports",
  },
  {
    name: "what is for tests in a service",
    file: "signer/a.ts",
    source: 'import "@gateway/shared/testing/fake_clock";',
    rule: "imports",
  },
  { name: "a package by its address", file: "signer/a.ts", source: 'import "npm:zod@4";', rule: "imports" },
  {
    name: "policy in the debate",
    file: "debate/a.ts",
    source: 'import "@gateway/shared/policy/ssh";',
    rule: "imports",
  },
  {
    name: "a higher topic of shared in a lower one",
    file: "shared/ssh/a.ts",
    source: `${MODULE}import type { A } from "../ca/custody.ts";`,
    rule: "imports",
  },
  {
    name: "a topic beside it in a topic of shared",
    file: "shared/http/a.ts",
    source: `${MODULE}import type { A } from "../config/load.ts";`,
    rule: "imports",
  },
  {
    name: "a topic in a file beside the topics of shared",
    file: "shared/log.ts",
    source: `${MODULE}import type { A } from "./wire/sign.ts";`,
    rule: "imports",
  },
  {
    name: "any other in a topic of shared that is not declared",
    file: "shared/other/a.ts",
    source: `${MODULE}import type { A } from "../wire/sign.ts";`,
    rule: "imports",
  },
  {
    name: "an adapter in a pure file",
    file: "shared/policy/a.ts",
    source: `${MODULE}import { systemClock } from "../clock.ts";`,
    rule: "imports",
  },
  {
    name: "files in a pure file",
    file: "shared/ssh/a.ts",
    source: `${MODULE}import { readFileSync } from "node:fs";`,
    rule: "imports",
  },
  {
    name: "sockets in a pure file",
    file: "shared/policy/a.ts",
    source: `${MODULE}import { connect, isIP } from "node:net";`,
    rule: "imports",
  },
  {
    name: "a whole module in a pure file",
    file: "shared/policy/a.ts",
    source: `${MODULE}import * as net from "node:net";`,
    rule: "imports",
  },
  {
    name: "a module with more than functions in a pure file",
    file: "signer/a.ts",
    source: 'import { lookup } from "node:dns/promises";',
    rule: "imports",
  },
  {
    name: "a package that connects in a pure file",
    file: "broker/a.ts",
    source: 'import postgres from "postgres";',
    rule: "imports",
  },
  {
    name: "an adapter that is passed on in a pure file",
    file: "signer/a.ts",
    source: 'export { systemClock } from "@gateway/shared/clock";',
    rule: "imports",
  },
  {
    name: "a file that joins adapters in a pure file",
    file: "signer/a.ts",
    source: 'import { createSignerApp } from "./app.ts";',
    rule: "imports",
  },
  {
    name: "an adapter by import() in a pure file",
    file: "ctl/a.ts",
    source: 'await import("./commands/init.ts");',
    rule: "imports",
  },
  {
    name: "chance in a pure file",
    file: "shared/policy/a.ts",
    source: `${MODULE}import { randomBytes } from "node:crypto";`,
    rule: "imports",
  },
])("gateway/imports refuses $name", check);

Deno.test.each<Row>([
  {
    name: "shared in a member",
    file: "signer/a.ts",
    source: 'import { every } from "@gateway/shared/clock"; import "./b.ts";',
  },
  {
    name: "any member in tests",
    file: "tests/e2e/a.ts",
    source: 'import "../../signer/a.ts"; import "../../ctl/a.ts";',
  },
  {
    name: "a member's contract in a tool",
    file: "ctl/a.ts",
    source: 'import "@gateway/control-plane/config"; import "@gateway/signer/permissions";',
  },
  {
    name: "a member's contract in deploy",
    file: "deploy/a.ts",
    source: 'import type { A } from "@gateway/signer/config";',
  },
  {
    name: "the programs in the one for everything",
    file: "deploy/gateway.ts",
    source: 'import "../broker/main.ts"; await import("../ctl/program.ts");',
  },
  {
    name: "shared/testing in a test",
    file: "signer/a_test.ts",
    source: 'import "@gateway/shared/testing/fake_clock";',
  },
  { name: "a package by its name", file: "signer/a.ts", source: 'import { z } from "@zod/zod";' },
  {
    name: "a lower topic of shared in a higher one",
    file: "shared/ca/a.ts",
    source: `${MODULE}import type { A } from "../policy/ssh.ts"; import type { B } from "../clock.ts";`,
  },
  {
    name: "any topic of shared in its tests",
    file: "shared/ssh/a_test.ts",
    source: 'import { a } from "../ca/pem.ts";',
  },
  {
    name: "the common topics in the debate",
    file: "debate/a.ts",
    source: 'import type { Monitor } from "@gateway/shared/http/monitor";',
  },
  {
    name: "a port's type in a pure file",
    file: "shared/policy/a.ts",
    source: `${MODULE}import type { Clock } from "../clock.ts";`,
  },
  { name: "adapters in an adapter", file: "ctl/commands/a.ts", source: 'import "../read_file.ts";' },
  {
    name: "adapters in a file that joins them",
    file: "broker/serve_mcp.ts",
    source: 'import "@gateway/shared/http/mtls_server";',
  },
  {
    name: "types among the values of a module in a pure file",
    file: "signer/a.ts",
    source: 'import { type Server } from "node:http";',
  },
  {
    name: "the text of a file in a pure file",
    file: "debate/a.ts",
    source: 'import script from "./web/page/app.js" with { type: "text" };',
  },
  {
    name: "pure functions in a pure file",
    file: "shared/policy/a.ts",
    source:
      `${MODULE}import { isIP } from "node:net"; import { createHash } from "node:crypto"; import "./b.ts";`,
  },
])("gateway/imports lets $name pass", check);

Deno.test.each<Row>([
  { name: "Deno", file: "shared/policy/a.ts", source: `${MODULE}Deno.readFileSync("x");`, rule: "pure" },
  { name: "Deno by another name", file: "shared/ssh/a.ts", source: `${MODULE}const d = Deno;`, rule: "pure" },
  {
    name: "Deno by globalThis",
    file: "shared/ssh/a.ts",
    source: `${MODULE}globalThis.Deno.readFileSync("x");`,
    rule: "pure",
  },
  { name: "Deno in a new file", file: "signer/new.ts", source: 'Deno.readFileSync("x");', rule: "pure" },
  { name: "Deno in a new folder", file: "shim/a/b.ts", source: "const { readFile } = Deno;", rule: "pure" },
  {
    name: "the network behind a function with such a parameter",
    file: "broker/a.ts",
    source: 'export const a = (fetch: () => void) => fetch(); fetch("x");',
    rule: "pure",
  },
  { name: "self", file: "broker/a.ts", source: "export const a = self.fetch;", rule: "pure" },
  { name: "globalThis", file: "broker/a.ts", source: "export const a = globalThis;", rule: "pure" },
  { name: "console", file: "shared/audit/record.ts", source: `${MODULE}console.log(1);`, rule: "pure" },
  {
    name: "a timer",
    file: "shared/policy/a.ts",
    source: `${MODULE}setTimeout(() => {}, 1);`,
    rule: "timers",
  },
  { name: "the network", file: "shared/policy/a.ts", source: `${MODULE}await fetch("x");`, rule: "pure" },
  { name: "the clock", file: "shared/policy/a.ts", source: `${MODULE}Date.now();`, rule: "ambient" },
  { name: "today", file: "shared/policy/a.ts", source: `${MODULE}new Date();`, rule: "ambient" },
  {
    name: "chance",
    file: "shared/policy/a.ts",
    source: `${MODULE}crypto.getRandomValues(a);`,
    rule: "ambient",
  },
])("a pure file must not use $name", check);

Deno.test.each<Row>([
  { name: "a given time", file: "shared/policy/a.ts", source: `${MODULE}new Date(0); Date.parse("x");` },
  { name: "a type of Deno", file: "shared/policy/a.ts", source: `${MODULE}let a: Deno.Signal;` },
  {
    name: "a property of that name",
    file: "shared/policy/a.ts",
    source: `${MODULE}a.fetch; ({ console: 1 });`,
  },
  { name: "classes of errors", file: "signer/a.ts", source: "x instanceof Deno.errors.NotFound;" },
  { name: "the type of a global", file: "signer/a.ts", source: "let a: typeof fetch;" },
  {
    name: "a parameter of that name",
    file: "signer/a.ts",
    source:
      "const a = ({ fetch }: A) => fetch(); function b(process: B, ...console: C[]) { process(console); }",
  },
  { name: "a variable of that name", file: "signer/a.ts", source: "{ const [process] = a; process; }" },
  { name: "an import of that name", file: "signer/a.ts", source: 'import { fetch } from "./b.ts"; fetch();' },
  {
    name: "anything in its test",
    file: "shared/policy/a_test.ts",
    source: "Deno.test(() => {}); Math.random();",
  },
])("a pure file may use $name", check);

Deno.test.each<Row>([
  { name: "Date.now", file: "ctl/commands/a.ts", source: "Date.now();", rule: "ambient" },
  { name: "Date.now in brackets", file: "ctl/commands/a.ts", source: 'Date["now"]();', rule: "ambient" },
  {
    name: "Date.now by globalThis",
    file: "ctl/commands/a.ts",
    source: "globalThis.Date.now();",
    rule: "ambient",
  },
  { name: "Date.now taken out", file: "ctl/commands/a.ts", source: "const { now } = Date;", rule: "ambient" },
  { name: "new Date()", file: "ctl/commands/a.ts", source: "new Date();", rule: "ambient" },
  { name: "Date()", file: "ctl/commands/a.ts", source: "Date();", rule: "ambient" },
  { name: "Math.random", file: "ctl/commands/a.ts", source: "Math.random();", rule: "ambient" },
  { name: "crypto.randomUUID", file: "ctl/commands/a.ts", source: "crypto.randomUUID();", rule: "ambient" },
  { name: "the environment", file: "ctl/commands/a.ts", source: 'Deno.env.get("X");', rule: "ambient" },
  {
    name: "the environment taken out",
    file: "ctl/commands/a.ts",
    source: "const { env } = Deno;",
    rule: "ambient",
  },
  { name: "exit", file: "signer/app.ts", source: "Deno.exit(1);", rule: "ambient" },
  { name: "the exit code", file: "signer/app.ts", source: "Deno.exitCode = 1;", rule: "ambient" },
])("gateway/ambient refuses $name outside main.ts and adapters", check);

Deno.test.each<Row>([
  { name: "main.ts", file: "signer/main.ts", source: 'Deno.env.get("X"); Deno.exit(Date.now());' },
  { name: "the clock", file: "shared/clock.ts", source: `${MODULE}Date.now();` },
  { name: "tests", file: "tests/e2e/a.ts", source: "Date.now(); Math.random();" },
])("gateway/ambient lets $name be", check);

Deno.test.each<Row>([
  {
    name: "a module of shared without description",
    file: "shared/a.ts",
    source: "const a = 1;",
    rule: "documented",
  },
  {
    name: "an export of shared",
    file: "shared/a.ts",
    source: `${MODULE}export const a = 1;`,
    rule: "documented",
  },
  {
    name: "an export whose comment belongs to what is before it",
    file: "shared/a.ts",
    source: `${MODULE}/** Of a. */\nexport const a = 1;\nexport function b() {}`,
    rule: "documented",
  },
  {
    name: "a line comment",
    file: "shared/a.ts",
    source: `${MODULE}// A.\nexport const a = 1;`,
    rule: "documented",
  },
  { name: "an interface anywhere", file: "signer/a.ts", source: "export interface A {}", rule: "documented" },
])("gateway/documented refuses $name", check);

Deno.test.each<Row>([
  {
    name: "what has its comment",
    file: "shared/a.ts",
    source: `${MODULE}/** A. */\n// why\nexport const a = 1;`,
  },
  { name: "what is not exported", file: "shared/a.ts", source: `${MODULE}const a = 1;` },
  { name: "functions of members", file: "signer/a.ts", source: "export function a() {}" },
  { name: "tests", file: "shared/a_test.ts", source: "export const a = 1;" },
])("gateway/documented lets $name pass", check);

Deno.test.each<Row>([
  { name: "setTimeout", file: "ctl/commands/a.ts", source: "setTimeout(() => {}, 1);", rule: "timers" },
  { name: "setInterval", file: "signer/main.ts", source: "setInterval(() => {}, 1);", rule: "timers" },
  { name: "setImmediate", file: "ctl/commands/a.ts", source: "setImmediate(() => {});", rule: "timers" },
  {
    name: "setTimeout by globalThis",
    file: "ctl/commands/a.ts",
    source: "globalThis.setTimeout(() => {}, 1);",
    rule: "timers",
  },
  {
    name: "setTimeout by another name",
    file: "ctl/commands/a.ts",
    source: "const later = setTimeout;",
    rule: "timers",
  },
  {
    name: "setTimeout taken out",
    file: "ctl/commands/a.ts",
    source: "const { setTimeout: later } = globalThis;",
    rule: "timers",
  },
  {
    name: "AbortSignal.timeout",
    file: "ctl/commands/a.ts",
    source: "AbortSignal.timeout(1);",
    rule: "timers",
  },
  {
    name: "AbortSignal.timeout taken out",
    file: "ctl/commands/a.ts",
    source: "const { timeout } = AbortSignal;",
    rule: "timers",
  },
  {
    name: "node:timers",
    file: "ctl/commands/a.ts",
    source: 'import { setTimeout } from "node:timers/promises";',
    rule: "timers",
  },
])("gateway/timers refuses $name outside the clock", check);

Deno.test.each<Row>([
  { name: "the clock", file: "shared/clock.ts", source: `${MODULE}setTimeout(() => {}, 1);` },
  { name: "a browser", file: "debate/web/page/app.js", source: "setTimeout(() => {}, 1);" },
  { name: "a test", file: "broker/a_test.ts", source: "setTimeout(() => {}, 1); AbortSignal.timeout(1);" },
  {
    name: "an object's own timeout",
    file: "broker/a.ts",
    source: "socket.setTimeout(1, end); a.timeout(1);",
  },
])("gateway/timers lets $name be", check);

Deno.test.each<Row>([
  { name: "JSON.parse", file: "signer/a.ts", source: "JSON.parse(a);" },
  { name: "JSON.parse in a debate", file: "debate/web/a.ts", source: "JSON.parse(a);" },
  { name: "JSON.parse in a script of deploy", file: "deploy/a.ts", source: "JSON.parse(a);" },
  { name: "JSON.parse handed on", file: "ctl/a.ts", source: "texts.map(JSON.parse);" },
  { name: "JSON.parse in brackets", file: "ctl/a.ts", source: 'JSON["parse"](a);' },
  { name: "JSON.parse under a computed name", file: "ctl/a.ts", source: "JSON[name](a);" },
  { name: "JSON.parse by globalThis", file: "ctl/commands/a.ts", source: "globalThis.JSON.parse(a);" },
  {
    name: "JSON.parse by globalThis in brackets",
    file: "ctl/commands/a.ts",
    source: 'globalThis["JSON"].parse(a);',
  },
  { name: "JSON.parse with ?.", file: "ctl/a.ts", source: "JSON?.parse(a);" },
  { name: "JSON.parse behind a cast", file: "ctl/a.ts", source: "(JSON as Parser).parse(a);" },
  { name: "JSON under another name", file: "ctl/a.ts", source: "const json = JSON;" },
  { name: "parse taken out of JSON", file: "ctl/a.ts", source: "const { parse } = JSON;" },
  { name: "JSON as an argument", file: "ctl/a.ts", source: "read(JSON);" },
  {
    name: "JSON taken out of globalThis",
    file: "ctl/commands/a.ts",
    source: "const { JSON: json } = globalThis;",
  },
  { name: "a Response that parses", file: "broker/a.ts", source: "await response.json();" },
  { name: "a request of hono that parses", file: "broker/a.ts", source: "await c.req.json();" },
  { name: "a Response that may parse", file: "broker/a.ts", source: "await response?.json();" },
  { name: "a Blob that parses", file: "broker/a.ts", source: 'await new Response(blob)["json"]();' },
  {
    name: "a stream that parses",
    file: "ctl/commands/a.ts",
    source: 'import { json } from "node:stream/consumers";',
  },
].map((row) => ({ ...row, rule: "json" })))("gateway/json refuses $name", check);

Deno.test.each<Row>([
  { name: "the door", file: "shared/json.ts", source: `${MODULE}JSON.parse(a); const json = JSON;` },
  { name: "tests", file: "signer/a_test.ts", source: "JSON.parse(await response.json());" },
  { name: "help to tests", file: "signer/testing/a.ts", source: "JSON.parse(a);" },
  { name: "pages for a browser", file: "debate/web/page/a.js", source: "JSON.parse(await response.json());" },
  {
    name: "what writes",
    file: "ctl/commands/a.ts",
    source: "JSON.stringify(a); globalThis.JSON.stringify(a);",
  },
  { name: "an answer", file: "signer/a.ts", source: "Response.json({}); c.json(problem, 400);" },
  { name: "an option", file: "ctl/a.ts", source: "if (options.json) print({ JSON: 1 });" },
  { name: "a type", file: "ctl/a.ts", source: "let a: JSON;" },
])("gateway/json lets $name pass", check);
