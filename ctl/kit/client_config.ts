/**
 * `broker-ctl.json`: the address of each service and the operator's certificate. For each parameter a flag precedes the
 * environment, the environment precedes the file, and the file precedes the default.
 *
 * @module
 */
import * as z from "@zod/zod";
import { resolve } from "node:path";
import { invalid } from "./output.ts";

/** A service that `broker-ctl` asks. */
export type ClientService = "signer" | "control_plane";

/** Everything that a connection needs; `url` is an `https:` URL. */
export type ClientParameters = Readonly<Record<"url" | "cert" | "key" | "ca", string>>;

/** The parameters that a file or the flags give; an absent key has a default. */
export type ClientSection = Partial<ClientParameters>;

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

/** The keys of a client config that have no meaning: those of another program, or misspelled ones. */
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
