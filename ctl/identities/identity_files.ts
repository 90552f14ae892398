import { basename, dirname, join, resolve } from "node:path";
import { AppError, errorText } from "@gateway/shared/errors";
import {
  describeReadFailure,
  formatMode,
  ifThere,
  mayOthersWrite,
  readRegularText,
} from "@gateway/shared/files";
import { parseDeniedCallers } from "@gateway/shared/http";
import { quoteText } from "@gateway/shared/text";
import type { Given } from "../kit/command.ts";
import { CONFIG_KINDS, loadFile, loadNeighbor, loadSignerFile } from "../kit/signer_file.ts";
import { editLocked, readOperatorFile, readOperatorText } from "../kit/files.ts";
import { badConfig, conflict, HintedError, invalid } from "../kit/output.ts";
import { type IdentityKind, readCertificateFacts } from "./kinds.ts";
import { X509Certificate } from "node:crypto";
import { systemClock } from "@gateway/shared/clock";
import type { X509Authority } from "./x509.ts";
import { permits } from "./der.ts";

/** The options that find the files of a deployment. */
export const PKI = {
  "--pki <directory>": "required directory of client_ca; fail if the config names another",
} as const;
export const CA_KEY = {
  "--ca-key <file>": "private key of client_ca (default: .key file next to it)",
} as const;
export const CONTROL_PLANE = {
  "--control-plane <file>": "control plane's config (default: control-plane.json next to the signer's)",
} as const;

type IdentityFlags = Given<typeof PKI & Partial<typeof CONTROL_PLANE>>;

export type IdentityFiles = Awaited<ReturnType<typeof openIdentityFiles>>;

/** Opens the files that identities are issued from and for. */
export async function openIdentityFiles(flags: IdentityFlags, workingFolder: string) {
  const signerFile = resolve(workingFolder, flags.config ?? "signer.json");
  const signer = await loadSignerFile(flags.config, workingFolder);
  const controlPlane = flags.controlPlane === undefined
    ? await loadNeighbor(signerFile, "control-plane.json", CONFIG_KINDS.controlPlane)
    : await loadFile(resolve(workingFolder, flags.controlPlane), CONFIG_KINDS.controlPlane);
  const folder = dirname(resolve(workingFolder, signer.client_ca));
  if (flags.pki !== undefined) await requireIn(resolve(workingFolder, flags.pki), folder);
  const [certificates, denied] = await Promise.all([
    listCertificates(folder),
    readDenied(signer.denied_callers, workingFolder),
  ]);
  return { signerFile, signer, controlPlane, folder, certificates, denied };
}

/** The account that can write the config may have no right to use the CA. */
async function requireIn(pki: string, found: string): Promise<void> {
  const [wanted, named] = await Promise.all([pki, found].map((path) => ifThere(Deno.realPath(path))));
  if (wanted !== undefined && wanted === named) return;
  throw badConfig(`Cannot use client_ca in ${quoteText(found)}: expected it in ${quoteText(pki)} (--pki)`);
}

/** Like {@linkcode openIdentityFiles}, for commands that write to the directory or sign with the CA's key. */
export async function openOwnFiles(flags: IdentityFlags, workingFolder: string): Promise<IdentityFiles> {
  const setUp = await openIdentityFiles(flags, workingFolder);
  await requireOwn(setUp.folder);
  if (setUp.denied !== undefined) await requireOwn(dirname(setUp.denied.path));
  return setUp;
}

export type FoundCertificate = Awaited<ReturnType<typeof listCertificates>>[number];

const SUFFIX = ".crt";

/** The certificates in a directory by name, including CAs. */
async function listCertificates(directory: string) {
  let names: readonly string[];
  try {
    names = (await Array.fromAsync(Deno.readDir(directory), ({ name }) => name)).sort();
  } catch (cause) {
    throw badConfig(`Cannot read ${quoteText(directory)}: ${describeReadFailure(cause)}`, cause);
  }
  const files = names.filter((name) => name.endsWith(SUFFIX) && !name.startsWith("."));
  return await Promise.all(files.map(async (file) => {
    const [name, path] = [basename(file, SUFFIX), join(directory, file)];
    const found = { name, path, hasKey: names.includes(`${name}.key`) };
    try {
      const pem = await readRegularText(path);
      return { ...found, kind: "ok" as const, pem, facts: readCertificateFacts(pem) };
    } catch (cause) {
      const problem = cause instanceof Error && cause.name in Deno.errors
        ? describeReadFailure(cause)
        : "it is not a certificate";
      return { ...found, kind: "broken" as const, problem };
    }
  }));
}

const ROOT = 0;
const STICKY = 0o1000;

/**
 * Rejects a path if an account other than root can replace the file or a directory above it: that account could make root
 * sign arbitrary certificates or write to arbitrary files. Other users than root are not checked.
 */
async function requireOwn(path: string): Promise<void> {
  if (Deno.uid() !== ROOT) return;
  const real = await Deno.realPath(path);
  for (let at = real, below = ""; below !== at; below = at, at = dirname(at)) {
    const info = await Deno.lstat(at);
    // In a sticky directory, an account can replace only its own files.
    const isSticky = at !== real && ((info.mode ?? 0) & STICKY) !== 0;
    if (info.uid === ROOT && (isSticky || !mayOthersWrite(info))) continue;
    const state = `owner ${info.uid}, mode ${formatMode(info.mode ?? 0)}`;
    const why = `${quoteText(at)} is not root's alone (${state})`;
    const error = new AppError("not_supported", `Cannot work as root with ${quoteText(path)}: ${why}`);
    throw new HintedError(error, `run the command as the owner, or: chown root ${at}; chmod go-w ${at}`);
  }
}

