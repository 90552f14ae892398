import { check, MODULE, type Row } from "./check.ts";

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
    file: "shared/service/log.ts",
    source: `${MODULE}import type { A } from "@gateway/signer/config";`,
    rule: "imports",
  },
  {
    name: "the debate's contract in broker-ctl",
    file: "ctl/setup/a.ts",
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
    name: "an internal module of a member in a tool",
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
    file: "shared/service/log.ts",
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
    name: "a test helper in a service",
    file: "signer/a.ts",
    source: 'import "@gateway/shared/testing";',
    rule: "imports",
  },
  { name: "a package by its address", file: "signer/a.ts", source: 'import "npm:zod@4";', rule: "imports" },
  {
    name: "policy in the debate",
    file: "debate/a.ts",
    source: 'import "@gateway/shared/policy";',
    rule: "imports",
  },
  {
    name: "an import of a higher topic of shared by a lower one",
    file: "shared/ssh/a.ts",
    source: `${MODULE}import type { A } from "../ca/custody.ts";`,
    rule: "imports",
  },
  {
    name: "a topic of the same layer in a topic of shared",
    file: "shared/http/a.ts",
    source: `${MODULE}import type { A } from "../config/load.ts";`,
    rule: "imports",
  },
  {
    name: "a topic of shared in a file outside the topics",
    file: "shared/service/log.ts",
    source: `${MODULE}import type { A } from "../policy/ssh.ts";`,
    rule: "imports",
  },
  {
    name: "a topic in an undeclared topic of shared",
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
    name: "file access in a pure file",
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
    name: "a module with effects in a pure file",
    file: "signer/a.ts",
    source: 'import { lookup } from "node:dns/promises";',
    rule: "imports",
  },
  {
    name: "a package with network access in a pure file",
    file: "broker/a.ts",
    source: 'import postgres from "postgres";',
    rule: "imports",
  },
  {
    name: "randomness in a pure file",
    file: "shared/policy/a.ts",
    source: `${MODULE}import { randomBytes } from "node:crypto";`,
    rule: "imports",
  },
])("gateway/imports rejects $name", check);

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
    name: "the programs in deploy/gateway.ts",
    file: "deploy/gateway.ts",
    source: 'import "../broker/main.ts"; await import("../ctl/program.ts");',
  },
  {
    name: "shared/testing in a test",
    file: "signer/a_test.ts",
    source: 'import "@gateway/shared/testing";',
  },
  { name: "a package by its name", file: "signer/a.ts", source: 'import * as z from "@zod/zod";' },
  {
    name: "zod as a namespace",
    file: "signer/a.ts",
    source: 'import { z } from "@zod/zod";',
    rule: "imports",
  },
  { name: "a type of zod", file: "signer/a.ts", source: 'import type { z } from "@zod/zod";' },
  {
    name: "an import of a lower topic of shared by a higher one",
    file: "shared/ca/a.ts",
    source: `${MODULE}import type { A } from "../policy/ssh.ts"; import type { B } from "../clock.ts";`,
  },
  {
    name: "any topic of shared in its tests",
    file: "shared/ssh/a_test.ts",
    source: 'import { a } from "../ca/pem.ts";',
  },
  {
    name: "the common topics of shared in the debate",
    file: "debate/a.ts",
    source: 'import type { Monitor } from "@gateway/shared/http";',
  },
  {
    name: "a port's type in a pure file",
    file: "shared/policy/a.ts",
    source: `${MODULE}import type { Clock } from "../clock.ts";`,
  },
  { name: "adapters in an adapter", file: "ctl/setup/a.ts", source: 'import "../read_file.ts";' },
  {
    name: "adapters in a file that connects them",
    file: "broker/serve.ts",
    source: 'import "@gateway/shared/http";',
  },
  {
    name: "types among the values of a module in a pure file",
    file: "signer/a.ts",
    source: 'import { type Server } from "node:http";',
  },
  {
    name: "a text import in a pure file",
    file: "debate/a.ts",
    source: 'import script from "./web/page/app.js" with { type: "text" };',
  },
  {
    name: "pure functions in a pure file",
    file: "shared/policy/a.ts",
    source:
      `${MODULE}import { isIP } from "node:net"; import { createHash } from "node:crypto"; import "./b.ts";`,
  },
])("gateway/imports allows $name", check);
