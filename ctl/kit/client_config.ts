/**
 * `broker-ctl.json`: the address of each service and the operator's certificate. For each parameter a flag precedes the
 * environment, the environment precedes the file, and the file precedes the default.
 *
 * @module
 */
import * as z from "@zod/zod";
import { dirname, join, resolve } from "node:path";
import { type Environment, invalid } from "./output.ts";
import { loadConfig } from "@gateway/shared/config";
import { ifThere } from "@gateway/shared/files";
import { quoteText, visibleText } from "@gateway/shared/text";
import { signerConfig } from "@gateway/signer/config";
import { reachable } from "./values.ts";

/** A service that `broker-ctl` connects to. */
export type ClientService = "signer" | "control_plane";

/** The parameters of a connection; `url` is an `https:` URL. */
export type ClientParameters = Readonly<Record<"url" | "cert" | "key" | "ca", string>>;

/** The parameters in a file or in flags; an absent key has a default. */
type ClientSection = Partial<ClientParameters>;

type ClientConfig = { readonly [S in ClientService]?: ClientSection };

const section = z.looseObject({
  url: z.string().exactOptional().describe("host:port or https:// URL of the service"),
  cert: z.string().exactOptional().describe("PEM file, the operator's certificate; relative to this file"),
  key: z.string().exactOptional().describe("PEM file, the operator's private key; relative to this file"),
  ca: z.string().exactOptional().describe(
    "PEM file, the CA that signed the service's certificate; relative to this file",
  ),
});

const sections = {
  signer: section.exactOptional().describe("the signer"),
  control_plane: section.exactOptional().describe("the control plane"),
};

/** Checks a {@linkcode ClientConfig}; unknown keys stay in it: see {@linkcode findUnknownKeys}. */
export const clientConfig: z.ZodType<ClientConfig> = z.looseObject(sections);

/** The unknown keys of a client config: keys of another program, or misspelled keys. */
export function findUnknownKeys(config: ClientConfig): readonly string[] {
  return Object.entries(config).flatMap(([name, values]) =>
    Object.hasOwn(sections, name)
      ? Object.keys(values ?? {}).filter((key) => !Object.hasOwn(section.shape, key)).map((key) =>
        `${name}.${key}`
      )
      : [name]
  );
}

/**
 * The services: their names in messages, the lists that must name the CN of the certificate, the prefixes of their
 * environment variables, the default files, and the files of another build.
 */
export const SERVICES = {
  signer: {
    name: "signer",
    role: "reload_callers of the signer's config",
    prefix: "BROKER_CTL_SIGNER_",
    files: { cert: "pki/operator.crt", key: "pki/operator.key", ca: "pki/mtls_ca.crt" },
    foreign: { cert: "pki/broker.crt", key: "pki/broker.key" },
  },
  control_plane: {
    name: "control plane",
    role: "approval.callers of the control plane's config",
    prefix: "BROKER_CTL_CP_",
    files: { cert: "pki/approver.crt", key: "pki/approver.key", ca: "pki/mtls_ca.crt" },
    foreign: { cert: "pki/broker-admin.crt", key: "pki/broker-admin.key" },
  },
} as const satisfies Record<ClientService, object>;

/** The environment variables that {@linkcode resolveClient} reads. */
export const CLIENT_ENV_NAMES: readonly string[] = Object.values(SERVICES)
  .flatMap(({ prefix }) => ["URL", "CERT", "KEY", "CA"].map((name) => prefix + name));

export interface ClientSources {
  readonly flags: ClientSection;
  /** The environment; an empty variable counts as unset. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The client config, and its directory. */
  readonly file?: { readonly config: ClientConfig; readonly folder: string } | undefined;
  /** The directory of the default files if there is no client config; absolute. */
  readonly workingFolder: string;
  /** Replaces the default files. */
  readonly defaultPair?: Pick<ClientParameters, "cert" | "key"> | undefined;
  readonly defaultUrl: string;
}

/**
 * Resolves each parameter. Paths of the file are relative to the file, and so are the defaults if there is a file. The
 * working directory does not count then: an attacker may have left a certificate there.
 */
export function resolveClient(
  service: ClientService,
  { flags, env, file, workingFolder, defaultPair, defaultUrl }: ClientSources,
): ClientParameters {
  const { prefix, files } = SERVICES[service];
  const given = file?.config[service];
  const outer = (name: keyof ClientSection) => flags[name] ?? (env[prefix + name.toUpperCase()] || undefined);
  const path = (name: "cert" | "key" | "ca") =>
    outer(name) ??
      resolve(file?.folder ?? workingFolder, given?.[name] || { ...files, ...defaultPair }[name]);
  const url = parseServiceUrl(outer("url") ?? (given?.url || defaultUrl));
  return { url, cert: path("cert"), key: path("key"), ca: path("ca") };
}

/** A service's base URL; `https://` is put before a bare `host:port`. */
function parseServiceUrl(text: string): string {
  const url = URL.parse(text.includes("://") ? text : `https://${text}`);
  if (
    url === null || url.protocol !== "https:" || url.username !== "" || url.search !== "" || url.hash !== ""
  ) {
    throw invalid(`Cannot use URL ${JSON.stringify(text)}: expected host:port or https://host:port`);
  }
  return url.href.replace(/\/$/, "");
}

/** The environment variables that find the client config and the editor, and that replace values of the client config. */
export const ENV_NAMES: readonly string[] = [
  "BROKER_CTL_CONFIG",
  "EDITOR",
  "HOME",
  "VISUAL",
  "XDG_CONFIG_HOME",
  ...CLIENT_ENV_NAMES,
];

/** The flags of every command that sends a request to a service. */
export interface RemoteFlags extends ClientSection {
  readonly config?: string;
  readonly clientConfig?: string;
}

/** The directory of the user's configs; undefined without HOME. */
export function configHome(variables: Environment["variables"]): string | undefined {
  return variables["XDG_CONFIG_HOME"] || (variables["HOME"] && join(variables["HOME"], ".config"));
}

/**
 * The places of the client config, in order of preference; the first file counts, and it has to exist if it was named.
 * The working directory is not searched: an attacker's file there must not decide where the operator's key is used.
 */
export function clientConfigPlaces(
  flag: string | undefined,
  { workingFolder, variables }: Pick<Environment, "workingFolder" | "variables">,
): readonly { readonly path: string; readonly named: boolean }[] {
  const named = flag ?? (variables["BROKER_CTL_CONFIG"] || undefined);
  if (named !== undefined) return [{ path: resolve(workingFolder, named), named: true }];
  const home = configHome(variables);
  return [
    ...(home ? [{ path: join(home, "broker-ctl", "config.json"), named: false }] : []),
    { path: "/etc/gateway/broker-ctl.json", named: false },
  ];
}

/** The parameters of a service, from flags, environment, client config and defaults. */
export async function findClient(service: ClientService, flags: RemoteFlags, environment: Environment) {
  const { workingFolder, variables: env } = environment;
  const file = await loadFirst(flags.clientConfig, environment);
  const folder = file?.folder ?? workingFolder;
  const { files, foreign } = SERVICES[service];
  // The files of another build are used only if our own files do not exist.
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
    // The config of another or newer build is accepted, but a misspelled key must be visible.
    const warning = `warning: client config ${quoteText(path)}: unknown keys are ignored: ${unknown}`;
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

/** A file that cannot be read counts as existing, so that loading it reports the error. */
const exists = (path: string) => ifThere(Deno.stat(path)).then((info) => info !== undefined, () => true);
