import { dirname, join, resolve } from "node:path";
import * as z from "@zod/zod";
import { ifThere } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import type { Given } from "../kit/command.ts";
import { hintMissingConfig, invalid, notFound, type Use } from "../kit/output.ts";
import { loadFile } from "../kit/signer_file.ts";
import {
  listDeploymentLogs,
  listExistingLogs,
  listLogSet,
  LOG_NAME,
  type NamedLog,
  setOption,
} from "./logs.ts";

const text = z.string().default("");
/** Accepts unknown and invalid keys: a mistake elsewhere in a config must not hide the records. */
const anyConfig = {
  what: "config",
  schema: z.looseObject({
    audit_log: text,
    hosts: z.record(z.string(), z.looseObject({ addr: text })).default({}),
    clusters: z.record(z.string(), z.looseObject({ api_server: text })).default({}),
  }),
};

/** The names of the services in the output by the files of their configs. */
const SERVICES = {
  "control-plane.json": "control-plane",
  "config.json": "broker",
  "mcp.json": "mcp",
} as const;

/**
 * Finds the audit logs of an installation and the addresses of its hosts, in the signer's config and the configs next to
 * it. Without `--config`, the signer's config may be missing: the machine of a broker has none.
 */
export async function loadInstallation(config: string | undefined, workingFolder: string) {
  const main = resolve(workingFolder, config ?? "signer.json");
  const found = new Map([[main, "signer"]]);
  for (const [name, service] of Object.entries(SERVICES)) {
    const path = join(dirname(main), name);
    if (await ifThere(Deno.stat(path)) !== undefined) found.set(path, service);
  }
  const isOptional = config === undefined && found.size > 1 && await ifThere(Deno.stat(main)) === undefined;
  if (isOptional) found.delete(main);
  const loaded = await Promise.all(
    [...found].map(async ([path, instance]) => ({
      instance,
      ...(await hintMissingConfig(() => loadFile(path, anyConfig))).config,
    })),
  );
  return {
    addresses: new Map(loaded.flatMap(({ hosts, clusters }) => [
      ...Object.entries(hosts).map(([name, { addr }]) => [name, addr] as const),
      ...Object.entries(clusters).map(([name, { api_server }]) => [name, api_server] as const),
    ])),
    async listLogs(): Promise<readonly NamedLog[]> {
      const named = loaded.filter(({ audit_log }) => audit_log !== "");
      const logs = await Promise.all(
        named.map(async ({ instance, audit_log }) =>
          (await listExistingLogs(resolve(workingFolder, audit_log))).map((path) => ({ path, instance }))
        ),
      );
      return [...new Map(logs.flat().map((log) => [log.path, log])).values()];
    },
  };
}

/** The options that choose logs. */
export const LOGS = {
  "--log <file>": "audit log (default: all logs of the installation)",
  "--set [directory]": setOption(
    "with --log: include logs of further processes; or directory with logs of all instances",
  ),
} as const;

type LogFlags = Given<typeof LOGS>;

/** The logs that the flags choose: by default those of the installation. `list` can be called again for later logs. */
export async function chooseLogs({ config, log, set }: LogFlags, workingFolder: string) {
  const folder = typeof set === "string" ? set : undefined;
  if (folder !== undefined && log !== undefined) {
    throw invalid("Cannot use --log with --set <directory>: pass one of them");
  }
  const isOfInstallation = folder === undefined && log === undefined;
  const installation = isOfInstallation || config !== undefined
    ? await loadInstallation(config, workingFolder)
    : undefined;
  const list = async (): Promise<readonly NamedLog[]> => {
    if (folder !== undefined) return await listDeploymentLogs(resolve(workingFolder, folder));
    if (log === undefined) return await installation?.listLogs() ?? [];
    const path = resolve(workingFolder, log);
    return (set === true ? await listLogSet(path) : [path]).map((path) => ({ path }));
  };
  return {
    list,
    hasInstances: log === undefined,
    addresses: installation?.addresses ?? new Map<string, string>(),
    /** @throws {AppError} `not_found` if there is no log */
    async listSome() {
      const logs = await list();
      if (logs.length > 0) return logs;
      throw notFound(
        folder === undefined
          ? "Cannot find an audit log of this installation: no service has written a record"
          : `Cannot read audit log ${quoteText(join(folder, "*", LOG_NAME))}: no such file`,
      );
    },
  };
}

/** The rights of a command with the options of {@linkcode chooseLogs}. */
export const usesInstallation = ({ config, log, set }: LogFlags): readonly Use[] =>
  config === undefined && (log !== undefined || typeof set === "string") ? [] : ["config"];
