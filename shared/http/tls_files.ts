/**
 * Certificates and keys: read from files, checked to fit each other, and replaced while a service runs.
 *
 * @module
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { type Clock, every } from "../clock.ts";
import { AppError, configError, errorText } from "../errors.ts";
import { readNamedFile, readNamedText } from "../files/mod.ts";
import type { ServiceLogger } from "../service/mod.ts";
import { hasInvisible, quoteText } from "../text.ts";

/** The certificate and key of a process and the CAs that it trusts, as PEM texts. */
export interface TlsMaterial {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
}

/** A file and the config key that names it. */
type Files<Name extends string> = Readonly<Record<Name, { readonly key: string; readonly path: string }>>;

/**
 * Reads certificate, key and CA and checks that they fit each other.
 *
 * @throws {AppError} `invalid_config` naming the config key
 */
export async function loadTlsMaterial(files: Files<keyof TlsMaterial>): Promise<TlsMaterial> {
  const [pair, ca] = await Promise.all([loadTlsKeyPair(files), readPemFile(files.ca.key, files.ca.path)]);
  parse(files.ca, "certificate", () => new X509Certificate(ca));
  return { ...pair, ca };
}

/** Reads certificate and key and checks that they fit. @throws {AppError} `invalid_config` naming the config key */
export async function loadTlsKeyPair(files: Files<"cert" | "key">): Promise<Omit<TlsMaterial, "ca">> {
  const [cert, key] = await Promise.all([
    readPemFile(files.cert.key, files.cert.path),
    readPemFile(files.key.key, files.key.path),
  ]);
  const certificate = parse(files.cert, "certificate", () => new X509Certificate(cert));
  const privateKey = parse(files.key, "private key", () => createPrivateKey(key));
  if (certificate.checkPrivateKey(privateKey)) return { cert, key };
  throw unusable(files.key, `it is not the key of ${files.cert.key}`);
}

/** The config keys of a listener with mutual TLS. */
type ListenerTlsConfig = Readonly<
  Record<"server_cert" | "server_key" | "client_ca" | "denied_callers", string>
>;

/** The options of `startMtlsServer` that come from files. */
type ListenerTls = Readonly<Record<"cert" | "key" | "clientCa", string> & { denied: ReadonlySet<string> }>;

/** Reads the files of a listener with mutual TLS. @throws {AppError} `invalid_config` naming the config key */
export async function loadListenerTls(config: ListenerTlsConfig): Promise<ListenerTls> {
  const [credentials, denied] = await Promise.all([loadCredentials(config), loadDenied(config)]);
  return { ...credentials, denied };
}

async function loadCredentials({ server_cert, server_key, client_ca }: ListenerTlsConfig) {
  const { cert, key, ca: clientCa } = await loadTlsMaterial({
    cert: { key: "server_cert", path: server_cert },
    key: { key: "server_key", path: server_key },
    ca: { key: "client_ca", path: client_ca },
  });
  return { cert, key, clientCa };
}

/** Reads the files of a client of the signer. @throws {AppError} `invalid_config` naming the config key */
export async function loadSignerTls(
  { client_cert, client_key, ca }: Readonly<Record<"client_cert" | "client_key" | "ca", string>>,
): Promise<TlsMaterial> {
  return await loadTlsMaterial({
    cert: { key: "signer.client_cert", path: client_cert },
    key: { key: "signer.client_key", path: client_key },
    ca: { key: "signer.ca", path: ca },
  });
}

async function loadDenied({ denied_callers: path }: ListenerTlsConfig): Promise<ReadonlySet<string>> {
  const key = "denied_callers";
  if (path === "") return new Set();
  const bytes = await readNamedFile(key, path);
  try {
    return parseDeniedCallers(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    const why = cause instanceof AppError ? errorText(cause) : "the file is not valid UTF-8";
    throw unusable({ key, path }, why, cause);
  }
}

/**
 * Reads a list of rejected callers: one CN per line; `#` starts a comment line.
 *
 * @throws {AppError} `invalid_config` for a line that cannot be a CN, and for a last line without a line
 * break, because the list could be incomplete
 */
export function parseDeniedCallers(text: string): ReadonlySet<string> {
  if (text !== "" && !text.endsWith("\n")) {
    throw configError("its last line has no line break, so the file may be incomplete");
  }
  const lines = text.split("\n").map((line) => line.trim());
  const bad = lines.findIndex((line) => hasInvisible(line));
  if (bad >= 0) throw configError(`line ${bad + 1} is not a CN`);
  return new Set(lines.filter((line) => line !== "" && !line.startsWith("#")));
}

/** Reads a PEM file. @throws {AppError} `invalid_config` naming the config key */
export async function readPemFile(key: string, path: string): Promise<string> {
  const text = await readNamedText(key, path);
  if (text.includes("-----BEGIN ")) return text;
  throw unusable({ key, path }, "not a PEM file");
}

function parse<T>(file: Files<"file">["file"], what: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw unusable(file, `not a ${what}`, cause);
  }
}