/** The list of callers that listeners reject. */
type DeniedList = NonNullable<Awaited<ReturnType<typeof readDenied>>>;

async function readDenied(deniedCallers: string, workingFolder: string) {
  if (deniedCallers === "") return undefined;
  const path = resolve(workingFolder, deniedCallers);
  const bytes = await readOperatorFile(path, "denied_callers");
  try {
    return { path, names: parseDeniedCallers(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) };
  } catch (cause) {
    throw badConfig(`Cannot use denied_callers ${quoteText(path)}: ${errorText(cause)}`, cause);
  }
}

/** A revoked name cannot be used again, because an attacker may still have the old key. */
export function refuseDenied(denied: DeniedList | undefined, name: string): void {
  if (denied?.names.has(name) !== true) return;
  throw conflict(
    `Cannot use name ${quoteText(name)}: it was revoked, and its old key may still exist; use another name`,
  );
}

/** Adds a name to the list, durably. @returns false if the name was on the list before */
export async function addDenied({ path }: DeniedList, name: string, note: string): Promise<boolean> {
  return await editLocked(path, "denied_callers", (text) => {
    const isNew = !parseDeniedCallers(text).has(name);
    const edited = isNew ? `${text}# ${note}\n${name}\n` : text;
    // A name that starts with # would be a comment, and its certificate still accepted.
    if (parseDeniedCallers(edited).has(name)) return [edited, isNew];
    throw invalid(`Cannot add ${quoteText(name)} to denied_callers`);
  });
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
const NAME_CONSTRAINTS = "2.5.29.30";

/** The CA that a key belongs to. */
export interface TrustedAuthority extends X509Authority {
  /** The certificates of `client_ca`, the CA's own included: PEM, one each. */
  readonly trusted: readonly string[];
}

/**
 * Opens the CA of identities. If `client_ca` has several certificates, the one that matches the key is used.
 *
 * @param caKey its private key; absent: the file of `client_ca` with `.key` in place of `.crt`
 */
export async function openAuthority(clientCa: string, caKey: string | undefined, workingFolder: string) {
  const ca = resolve(workingFolder, clientCa);
  const key = caKey === undefined ? ca.replace(/(?:\.crt|\.pem)?$/, ".key") : resolve(workingFolder, caKey);
  if (await ifThere(Deno.stat(key)) !== undefined) await requireOwn(key);
  const certs = await readOperatorText(ca, "client_ca");
  const keyPem = await readOperatorText(key, "the CA's key (--ca-key names it)");
  const blocks = certs.match(CERTIFICATE) ?? [];
  const { loadAuthority } = await import("./x509.ts");
  let failure: unknown = badConfig(`Cannot use client_ca ${quoteText(ca)}: it contains no certificate`);
  for (const block of blocks) {
    try {
      const authority = await loadAuthority(`${block}\n`, keyPem);
      const end = new Date(new X509Certificate(block).validTo);
      if (end.getTime() < systemClock.now()) {
        throw badConfig(`Cannot use the CA: it expired at ${end.toISOString()}`);
      }
      return { ...authority, trusted: blocks };
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

export function checkNames({ certificate }: X509Authority, names: readonly string[]): void {
  const constraints = certificate.extensions.find(({ type }) => type === NAME_CONSTRAINTS);
  if (constraints === undefined) return;
  const refused = names.filter((name) => !permits(new Uint8Array(constraints.value), name));
  if (refused.length === 0) return;
  const why = "the CA is restricted to this machine and the names of init --name";
  throw invalid(`Cannot issue a certificate for ${refused.map(quoteText).join(", ")}: ${why}`);
}

/** The expiry of a new certificate: not after the expiry of its CA. */
export function endIn(days: number, { certificate }: X509Authority): Date {
  return new Date(Math.min(systemClock.now() + days * 86_400_000, certificate.notAfter.getTime()));
}

/** Verifies the signature, because a certificate can name a trusted CA as issuer without its signature. */
export function isTrusted(certificatePem: string, { trusted }: TrustedAuthority): boolean {
  const certificate = new X509Certificate(certificatePem);
  return trusted.some((ca) => certificate.verify(new X509Certificate(ca).publicKey));
}

/**
 * The certificate that an interrupted attempt issued for the same key, and did not write to each file.
 *
 * @returns PEM; `undefined` if no file is there
 */
export async function findIssued(paths: readonly string[], { kind, name, authority, publicKey }: {
  readonly kind: IdentityKind;
  readonly name: string;
  readonly authority: TrustedAuthority;
  readonly publicKey: { readonly rawData: ArrayBuffer };
}) {
  const { readLeaf } = await import("./x509.ts");
  const bytesOf = ({ rawData }: typeof publicKey) => new Uint8Array(rawData).toBase64();
  const isSought = (pem: string) => {
    try {
      const facts = readCertificateFacts(pem);
      return facts.kind === kind && facts.commonName === name && isTrusted(pem, authority) &&
        bytesOf(readLeaf(pem).publicKey) === bytesOf(publicKey);
    } catch {
      return false;
    }
  };
  let found: string | undefined;
  for (const path of paths) {
    const pem = await ifThere(readRegularText(path));
    if (pem === undefined) continue;
    if (!isSought(pem) || (found !== undefined && found !== pem)) {
      const problem = `Cannot add ${quoteText(name)}: ${quoteText(path)} is another certificate`;
      throw conflict(problem, undefined, `broker-ctl identity renew ${name}`);
    }
    found = pem;
  }
  return found;
}
