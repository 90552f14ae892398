import { basename, dirname, join, resolve } from "node:path";
import { type ConfigKind, loadConfig } from "@gateway/shared/config";
import { ifThere } from "@gateway/shared/files";
import { isPostgresUrl } from "@gateway/shared/state";
import { quoteText } from "@gateway/shared/text";
import * as z from "@zod/zod";
import { CONFIG_KINDS } from "../kit/config_kinds.ts";
import { badConfig } from "../kit/output.ts";

export type SetUpSources = Awaited<ReturnType<typeof findSources>>;

const { signer, controlPlane, broker, client } = CONFIG_KINDS;

/** The configs of an installation by the names that `init` and the packages give them. */
const KINDS: Readonly<Record<string, ConfigKind<object>>> = {
  "signer.json": signer,
  "control-plane.json": controlPlane,
  "config.json": broker,
  "mcp.json": broker,
  "mcp-http.json": broker,
  "broker-ctl.json": client,
  "approval-bridge.json": { what: "identity map", schema: z.record(z.string(), z.string()) },
};

const FILE_KEY = /(?:^|_)(?:cert|key|ca|file|path)$/;
/** Variables of the services' units, a chat's tokens among them. */
const VARIABLES = /^[a-z][a-z-]*\.env$/;

/** Finds the files that the configs in a directory name. Relative paths are relative to this directory. */
export async function findSources(folder: string) {
  const found = {
    configs: [] as string[],
    auditLogs: [] as string[],
    states: [] as string[],
    deniedCallers: [] as string[],
    keys: [] as string[],
    /** What the configs name and is not there, or can't be copied from here. */
    leftOut: [] as string[],
  };
  const others: { readonly key: string; readonly name: string; readonly path: string }[] = [];
  for (const [name, kind] of Object.entries(KINDS)) {
    const path = join(folder, name);
    if (await ifThere(Deno.stat(path)) === undefined) continue;
    found.configs.push(path);
    for (const [key, value] of stringsOf(await loadConfig({ path, ...kind }))) {
      const named = resolve(folder, value);
      if (value === "") continue;
      if (key === "audit_log") found.auditLogs.push(named);
      else if (key === "state_db" && isPostgresUrl(value)) {
        found.leftOut.push(`state of ${name}: it is in PostgreSQL`);
      } else if (key === "state_db") found.states.push(named);
      else if (key === "denied_callers" || FILE_KEY.test(key)) {
        if ((await ifThere(Deno.stat(named)))?.isFile === true) others.push({ key, name, path: named });
        else if (isPath(value)) found.leftOut.push(`${key} of ${name}: ${named} is not there`);
      }
    }
  }
  const isRestorable = createIsRestorable(folder, [...found.states, ...found.auditLogs]);
  for (const { key, name, path } of others) {
    if (!isRestorable(path)) {
      found.leftOut.push(`${key} of ${name}: ${path} is outside ${folder}, so copy it yourself`);
    } else if (key === "denied_callers") found.deniedCallers.push(path);
    else found.keys.push(path);
  }
  found.keys.push(...await filesIn(join(folder, "pki")));
  found.keys.push(...(await filesIn(folder)).filter((path) => VARIABLES.test(basename(path))));
  const once = (paths: readonly string[]) => [...new Set(paths)].sort();
  return {
    configs: found.configs,
    auditLogs: once(found.auditLogs),
    states: once(found.states),
    deniedCallers: once(found.deniedCallers),
    keys: once(found.keys.filter((path) => !found.deniedCallers.includes(path))),
    leftOut: once(found.leftOut),
  };
}

/**
 * Finds the paths to which a restore may write: below the installation, and below the directories of the state files
 * and audit logs that its configs name. A config itself may also be at the end of a symbolic link, under its own name.
 *
 * @param configs the former place of each config, and the file that holds its content now
 */
export async function findRestorable(
  installation: string,
  configs: readonly { readonly path: string; readonly from: string }[],
): Promise<(path: string) => boolean> {
  const named: string[] = [];
  for (const { path, from } of configs) {
    const kind = KINDS[basename(path)];
    if (kind === undefined) {
      throw badConfig(`Cannot restore ${quoteText(path)}: it is no config of an installation`);
    }
    for (const [key, value] of stringsOf(await loadConfig({ path: from, ...kind }))) {
      const isLocal = key === "audit_log" || key === "state_db" && !isPostgresUrl(value);
      if (isLocal && value !== "") named.push(resolve(installation, value));
    }
  }
  return createIsRestorable(installation, named);
}

function createIsRestorable(installation: string, dataFiles: readonly string[]): (path: string) => boolean {
  const roots = [installation, ...dataFiles.map((path) => dirname(path))];
  return (path) => roots.some((root) => path.startsWith(root.endsWith("/") ? root : `${root}/`));
}

function stringsOf(value: unknown, key = ""): readonly (readonly [key: string, value: string])[] {
  if (typeof value === "string") return [[key, value]];
  if (typeof value !== "object" || value === null) return [];
  // The broker creates its sockets when it starts.
  return Object.entries(value).filter(([name]) => name !== "sockets").flatMap(([name, member]) =>
    stringsOf(member, Array.isArray(value) ? key : name)
  );
}

/** A value can also be the key itself, or the name of a key in a vault. */
function isPath(text: string): boolean {
  return text.includes("/") && !/\s|:\/\//.test(text);
}

async function filesIn(folder: string): Promise<readonly string[]> {
  const entries = await ifThere(Array.fromAsync(Deno.readDir(folder))) ?? [];
  return entries.filter(({ isFile }) => isFile).map(({ name }) => join(folder, name));
}
