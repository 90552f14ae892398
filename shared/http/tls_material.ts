/**
 * Who a process is on a TLS connection, and whom it believes: read from disk and checked to fit together.
 *
 * ```ts ignore
 * import { loadTlsMaterial } from "@gateway/shared/http";
 *
 * const tls = await loadTlsMaterial({
 *   cert: { key: "server_cert", path: "pki/signer.crt" },
 *   key: { key: "server_key", path: "pki/signer.key" },
 *   ca: { key: "client_ca", path: "pki/mtls_ca.crt" },
 * });
 * ```
 *
 * @module
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { AppError, errorText } from "../errors.ts";
import { readNamedFile, readNamedText } from "../files/files.ts";
import { parseDeniedCallers } from "./caller.ts";
import { quoteText } from "../text.ts";

/** A file and the config key that names it. */
interface ConfiguredFile {
  readonly key: string;
  readonly path: string;
}

/** Who this process is towards somebody else, and whom it believes; PEM. */
export interface TlsMaterial {
  readonly cert: string;
  readonly key: string;
  /** The CAs that the other side's certificate must come from. */
  readonly ca: string;
}

/** Who a listener is, and the CAs that it believes; PEM. */
export interface ListenerCredentials {
  readonly cert: string;
  readonly key: string;
  /** The CAs that callers' certificates must come from. */
  readonly clientCa: string;
}

/** All that a listener which asks for certificates starts with. */
export interface ListenerTls extends ListenerCredentials {
  /** CNs whose certificates are not believed, whoever signed them. */
  readonly denied: ReadonlySet<string>;
}

/**
 * Reads certificate, key and CA and checks that they fit each other, so that a mistake is named at the start
 * and not by the first handshake that fails.
 *
 * @throws {AppError} `invalid_config` naming the config key
 */
export async function loadTlsMaterial(
  files: Readonly<Record<keyof TlsMaterial, ConfiguredFile>>,
): Promise<TlsMaterial> {
  const [pair, ca] = await Promise.all([loadTlsKeyPair(files), readPemFile(files.ca.key, files.ca.path)]);
  parse(files.ca, "certificate", () => new X509Certificate(ca));
  return { ...pair, ca };
}

/**
 * The same for a listener that asks for no certificates and hence needs no CA.
 *
 * @throws {AppError} `invalid_config` naming the config key
 */
export async function loadTlsKeyPair(
  files: Readonly<Record<"cert" | "key", ConfiguredFile>>,
): Promise<Pick<TlsMaterial, "cert" | "key">> {
  const [cert, key] = await Promise.all([
    readPemFile(files.cert.key, files.cert.path),
    readPemFile(files.key.key, files.key.path),
  ]);
  const certificate = parse(files.cert, "certificate", () => new X509Certificate(cert));
  const privateKey = parse(files.key, "private key", () => createPrivateKey(key));
  if (!certificate.checkPrivateKey(privateKey)) {
    throw new AppError(
      "invalid_config",
      `Cannot use ${show(files.key)}: it is not the key of ${files.cert.key}`,
    );
  }
  return { cert, key };
}

/**
 * The TLS of a listener that asks for certificates, by the keys that every service's config has for it, as
 * `startMtlsServer` takes it.
 *
 * @throws {AppError} `invalid_config` naming the config key
 */
export async function loadListenerTls(
  config: Readonly<Record<"server_cert" | "server_key" | "client_ca" | "denied_callers", string>>,
): Promise<ListenerTls> {
  const [credentials, denied] = await Promise.all([
    loadListenerCredentials(config),
    loadDeniedCallers(config.denied_callers),
  ]);
  return { ...credentials, denied };
}

/**
 * The part of it that is renewed.
 *
 * @throws {AppError} `invalid_config` naming the config key
 */
export async function loadListenerCredentials(
  config: Readonly<Record<"server_cert" | "server_key" | "client_ca", string>>,
): Promise<ListenerCredentials> {
  const { cert, key, ca } = await loadTlsMaterial({
    cert: { key: "server_cert", path: config.server_cert },
    key: { key: "server_key", path: config.server_key },
    ca: { key: "client_ca", path: config.client_ca },
  });
  return { cert, key, clientCa: ca };
}

/**
 * The TLS of the client of a signer, by the keys of `signer` in the configs of those who have one.
 *
 * @throws {AppError} `invalid_config` naming the config key
 */
export async function loadSignerTls(
  signer: Readonly<Record<"client_cert" | "client_key" | "ca", string>>,
): Promise<TlsMaterial> {
  return await loadTlsMaterial({
    cert: { key: "signer.client_cert", path: signer.client_cert },
    key: { key: "signer.client_key", path: signer.client_key },
    ca: { key: "signer.ca", path: signer.ca },
  });
}

function parse<T>(file: ConfiguredFile, what: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot use ${show(file)}: not a ${what}`, { cause });
  }
}

function show({ key, path }: ConfiguredFile): string {
  return `${key} ${quoteText(path)}`;
}

/**
 * The CNs whose certificates are not believed. An empty path is no list: nobody is denied.
 *
 * @throws {AppError} `invalid_config` for a list that can't be read, or is not whole
 */
export async function loadDeniedCallers(path: string): Promise<ReadonlySet<string>> {
  if (path === "") return new Set();
  const bytes = await readNamedFile("denied_callers", path);
  try {
    return parseDeniedCallers(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    const why = cause instanceof AppError ? errorText(cause) : "the file is not valid UTF-8";
    throw new AppError("invalid_config", `Cannot use denied_callers ${quoteText(path)}: ${why}`, { cause });
  }
}

/**
 * Reads a PEM file that a config names.
 *
 * @param key the config key that names it, for the message
 * @throws {AppError} `invalid_config` when the file can't be read or holds no PEM
 */
export async function readPemFile(key: string, path: string): Promise<string> {
  const text = await readNamedText(key, path);
  if (!text.includes("-----BEGIN ")) {
    throw new AppError("invalid_config", `Cannot use ${key} ${quoteText(path)}: not a PEM file`);
  }
  return text;
}

/** PEM texts. */
export interface TlsIdentity {
  /** A certificate, and what links it to the CA. */
  readonly cert: string;
  readonly key: string;
  /** The CAs to trust, and no others; absent where the other side shows no certificate. */
  readonly ca?: string;
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** @throws {AppError} `invalid_config` when a text is not what it should be, or key and certificate differ */
export function checkTlsIdentity({ cert, key, ca }: TlsIdentity): void {
  const [leaf] = parseCertificates("certificate", cert);
  if (ca !== undefined) checkCaCertificates(ca);
  let isPair: boolean;
  try {
    isPair = leaf?.checkPrivateKey(createPrivateKey(key)) === true;
  } catch (cause) {
    throw new AppError("invalid_config", "Cannot use the TLS private key: not an unencrypted PEM key", {
      cause,
    });
  }
  if (!isPair) {
    throw new AppError(
      "invalid_config",
      "Cannot use the TLS private key: it is not the key of the certificate",
    );
  }
}

/** @throws {AppError} `invalid_config` when the text holds no certificate, or a broken one */
export function checkCaCertificates(pem: string): void {
  parseCertificates("CA certificate", pem);
}

function parseCertificates(what: string, pem: string): readonly X509Certificate[] {
  const blocks = pem.match(CERTIFICATE) ?? [];
  try {
    if (blocks.length > 0) return blocks.map((block) => new X509Certificate(block));
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot use the TLS ${what}: malformed`, { cause });
  }
  throw new AppError("invalid_config", `Cannot use the TLS ${what}: no PEM certificate in it`);
}
