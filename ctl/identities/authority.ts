import { resolve } from "node:path";
import { X509Certificate } from "node:crypto";
import { systemClock } from "@gateway/shared/clock";
import { ifThere, readRegularText } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { readOperatorText } from "../kit/files.ts";
import type { X509Authority } from "./x509.ts";
import { readCertificateFacts } from "./certificate_facts.ts";
import type { IdentityKind } from "./kinds.ts";
import { requireOwn } from "./set_up.ts";
import { permits } from "./name_constraints.ts";
import { badConfig, conflict, invalid } from "../kit/output.ts";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
const NAME_CONSTRAINTS = "2.5.29.30";

/** The CA that a key belongs to. */
export interface TrustedAuthority extends X509Authority {
  /** The certificates of `client_ca`, the CA's own included: PEM, one each. */
  readonly trusted: readonly string[];
}

/**
 * Opens the CA of identities. Of several certificates in `client_ca`, the one counts that the key belongs to.
 *
 * @param caKey its private key; absent: the file of `client_ca` with `.key` in place of `.crt`
 */
export async function openAuthority(
  clientCa: string,
  caKey: string | undefined,
  workingFolder: string,
): Promise<TrustedAuthority> {
  const ca = resolve(workingFolder, clientCa);
  const key = caKey === undefined ? ca.replace(/(?:\.crt|\.pem)?$/, ".key") : resolve(workingFolder, caKey);
  if (await ifThere(Deno.stat(key)) !== undefined) await requireOwn(key);
  const certs = await readOperatorText(ca, "client_ca");
  const keyPem = await readOperatorText(key, "the CA's key (--ca-key names it)");
  const blocks = certs.match(CERTIFICATE) ?? [];
  const { loadAuthority } = await import("./x509.ts");
  let failure: unknown = badConfig(`Cannot use client_ca ${quoteText(ca)}: no certificate in it`);
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
  const bound = "it is bound to the names that init --name was given, and to this machine";
  throw invalid(`The CA can't vouch for ${refused.map(quoteText).join(", ")}: ${bound}`);
}

/** The end of a new certificate: never after its CA, whose end ends the trust. */
export function endIn(days: number, { certificate }: X509Authority): Date {
  return new Date(Math.min(systemClock.now() + days * 86_400_000, certificate.notAfter.getTime()));
}

/** Verifies the signature: a certificate could merely name a trusted CA. */
export function isTrusted(certificatePem: string, { trusted }: TrustedAuthority): boolean {
  const certificate = new X509Certificate(certificatePem);
  return trusted.some((ca) => certificate.verify(new X509Certificate(ca).publicKey));
}

interface SoughtCertificate {
  readonly kind: IdentityKind;
  readonly name: string;
  readonly authority: TrustedAuthority;
  readonly publicKey: { readonly rawData: ArrayBuffer };
}

/**
 * The certificate that an interrupted attempt issued for the same key, and did not write to each file.
 *
 * @returns PEM; `undefined` if no file is there
 */
export async function findIssued(
  paths: readonly string[],
  sought: SoughtCertificate,
): Promise<string | undefined> {
  let found: string | undefined;
  for (const path of paths) {
    const pem = await ifThere(readRegularText(path));
    if (pem === undefined) continue;
    if (!await isSought(pem, sought) || (found !== undefined && found !== pem)) {
      const wanted = `which is no certificate of this CA for ${quoteText(sought.name)} and its key`;
      const fix = "broker-ctl identity renew makes one last longer";
      throw conflict(`There is ${quoteText(path)}, ${wanted}; ${fix}`);
    }
    found = pem;
  }
  return found;
}

async function isSought(
  pem: string,
  { kind, name, authority, publicKey }: SoughtCertificate,
): Promise<boolean> {
  const { readLeaf } = await import("./x509.ts");
  try {
    const facts = readCertificateFacts(pem);
    const key = new Uint8Array(readLeaf(pem).publicKey.rawData).toBase64();
    return facts.kind === kind && facts.commonName === name && isTrusted(pem, authority) &&
      key === new Uint8Array(publicKey.rawData).toBase64();
  } catch {
    return false;
  }
}
