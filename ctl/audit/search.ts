import { dirname, join, resolve } from "node:path";
import * as z from "@zod/zod";
import { ifThere } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import type { Given } from "../kit/command.ts";
import { invalid, notFound, type Use } from "../kit/output.ts";
import { loadFile } from "../kit/signer_file.ts";
import { createFilter, FILTERS } from "./filter.ts";
import { listDeploymentLogs, listExistingLogs, listLogSet, type NamedLog, setOption } from "./logs.ts";

const text = z.string().default("");
const targets = z.record(z.string(), z.looseObject({ addr: text, api_server: text })).default({});
/** Accepts any other key: a mistake elsewhere in a config must not hide the records. */
const anyConfig = {
  what: "config",
  schema: z.looseObject({ audit_log: text, audit_key: text, hosts: targets, clusters: targets }),
};

/** The names of the services in the output by the files of their configs. */
const SERVICES = { "control-plane.json": "control-plane", "config.json": "broker", "mcp.json": "mcp" };

/**
 * Loads the configs of an installation: the signer's and those next to it. Without `--config`, the signer's config may
 * be missing: the machine of a broker has none.
 */
async function loadConfigs(config: string | undefined, workingFolder: string) {
  const main = resolve(workingFolder, config ?? "signer.json");
  const exists = async (path: string) => await ifThere(Deno.stat(path)) !== undefined;
  const found = new Map([[main, "signer"]]);
  for (const [name, service] of Object.entries(SERVICES)) {
    const path = join(dirname(main), name);
    if (await exists(path)) found.set(path, service);
  }
  if (config === undefined && found.size > 1 && !await exists(main)) found.delete(main);
  return await Promise.all(
    [...found].map(async ([path, instance]) => {
      const { config } = await loadFile(path, anyConfig);
      const { audit_log, audit_key, hosts, clusters } = config;
      const names = Object.entries({ ...hosts, ...clusters }).map(([name, { addr, api_server }]) =>
        [name, addr || api_server || name] as const
      );
      return { instance, path: audit_log && resolve(workingFolder, audit_log), key: audit_key, names };
    }),
  );
}

/** The logs of an installation with the files of their keys, also logs that do not exist yet. */
export async function listInstalledLogs(config: string | undefined, workingFolder: string) {
  const configs = (await loadConfigs(config, workingFolder)).filter(({ path }) => path !== "");
  const logs = configs.map(async ({ path, ...rest }) =>
    (await listLogSet(path)).map((path) => ({ ...rest, path }))
  );
  return (await Promise.all(logs)).flat();
}

/** The options that choose logs and records. */
export const SEARCH = {
  "--log <file>": "audit log (default: all logs of the installation)",
  "--set [directory]": setOption("with --log: further processes too; or directory of all instances"),
  ...FILTERS,
} as const;

type SearchFlags = Given<typeof SEARCH>;

/** The rights of a search: it needs the configs for the logs, or for the names of hosts. */
export const usesConfig = ({ config, log, set }: SearchFlags): readonly Use[] =>
  config === undefined && (log !== undefined || typeof set === "string") ? [] : ["config"];

/** Chooses logs, by default those of the installation, and the records in them. */
export async function prepareSearch(flags: SearchFlags, workingFolder: string) {
  const { config, log, set } = flags;
  const folder = typeof set === "string" ? set : undefined;
  if (folder !== undefined && log !== undefined) {
    throw invalid("Cannot use --log with --set <directory>: pass one of them");
  }
  const configs = usesConfig(flags).length === 0 ? [] : await loadConfigs(config, workingFolder);
  const list = async (): Promise<readonly NamedLog[]> => {
    if (folder !== undefined) return await listDeploymentLogs(resolve(workingFolder, folder));
    if (log !== undefined) {
      const path = resolve(workingFolder, log);
      return (set === true ? await listLogSet(path) : [path]).map((path) => ({ path }));
    }
    const logs = new Map<string, string>();
    for (const { path, instance } of configs) {
      for (const each of path === "" ? [] : await listExistingLogs(path)) logs.set(each, instance);
    }
    return Array.from(logs, ([path, instance]) => ({ path, instance }));
  };
  return {
    matches: createFilter(flags, configs.flatMap(({ names }) => names)),
    hasInstances: log === undefined,
    /** The name of the first config: the signer's, or that of a broker in local mode. */
    main: configs[0]?.instance,
    /** Lists the logs; can be called again for later logs. */
    list,
    /** @throws {AppError} `not_found` if there is no log */
    async listSome() {
      const logs = await list();
      if (logs.length > 0) return logs;
      const where = folder === undefined ? "of this installation" : `in ${quoteText(folder)}`;
      throw notFound(`Cannot find an audit log ${where}`, undefined, "start a service, or pass --log <file>");
    },
  };
}
