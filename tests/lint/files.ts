import broker from "../../broker/deno.json" with { type: "json" };
import control_plane from "../../control_plane/deno.json" with { type: "json" };
import ctl from "../../ctl/deno.json" with { type: "json" };
import debate from "../../debate/deno.json" with { type: "json" };
import shared from "../../shared/deno.json" with { type: "json" };
import shim from "../../shim/deno.json" with { type: "json" };
import signer from "../../signer/deno.json" with { type: "json" };

const EXPORTS: Readonly<Record<string, Readonly<Record<string, string>>>> = Object.fromEntries(
  Object.entries({ broker, control_plane, ctl, debate, shared, shim, signer })
    .map(([member, { exports }]) => [member, typeof exports === "string" ? { ".": exports } : exports]),
);

/** The root directory of the workspace, with a slash at its end. */
export const ROOT = new URL("../../", import.meta.url).pathname;

/** The directories of the workspace with code. */
export const MEMBERS = [
  "signer",
  "control_plane",
  "broker",
  "shim",
  "ctl",
  "debate",
  "deploy",
  "shared",
  "tests",
] as const;

/** A member of the workspace, or `deploy`. */
export type Member = (typeof MEMBERS)[number];

/**
 * The topics of `shared`, each with the topics that it may build on. Files next to these directories may be used by
 * all topics and use only each other.
 */
const SHARED_TOPICS: Readonly<Record<string, readonly string[]>> = {
  wire: [],
  ssh: [],
  redact: [],
  files: [],
  ui: [],
  service: ["files", "wire"],
  config: ["files"],
  state: ["files"],
  instances: ["state", "service"],
  oidc: ["files"],
  http: ["files", "service"],
  audit: ["redact", "files", "service"],
  envelope: ["ssh"],
  proofs: ["wire", "ssh", "policy"],
  // The policy pins host keys, so it rejects unreadable ones.
  policy: ["wire", "ssh", "envelope"],
  ca: ["ssh", "policy", "files"],
  permissions: ["ca", "http", "state", "files"],
  daemon: ["audit", "files", "http", "instances", "service", "state"],
  kubernetes: ["http", "wire", "policy", "files", "service"],
};

/** The members that work with the services' contracts: they read and write configs, and start processes. */
const CONTRACTS: Readonly<Record<string, RegExp>> = {
  // `host install-shim` sends the text of the shim.
  ctl: /^@gateway\/(?:(?:signer|control-plane|broker)\/(?:config|permissions)|shim\/texts)$/,
  deploy: /^@gateway\/(?:signer|control-plane|broker|debate)\/(?:config|permissions)$/,
};

/** Modules of members that a program in deploy combines. */
const PROGRAMS: Readonly<Record<string, readonly string[]>> = {
  "deploy/gateway.ts": ["../broker/main.ts", "../ctl/program.ts"],
};

/** The topics of `shared` that the debate may use. It must not use those of the access broker. */
const DEBATE_TOPICS = [
  "clock",
  "config",
  "errors",
  "files",
  "http",
  "json",
  "redact",
  "service",
  "testing",
  "text",
  "ui",
];

/** Returns a path relative to the workspace, or `undefined` for a file outside. */
export function relativePath(fileName: string): string | undefined {
  const path = fileName.replace(/^file:\/\//, "");
  if (path.startsWith(ROOT)) return path.slice(ROOT.length);
  return path.startsWith("/") ? undefined : path;
}

/** Returns the member of a path. */
export function memberOf(path: string): Member | undefined {
  return MEMBERS.find((member) => path.startsWith(`${member}/`));
}

/** True if a path is a test, a benchmark, or a helper of one. */
export function isTest(path: string): boolean {
  return path.startsWith("tests/") || path.includes("/testing/") || /_(?:test|bench)\.tsx?$/.test(path);
}

/** True if a file of `shared` may import another one: of the same topic, or of a topic below. */
export function mayBuildOn(from: string, target: string): boolean {
  const [own, other] = [topicOf(from), topicOf(target)];
  return isTest(from) || own === other || other === "" || SHARED_TOPICS[own]?.includes(other) === true;
}

/** Returns the topic of a file in `shared`; empty for a file outside of the topics. */
function topicOf(path: string): string {
  const [, topic = "", ...rest] = path.split("/");
  return rest.length === 0 ? "" : topic;
}

/** True if a file may import this contract of another member: `@gateway/signer/config`, or its permissions. */
export function isContract(specifier: string, from: string): boolean {
  return PROGRAMS[from]?.includes(specifier) === true ||
    CONTRACTS[memberOf(from) ?? ""]?.test(specifier) === true;
}

/** True if the debate may use a file of `shared`. */
export function isForDebate(path: string): boolean {
  return DEBATE_TOPICS.some((topic) => path.startsWith(`shared/${topic}/`) || path === `shared/${topic}.ts`);
}

/** Returns the file of an import, relative to the workspace; `undefined` for a package or a platform module. */
export function resolveImport(specifier: string, from: string): string | undefined {
  const workspace = /^@gateway\/([^/]+)(?:\/(.*))?$/.exec(specifier);
  if (workspace !== null) {
    const [, name = "", path] = workspace;
    const member = name.replaceAll("-", "_");
    const door = path === undefined ? "." : `./${path}`;
    return `${member}/${(EXPORTS[member]?.[door] ?? `${door}.ts`).slice(2)}`;
  }
  if (!specifier.startsWith(".")) return undefined;
  return new URL(specifier, `file:///${from}`).pathname.slice(1);
}
