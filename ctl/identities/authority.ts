import { resolve } from "node:path";
import { X509Certificate } from "node:crypto";
import { systemClock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { readOperatorFile } from "../kit/files.ts";
import type { X509Authority } from "./x509.ts";
import { requireOwn } from "./folder.ts";
import { permits } from "./name_constraints.ts";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
const NAME_CONSTRAINTS = "2.5.29.30";

/** Where the CA of identities is. */
interface AuthorityFiles {
  /** `client_ca` of the signer's config; of several the one counts that the key belongs to. */
  readonly clientCa: string;
  /** Its private key; absent: beside it, with `.key` in place of `.crt`. */
  readonly caKey: string | undefined;
  readonly workingFolder: string;
}

/** The CA that a key belongs to, and all that are trusted beside it. */
export interface TrustedAuthority extends X509Authority {
  /** The certificates of `client_ca`, its own among them: PEM, one each. */
  readonly trusted: readonly string[];
}

/** @throws {AppError} `not_found` or `invalid_config`, with the path and why */
export async function openAuthority(
  { clientCa, caKey, workingFolder }: AuthorityFiles,
): Promise<TrustedAuthority> {
  const ca = resolve(workingFolder, clientCa);
  const key = caKey === undefined ? ca.replace(/(?:\.crt|\.pem)?$/, ".key") : resolve(workingFolder, caKey);
  if (await ifThere(Deno.stat(key)) !== undefined) await requireOwn(key);
  const [certs, keyPem] = (await Promise.all([
    readOperatorFile(ca, "client_ca"),
    readOperatorFile(key, "the CA's key (--ca-key names it)"),
  ])).map((bytes) => new TextDecoder().decode(bytes)) as [string, string];
  const blocks = certs.match(CERTIFICATE) ?? [];
  const { loadAuthority } = await import("./x509.ts");
  let failure: unknown = new AppError(
    "invalid_config",
    `Cannot use client_ca ${quoteText(ca)}: no certificate in it`,
  );
  for (const block of blocks) {
    try {
      const authority = await loadAuthority(`${block}\n`, keyPem);
      const end = new Date(new X509Certificate(block).validTo);
      if (end.getTime() < systemClock.now()) {
        throw new AppError("invalid_config", `Cannot use the CA: it expired at ${end.toISOString()}`);
      }
      return { ...authority, trusted: blocks };
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

/** @throws {AppError} `invalid_request` naming what the CA may not vouch for */
export function checkNames({ certificate }: X509Authority, names: readonly string[]): void {
  const constraints = certificate.extensions.find(({ type }) => type === NAME_CONSTRAINTS);
  if (constraints === undefined) return;
  const refused = names.filter((name) => !permits(new Uint8Array(constraints.value), name));
  if (refused.length === 0) return;
  throw new AppError(
    "invalid_request",
    `The CA can't vouch for ${
      refused.map(quoteText).join(", ")
    }: it is bound to the names that init --name was ` +
      "given, and to this machine",
  );
}

/** Whether a certificate was signed by a CA that is trusted, and does not only name it. */
export function isTrusted(certificatePem: string, { trusted }: TrustedAuthority): boolean {
  const certificate = new X509Certificate(certificatePem);
  return trusted.some((ca) => certificate.verify(new X509Certificate(ca).publicKey));
}
