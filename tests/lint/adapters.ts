import { isTest } from "./files.ts";

/**
 * Places that may read, write, connect and start programs. Every other file is pure: its output depends only on its
 * input, and it has no side effects.
 */
const IO_PLACES: readonly string[] = [
  "broker/authority/",
  "broker/frontends/",
  "broker/kubernetes/",
  "broker/sessions/",
  "broker/ssh/",
  "control_plane/notify/",
  "control_plane/state/",
  "ctl/",
  "debate/cli/",
  "debate/context/",
  "debate/lab/",
  "debate/models/",
  "debate/prompts/",
  "debate/runs/",
  "debate/tools/",
  "debate/web/",
  "deploy/",
  "docs/.vitepress/",
  "shared/audit/",
  "shared/ca/",
  "shared/clock.ts",
  "shared/config/",
  "shared/daemon/",
  "shared/files/",
  "shared/http/",
  "shared/instances/",
  "shared/kubernetes/",
  "shared/oidc/",
  "shared/service/",
  "shared/state/",
  "shim/",
  "signer/config/snapshot.ts",
  "signer/live/state/",
];

/** Files that wire a member to a program. */
const JOINTS = /^\w+\/(?:web\/)?(?:main|app|start|serve(?:_\w+)?)\.ts$/;

/** Files that may use clock, randomness, environment and exit, in addition to every `main.ts`. */
const AMBIENT: readonly string[] = [
  "broker/connect.ts",
  "ctl/bridge/main.ts",
  "ctl/bridge/start.ts",
  "ctl/start.ts",
  "debate/start.ts",
  "deploy/compile.ts",
  "deploy/gateway.ts",
  "deploy/release.ts",
  "shared/clock.ts",
  "shared/daemon/mod.ts",
  "shared/http/listener.ts",
  "shared/service/mod.ts",
];

/** Scripts for browsers. */
export const PAGES = ["debate/web/page/", "control_plane/pages/browser/"];

/** Files that may set timers, in addition to tests. */
const TIMING = ["shared/clock.ts", ...PAGES];

/** Packages and platform modules without I/O: all of their names, or some. */
const HARMLESS: Readonly<Record<string, readonly string[] | "all" | "no chance">> = {
  "node:assert/strict": "all",
  "node:buffer": "all",
  "node:crypto": "no chance",
  "node:events": "all",
  "node:net": ["BlockList", "isIP", "isIPv4", "isIPv6"],
  "node:path": "all",
  "node:stream": "all",
  "node:url": "all",
  "node:util": "all",
  "@fastify/busboy": "all",
  "@hono/hono": "all",
  "@logtape/logtape": "all",
  "@modelcontextprotocol/server": "all",
  "@panva/jose": ["compactVerify", "createLocalJWKSet", "errors"],
  "@peculiar/x509": "all",
  "@zod/zod": "all",
  "commander": "all",
  "ipaddr.js": "all",
  "jsonc-parser": "all",
  "preact": "all",
  "preact-render-to-string": "all",
  "preact/hooks": "all",
  "prom-client": "all",
  "prom-client/lib/counter.js": "all",
  "prom-client/lib/gauge.js": "all",
  "prom-client/lib/registry.js": "all",
  "markdown-it": "all",
  "re2js": "all",
  "sshpk": "all",
  "unbash": "all",
  "yaml": "all",
};

/** Exports of `shared` that a pure file must not import, because it receives them as parameters. */
const AMBIENT_NAMES: readonly string[] = ["systemClock", "systemRandom"];
const IO_DOORS: readonly string[] = ["shared/files/mod.ts"];

/** True if a pure file may import these names through a door of `shared`. */
export function isHarmlessDoor(door: string, names: readonly string[]): boolean {
  return !IO_DOORS.includes(door) && !names.some((name) => AMBIENT_NAMES.includes(name));
}

const CHANCE = /^(?:random|generateKey|webcrypto)/;

export function isPure(path: string): boolean {
  return !isTest(path) && !isAmbient(path) && !JOINTS.test(path) &&
    !path.includes("/io/") && !IO_PLACES.some((place) => path.startsWith(place));
}

/** True if a file may use clock, randomness, environment and exit. */
export function isAmbient(path: string): boolean {
  return isTest(path) || AMBIENT.includes(path) || PAGES.some((page) => path.startsWith(page)) ||
    /(?:^|\/)main\.ts$/.test(path);
}

/** True if a file may wait by the clock of the machine. */
export function mayTime(path: string): boolean {
  return isTest(path) || TIMING.some((entry) => path.startsWith(entry));
}

/** True if a pure file may import these names of a module. No names mean the whole module. */
export function isHarmless(module: string, names: readonly string[]): boolean {
  if (module.startsWith("lucide/")) return true;
  const harmless = HARMLESS[module] ?? [];
  if (harmless === "all") return true;
  return names.length > 0 &&
    names.every((name) => harmless === "no chance" ? !CHANCE.test(name) : harmless.includes(name));
}
