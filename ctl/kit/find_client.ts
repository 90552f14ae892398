import { dirname, join, resolve } from "node:path";
import { loadConfig } from "@gateway/shared/config";
import { signerConfig } from "@gateway/signer/config";
import { AppError } from "@gateway/shared/errors";
import { quoteText, visibleText } from "@gateway/shared/text";
import { parseListenAddress } from "@gateway/shared/http";
import {
  CLIENT_ENV_NAMES,
  type ClientConfig,
  clientConfig,
  type ClientParameters,
  type ClientSection,
  type ClientService,
  type ClientSources,
  DEFAULTS,
  findUnknownKeys,
  FOREIGN_PAIRS,
  resolveClient,
} from "./client_config.ts";
import type { Environment } from "./context.ts";

/** The environment variables that decide where the client config is looked for, and what it says. */
export const ENV_NAMES: readonly string[] = [
  "BROKER_CTL_CONFIG",
  "HOME",
  "XDG_CONFIG_HOME",
  ...CLIENT_ENV_NAMES,
];

/** Where the client config may be: the first that is there is the one; nothing is merged. */
export interface ClientConfigPlace {
  readonly path: string;
  /** Somebody named it, so that its absence is an error. */
  readonly named: boolean;
}

/** What every remote command is given. */
export interface RemoteFlags extends ClientSection {
  readonly config?: string;
  readonly clientConfig?: string;
}

/**
 * The places of the client config, in order of preference. The working folder is not among them: a file that
 * somebody left there must not decide whom the operator's key speaks to.
 */
export function clientConfigPlaces(
  flag: string | undefined,
  { workingFolder, variables }: Pick<Environment, "workingFolder" | "variables">,
): readonly ClientConfigPlace[] {
  const named = flag ?? (variables["BROKER_CTL_CONFIG"] || undefined);
  if (named !== undefined) return [{ path: resolve(workingFolder, named), named: true }];
  const home = variables["XDG_CONFIG_HOME"] || (variables["HOME"] && join(variables["HOME"], ".config"));
  return [
    ...(home ? [{ path: join(home, "broker-ctl", "config.json"), named: false }] : []),
    { path: "/etc/gateway/broker-ctl.json", named: false },
  ];
}

/**
 * How to reach a service, from flags, environment, client config and defaults.
 *
 * @throws {AppError} `invalid_config` when a client config is broken, or was named and is not there
 */
export async function findClient(
  service: ClientService,
  flags: RemoteFlags,
  environment: Environment,
): Promise<ClientParameters> {
  const { workingFolder, variables } = environment;
  const file = await loadFirst(clientConfigPlaces(flags.clientConfig, environment));
  if (file !== undefined) warnOfUnknown(file, environment);
  const folder = file?.folder ?? workingFolder;
  const defaultPair = await hasForeignPair(service, folder) ? FOREIGN_PAIRS[service] : undefined;
  const sources: ClientSources = {
    flags,
    env: variables,
    ...(file !== undefined && { file }),
    ...(defaultPair !== undefined && { defaultPair }),
    workingFolder,
    defaultUrl: "127.0.0.1:7443",
  };
  if (service === "control_plane") return resolveClient(service, sources);
  const url = flags.url ?? variables["BROKER_CTL_SIGNER_URL"] ?? "";
  if (url !== "" || file?.config.signer?.url) return resolveClient(service, sources);
  return resolveClient(service, { ...sources, defaultUrl: await signerUrl(flags.config, workingFolder) });
}

/** A config of another build, or of a newer one, serves; what is misspelt in it must not be missed. */
function warnOfUnknown({ path, config }: LoadedClientConfig, { terminal }: Environment): void {
  const unknown = findUnknownKeys(config);
  if (unknown.length === 0) return;
  const keys = unknown.map((key) => quoteText(key)).join(", ");
  terminal.err(`${visibleText(`warning: client config ${quoteText(path)}: ${keys} unknown, and ignored`)}\n`);
}

/** Only where there is none of ours: never instead of it. */
async function hasForeignPair(service: ClientService, folder: string): Promise<boolean> {
  return !await exists(join(folder, DEFAULTS[service].cert)) &&
    await exists(join(folder, FOREIGN_PAIRS[service].cert));
}

/** A client config, and where it was found. */
interface LoadedClientConfig {
  readonly path: string;
  readonly config: ClientConfig;
  readonly folder: string;
}

async function loadFirst(places: readonly ClientConfigPlace[]): Promise<LoadedClientConfig | undefined> {
  for (const { path, named } of places) {
    if (!named && !await exists(path)) continue;
    const config = await loadConfig({ path, what: "client config", schema: clientConfig });
    return { path, config, folder: dirname(path) };
  }
  return undefined;
}

/** The address in the signer's own config, as seen from this machine; the default port without that config. */
async function signerUrl(configPath: string | undefined, workingFolder: string): Promise<string> {
  const path = resolve(workingFolder, configPath ?? "signer.json");
  if (configPath === undefined && !await exists(path)) return "127.0.0.1:9443";
  const { listen } = await loadConfig({ path, what: "signer config", schema: signerConfig });
  const { hostname, port } = parseListenAddress(listen);
  if (hostname === "0.0.0.0") return `127.0.0.1:${port}`;
  if (hostname === "::") return `[::1]:${port}`;
  return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
}

/** Only a file that is not there is passed over: one that can't be read is an error, when it is loaded. */
async function exists(path: string): Promise<boolean> {
  try {
    await Deno.stat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    if (error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.NotADirectory) {
      return true;
    }
    throw new AppError("invalid_config", `Cannot look for ${JSON.stringify(path)}`, { cause: error });
  }
}
