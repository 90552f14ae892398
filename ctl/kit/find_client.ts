import { dirname, join, resolve } from "node:path";
import { loadConfig } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { quoteText, visibleText } from "@gateway/shared/text";
import { signerConfig } from "@gateway/signer/config";
import { reachable } from "./addresses.ts";
import {
  CLIENT_ENV_NAMES,
  clientConfig,
  type ClientParameters,
  type ClientSection,
  type ClientService,
  findUnknownKeys,
  resolveClient,
  SERVICES,
} from "./client_config.ts";
import type { Environment } from "./context.ts";

/** The environment variables that find the client config, and that replace its values. */
export const ENV_NAMES: readonly string[] = [
  "BROKER_CTL_CONFIG",
  "HOME",
  "XDG_CONFIG_HOME",
  ...CLIENT_ENV_NAMES,
];

/** The flags of every command that asks a service. */
export interface RemoteFlags extends ClientSection {
  readonly config?: string;
  readonly clientConfig?: string;
}

/**
 * The places of the client config, in order of preference; the first file counts, and it has to exist if it was named.
 * The working directory is no place: a file that an attacker left there must not decide whom the operator's key talks to.
 */
export function clientConfigPlaces(
  flag: string | undefined,
  { workingFolder, variables }: Pick<Environment, "workingFolder" | "variables">,
): readonly { readonly path: string; readonly named: boolean }[] {
  const named = flag ?? (variables["BROKER_CTL_CONFIG"] || undefined);
  if (named !== undefined) return [{ path: resolve(workingFolder, named), named: true }];
  const home = variables["XDG_CONFIG_HOME"] || (variables["HOME"] && join(variables["HOME"], ".config"));
  return [
    ...(home ? [{ path: join(home, "broker-ctl", "config.json"), named: false }] : []),
    { path: "/etc/gateway/broker-ctl.json", named: false },
  ];
}

/** The parameters of a service, from flags, environment, client config and defaults. */
export async function findClient(
  service: ClientService,
  flags: RemoteFlags,
  environment: Environment,
): Promise<ClientParameters> {
  const { workingFolder, variables: env } = environment;
  const file = await loadFirst(flags.clientConfig, environment);
  const folder = file?.folder ?? workingFolder;
  const { files, foreign } = SERVICES[service];
  // The files of another build serve only if our own files do not exist.
  const isForeign = !await exists(join(folder, files.cert)) && await exists(join(folder, foreign.cert));
  const defaultPair = isForeign ? foreign : undefined;
  const isNamed = flags.url || env["BROKER_CTL_SIGNER_URL"] || file?.config.signer?.url;
  const defaultUrl = service === "control_plane" || isNamed
    ? "127.0.0.1:7443"
    : await signerUrl(flags.config, workingFolder);
  return resolveClient(service, { flags, env, file, defaultPair, workingFolder, defaultUrl });
}

async function loadFirst(flag: string | undefined, environment: Environment) {
  for (const { path, named } of clientConfigPlaces(flag, environment)) {
    if (!named && !await exists(path)) continue;
    const config = await loadConfig({ path, what: "client config", schema: clientConfig });
    const unknown = findUnknownKeys(config).map((key) => quoteText(key)).join(", ");
    // The config of another or newer build is accepted, but a misspelled key must be seen.
    const warning = `warning: client config ${quoteText(path)}: ${unknown} unknown, and ignored`;
    if (unknown !== "") environment.terminal.err(`${visibleText(warning)}\n`);
    return { config, folder: dirname(path) };
  }
  return undefined;
}

/** The address in the signer's own config, as seen from this machine; the default port without that config. */
async function signerUrl(configPath: string | undefined, workingFolder: string): Promise<string> {
  const path = resolve(workingFolder, configPath ?? "signer.json");
  if (configPath === undefined && !await exists(path)) return "127.0.0.1:9443";
  return reachable((await loadConfig({ path, what: "signer config", schema: signerConfig })).listen);
}

/** A file that can't be read exists: loading it reports the error. */
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
