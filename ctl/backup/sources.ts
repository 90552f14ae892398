import { basename, dirname, join, resolve } from "node:path";
import { brokerConfig } from "@gateway/broker/config";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { loadConfig } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { signerConfig } from "@gateway/signer/config";
import * as z from "@zod/zod";
import { clientConfig } from "../kit/client_config.ts";

/** What a set-up consists of; all paths are absolute. */
export interface SetUpSources {
  readonly configs: readonly string[];
  readonly auditLogs: readonly string[];
  readonly states: readonly string[];
  /** Lists of callers whose certificates are not believed; no secrets. */
  readonly deniedCallers: readonly string[];
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
  const others: { readonly key: string; readonly name: string; readonly path: string }[] = [];
  for (const [name, load] of Object.entries(LOADERS)) {
    const path = join(folder, name);
    if (await ifThere(Deno.stat(path)) === undefined) continue;
    configs.push(path);
    for (const [key, value] of stringsOf(await load(path))) {
      const named = resolve(folder, value);
      if (value === "") continue;
      if (key === "audit_log") auditLogs.push(named);
      else if (key === "state_db" && /^postgres(?:ql)?:/.test(value)) {
        leftOut.push(`state of ${name}: it is in PostgreSQL`);
      } else if (key === "state_db") states.push(named);
      else if (key === "denied_callers" || FILE_KEY.test(key)) {
        if (await isFile(named)) others.push({ key, name, path: named });
        else if (isPath(value)) leftOut.push(`${key} of ${name}: ${named} is not there`);
      }
    }
  }
  const isRestorable = createIsRestorable(folder, [...states, ...auditLogs]);
  for (const { key, name, path } of others) {
    if (isRestorable(path)) (key === "denied_callers" ? deniedCallers : keys).push(path);
    else leftOut.push(`${key} of ${name}: ${path} is outside ${folder}, so copy it yourself`);
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

/**
 * Finds the paths to which a restore may write: below the installation, and below the directories of the state files
 * and audit logs that its configs name. A config itself may also be at the end of a symbolic link, under its own name.
 *
 * @param configs where each config was, and the file that holds its content now
 * @throws {AppError} `invalid_config` for a config that is unknown or broken
 */
export async function findRestorable(
  installation: string,
  configs: readonly { readonly path: string; readonly from: string }[],
): Promise<(path: string) => boolean> {
  const named: string[] = [];
  for (const { path, from } of configs) {
    const load = LOADERS[basename(path)];
    if (load === undefined) {
      throw new AppError(
        "invalid_config",
        `Cannot restore ${quoteText(path)}: it is no config of an installation`,
      );
    }
    for (const [key, value] of stringsOf(await load(from))) {
      const isLocal = key === "audit_log" || key === "state_db" && !/^postgres(?:ql)?:/.test(value);
      if (isLocal && value !== "") named.push(resolve(installation, value));
    }
  }
  return createIsRestorable(installation, named);
}

function createIsRestorable(installation: string, dataFiles: readonly string[]): (path: string) => boolean {
  const roots = [installation, ...dataFiles.map((path) => dirname(path))];
  return (path) => roots.some((root) => path.startsWith(root.endsWith("/") ? root : `${root}/`));
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