function unusable({ key, path }: Files<"file">["file"], why: string, cause?: unknown): AppError {
  return configError(`Cannot use ${key} ${quoteText(path)}: ${why}`, cause);
}

/** Matches each certificate in a PEM text. */
export const CERTIFICATE: RegExp = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** @throws {AppError} `invalid_config` if a text is malformed, or the key is not the key of the certificate */
export function checkTlsIdentity(
  { cert, key, ca }: Omit<TlsMaterial, "ca"> & Partial<Pick<TlsMaterial, "ca">>,
): void {
  const [leaf] = parseCertificates("certificate", cert);
  if (ca !== undefined) checkCaCertificates(ca);
  let fault: string | undefined;
  let cause: unknown;
  try {
    if (leaf?.checkPrivateKey(createPrivateKey(key)) !== true) fault = "it is not the key of the certificate";
  } catch (error) {
    [fault, cause] = ["not an unencrypted PEM key", error];
  }
  if (fault === undefined) return;
  throw configError(`Cannot use the TLS private key: ${fault}`, cause);
}

/** @throws {AppError} `invalid_config` if the text holds no certificate, or a malformed one */
export function checkCaCertificates(pem: string): void {
  parseCertificates("CA certificate", pem);
}

function parseCertificates(what: string, pem: string): readonly X509Certificate[] {
  const blocks = pem.match(CERTIFICATE) ?? [];
  try {
    if (blocks.length > 0) return blocks.map((block) => new X509Certificate(block));
  } catch (cause) {
    throw configError(`Cannot use the TLS ${what}: malformed`, cause);
  }
  throw configError(`Cannot use the TLS ${what}: no PEM certificate in it`);
}

/** The pause between two reads of the files, in seconds. */
export const FRESH_SECONDS = 10;

interface KeepFreshOptions<T> {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly logger: Pick<ServiceLogger, "info" | "warn">;
  readonly what: string;
  /** The material in use at the start. */
  readonly current: T;
}

/**
 * Loads changed material from its files until the signal is aborted. Invalid material, such as a certificate
 * whose key was not replaced yet, is ignored. A failure is logged once, not at each read.
 */
export async function keepFresh<T>(
  { clock, signal, logger, what, current }: KeepFreshOptions<T>,
  { load, take }: { readonly load: () => Promise<T>; readonly take: (material: T) => void },
): Promise<void> {
  let inUse = fingerprint(current);
  let lastFailure = "";
  await every({ clock, seconds: FRESH_SECONDS, signal }, async () => {
    try {
      const material = await load();
      const found = fingerprint(material);
      if (found !== inUse) take(material);
      lastFailure = "";
      if (found === inUse) return;
      inUse = found;
      logger.info(`${what} reloaded`);
    } catch (error) {
      const failure = errorText(error);
      if (failure !== lastFailure) {
        logger.warn(`${what} not reloaded, keeping the previous version`, { error });
      }
      lastFailure = failure;
    }
  });
}

function fingerprint(material: unknown): string {
  return JSON.stringify(material, (_key, value: unknown) => value instanceof Set ? [...value] : value);
}

/** Keeps credentials and rejected callers of a listener up to date, as {@linkcode keepFresh} does. */
export async function keepListenerFresh(
  { current: { denied, ...credentials }, ...options }: Omit<KeepFreshOptions<ListenerTls>, "what">,
  config: ListenerTlsConfig,
  server: {
    renew(credentials: Omit<ListenerTls, "denied">): void;
    deny(callers: ReadonlySet<string>): void;
  },
): Promise<void> {
  await Promise.all([
    keepFresh({ ...options, what: "the listener's certificates", current: credentials }, {
      load: () => loadCredentials(config),
      take: (fresh) => server.renew(fresh),
    }),
    keepFresh({ ...options, what: "denied_callers", current: denied }, {
      load: () => loadDenied(config),
      take: (fresh) => server.deny(fresh),
    }),
  ]);
}
