import { basename, dirname, join, resolve } from "node:path";
import { brokerConfig } from "@gateway/broker/config";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { loadConfig } from "@gateway/shared/config/load";
import { ifThere } from "@gateway/shared/files";
import { signerConfig } from "@gateway/signer/config";
import * as z from "@zod/zod";
import { clientConfig } from "../client_config.ts";

/** What a set-up consists of; all paths are absolute. */
export interface SetUpSources {
  readonly configs: readonly string[];
  readonly auditLogs: readonly string[];
  /** SQLite files. */
  readonly states: readonly string[];
  /** Lists of callers whose certificates are not believed; no secrets. */
  readonly deniedCallers: readonly string[];
  /** Keys, certificates and tokens. */
  readonly keys: readonly string[];
  /** What the configs name and is not there, or can't be copied from here. */
  readonly leftOut: readonly string[];
}

const identityMap = z.record(z.string(), z.string());

/** The configs of a set-up by the names that `init` and the packages give them. */
const LOADERS: Readonly<Record<string, (path: string) => Promise<object>>> = {
  "signer.json": (path) => loadConfig({ path, what: "signer config", schema: signerConfig }),
  "control-plane.json": (path) =>
    loadConfig({ path, what: "control plane config", schema: controlPlaneConfig }),
  "config.json": (path) => loadConfig({ path, what: "broker config", schema: brokerConfig }),
  "mcp.json": (path) => loadConfig({ path, what: "broker config", schema: brokerConfig }),
  "mcp-http.json": (path) => loadConfig({ path, what: "broker config", schema: brokerConfig }),
  "broker-ctl.json": (path) => loadConfig({ path, what: "client config", schema: clientConfig }),
  "approval-bridge.json": (path) => loadConfig({ path, what: "identity map", schema: identityMap }),
};

const FILE_KEY = /(?:^|_)(?:cert|key|ca|file|path)$/;
const KEY_FOLDER = "pki";
/** Variables of the services' units, a chat's tokens among them. */
const VARIABLES = /^[a-z][a-z-]*\.env$/;

/**
 * Looks at the configs in a folder, and at what they name. Relative paths are those from this folder.
 *
 * @throws {AppError} `invalid_config` for a config that is broken: what it names can't be told
 */
export async function findSources(folder: string): Promise<SetUpSources> {
  const configs: string[] = [];
  const auditLogs: string[] = [];
  const states: string[] = [];
  const deniedCallers: string[] = [];
  const keys: string[] = [];
  const leftOut: string[] = [];
  for (const [name, load] of Object.entries(LOADERS)) {
    const path = join(folder, name);
    if (await ifThere(Deno.stat(path)) === undefined) continue;
    const config = await load(path);
    configs.push(path);
    for (const [key, value] of stringsOf(config)) {
      const named = resolve(folder, value);
      if (value === "") continue;
      if (key === "audit_log") auditLogs.push(named);
      else if (key === "state_db" && /^postgres(?:ql)?:/.test(value)) {
        leftOut.push(`state of ${name}: it is in PostgreSQL`);
      } else if (key === "state_db") states.push(named);
      else if (key === "denied_callers" || FILE_KEY.test(key)) {
        if (await isFile(named)) (key === "denied_callers" ? deniedCallers : keys).push(named);
        else if (isPath(value)) leftOut.push(`${key} of ${name}: ${named} is not there`);
      }
    }
  }
  keys.push(...await filesIn(join(folder, KEY_FOLDER)));
  keys.push(...(await filesIn(folder)).filter((path) => VARIABLES.test(basename(path))));
  const once = (paths: readonly string[]) => [...new Set(paths)].sort();
  return {
    configs,
    auditLogs: once(auditLogs),
    states: once(states),
    deniedCallers: once(deniedCallers),
    keys: once(keys.filter((path) => !deniedCallers.includes(path))),
    leftOut: once(leftOut),
  };
}

/** Every text of a config with its key. */
function stringsOf(value: unknown, key = ""): readonly (readonly [key: string, value: string])[] {
  if (typeof value === "string") return [[key, value]];
  if (typeof value !== "object" || value === null) return [];
  // The broker creates its sockets when it starts.
  return Object.entries(value).filter(([name]) => name !== "sockets").flatMap(([name, member]) =>
    stringsOf(member, Array.isArray(value) ? key : name)
  );
}

/** A key that stands in the config itself is none; nor is the name of a key elsewhere. */
function isPath(text: string): boolean {
  return text.includes("/") && !/\s|:\/\//.test(text);
}

async function isFile(path: string): Promise<boolean> {
  return (await ifThere(Deno.stat(path)))?.isFile === true;
}

async function filesIn(folder: string): Promise<readonly string[]> {
  const entries = await ifThere(Array.fromAsync(Deno.readDir(folder))) ?? [];
  return entries.filter(({ isFile }) => isFile).map(({ name }) => join(folder, name));
}

/** The folder and name of a path, for messages. */
export function shortName(path: string): string {
  return join(basename(dirname(path)), basename(path));
}
