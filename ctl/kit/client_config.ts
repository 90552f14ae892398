/**
 * `broker-ctl.json`: how an operator's program reaches the services, and which of flag, environment, file and
 * default decides each parameter.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { resolveClient } from "./client_config.ts";
 *
 * const client = resolveClient("signer", {
 *   flags: { url: "10.0.0.9:9443" },
 *   env: { BROKER_CTL_SIGNER_CA: "/etc/ssl/ca.crt" },
 *   file: { config: { signer: { cert: "me.crt" } }, folder: "/home/ann/.config/broker-ctl" },
 *   workingFolder: "/tmp",
 *   defaultUrl: "127.0.0.1:9443",
 * });
 * assert.deepEqual(client, {
 *   url: "https://10.0.0.9:9443",
 *   cert: "/home/ann/.config/broker-ctl/me.crt",
 *   key: "/home/ann/.config/broker-ctl/pki/operator.key",
 *   ca: "/etc/ssl/ca.crt",
 * });
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { resolve } from "node:path";
import { AppError } from "@gateway/shared/errors";

/** How to reach one service; an absent key is the default. */
export interface ClientSection {
  readonly url?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly ca?: string;
}

export interface ClientConfig {
  readonly signer?: ClientSection;
  readonly control_plane?: ClientSection;
}

const section = z.looseObject({
  url: z.string().exactOptional().describe("host:port or https:// URL of the service"),
  cert: z.string().exactOptional().describe("PEM file, the operator's certificate; relative to this file"),
  key: z.string().exactOptional().describe("PEM file, the operator's private key; relative to this file"),
  ca: z.string().exactOptional().describe(
    "PEM file, the CA that signed the service's certificate; relative to this file",
  ),
});

/** Checks a {@linkcode ClientConfig}; unknown keys stay in it: see {@linkcode findUnknownKeys}. */
export const clientConfig: z.ZodType<ClientConfig> = z.looseObject({
  signer: section.exactOptional().describe("the signer"),
  control_plane: section.exactOptional().describe("the control plane"),
});

const SECTIONS: readonly string[] = ["signer", "control_plane"];
const KEYS: readonly string[] = ["url", "cert", "key", "ca"];

/** The keys of a client config that mean nothing here: another program's, or misspelt. */
export function findUnknownKeys(config: ClientConfig): readonly string[] {
  return Object.entries(config).flatMap(([name, section]) =>
    SECTIONS.includes(name)
      ? Object.keys(section ?? {}).filter((key) => !KEYS.includes(key)).map((key) => `${name}.${key}`)
      : [name]
  );
}

/** A service that `broker-ctl` talks to. */
export type ClientService = "signer" | "control_plane";

/** Everything a connection needs; the paths are absolute, or as written on the command line and in the environment. */
export interface ClientParameters {
  /** An `https:` URL. */
  readonly url: string;
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
}

/** Where {@linkcode resolveClient} looks, in this order. */
export interface ClientSources {
  readonly flags: ClientSection;
  /** The environment; a variable that is empty counts as unset. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The client config and the absolute folder it lies in, when there is one. */
  readonly file?: { readonly config: ClientConfig; readonly folder: string };
  /** Where the built-in defaults start when there is no file; absolute. */
  readonly workingFolder: string;
  /** The default names of certificate and key, where they are not those of a set-up of `init`. */
  readonly defaultPair?: Pick<ClientParameters, "cert" | "key">;
  /** The URL when nothing else names one. */
  readonly defaultUrl: string;
}

/** Names of the environment variables of a service begin so. */
const ENV_PREFIX = {
  signer: "BROKER_CTL_SIGNER_",
  control_plane: "BROKER_CTL_CP_",
} as const satisfies Record<ClientService, string>;

/** Where the certificate, the key and the CA are, unless something names them. */
export const DEFAULTS = {
  signer: { cert: "pki/operator.crt", key: "pki/operator.key", ca: "pki/mtls_ca.crt" },
  control_plane: { cert: "pki/approver.crt", key: "pki/approver.key", ca: "pki/mtls_ca.crt" },
} as const satisfies Record<ClientService, ClientSection>;

/** What the configs of another build of this program lead to, which `init` there makes. */
export const FOREIGN_PAIRS = {
  signer: { cert: "pki/broker.crt", key: "pki/broker.key" },
  control_plane: { cert: "pki/broker-admin.crt", key: "pki/broker-admin.key" },
} as const satisfies Record<ClientService, ClientSection>;

/** The environment variables that {@linkcode resolveClient} reads. */
export const CLIENT_ENV_NAMES: readonly string[] = Object.values(ENV_PREFIX)
  .flatMap((prefix) => ["URL", "CERT", "KEY", "CA"].map((name) => prefix + name));

/**
 * Decides each parameter for itself: flag, then environment variable, then file, then default. Paths from the
 * file are relative to the file, and so are the defaults when there is a file; never to wherever the program
 * happens to be started, where somebody else may have left a certificate.
 *
 * @throws {AppError} `invalid_request` when the URL is not an `https:` URL
 */
export function resolveClient(service: ClientService, sources: ClientSources): ClientParameters {
  const file = sources.file?.config[service];
  const folder = sources.file?.folder ?? sources.workingFolder;
  const outer = (name: keyof ClientSection) => {
    const variable = sources.env[ENV_PREFIX[service] + name.toUpperCase()];
    return sources.flags[name] ?? (variable === "" ? undefined : variable);
  };
  const path = (name: "cert" | "key" | "ca") =>
    outer(name) ?? resolve(folder, file?.[name] || { ...DEFAULTS[service], ...sources.defaultPair }[name]);
  return {
    url: parseServiceUrl(outer("url") ?? (file?.url || sources.defaultUrl)),
    cert: path("cert"),
    key: path("key"),
    ca: path("ca"),
  };
}

/** A service's base URL; `https://` is put before a bare `host:port`. */
function parseServiceUrl(text: string): string {
  const url = URL.parse(text.includes("://") ? text : `https://${text}`);
  if (
    url === null || url.protocol !== "https:" || url.username !== "" || url.search !== "" || url.hash !== ""
  ) {
    throw new AppError(
      "invalid_request",
      `Cannot use URL ${JSON.stringify(text)}: expected host:port or https://host:port`,
    );
  }
  return url.href.replace(/\/$/, "");
}
