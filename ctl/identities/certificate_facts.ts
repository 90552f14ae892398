import { X509Certificate } from "node:crypto";
import { dirname, resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { openFile, readAt, readRegularText } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { IDENTITY_KINDS, type IdentityKind, WARN_DAYS } from "./kinds.ts";

type CertificateFacts = ReturnType<typeof readCertificateFacts>;

const DAY_MS = 86_400_000;

export function readCertificateFacts(pem: string) {
  const certificate = new X509Certificate(pem);
  const { subject } = certificate.toLegacyObject();
  const { CN = "", OU } = subject as { readonly CN?: string; readonly OU?: unknown };
  return {
    commonName: String(CN),
    /** `undefined`: created by another program, or before identities had kinds. */
    kind: typeof OU === "string" && Object.hasOwn(IDENTITY_KINDS, OU) ? OU as IdentityKind : undefined,
    /** Names and addresses of a server. */
    names: (certificate.subjectAltName ?? "").split(", ").flatMap((text) =>
      /^(?:DNS|IP Address):(.+)$/.exec(text)?.slice(1) ?? []
    ),
    isAuthority: certificate.ca,
    notBefore: new Date(certificate.validFrom),
    notAfter: new Date(certificate.validTo),
  };
}

/** The end of a certificate in words; `undefined`: it is valid for long. */
export function describeEnd({ notAfter, notBefore }: CertificateFacts, now: number): string | undefined {
  const time = notAfter.toISOString().replace(".000", "");
  if (now > notAfter.getTime()) return `expired at ${time}`;
  if (now < notBefore.getTime()) return `is not valid before ${notBefore.toISOString().replace(".000", "")}`;
  const days = Math.floor((notAfter.getTime() - now) / DAY_MS);
  return days < WARN_DAYS ? `expires in ${days} ${days === 1 ? "day" : "days"}, at ${time}` : undefined;
}

export function endsWithin({ notAfter }: CertificateFacts, days: number, now: number): boolean {
  return notAfter.getTime() - now < days * DAY_MS;
}

/** A config names its certificates at the beginning, before a list of hosts that can be long. */
const HEAD_BYTES = 65_536;
const NAMED = /"(?:server_cert|client_cert|client_ca|cert|ca)"\s*:\s*"([^"\\]+)"/g;

/**
 * Warnings about certificates that end soon or have ended: those that configs name, and others by their paths. Files
 * that can't be read are skipped, because the command that needs them reports them.
 */
export async function warningsOfEnds(
  configs: readonly string[],
  workingFolder: string,
  certificates: readonly string[] = [],
): Promise<readonly string[]> {
  const found = await Promise.all(configs.map(async (config) => {
    const text = await readHead(config);
    return [...text.matchAll(NAMED)].flatMap(([, path = ""]) => [
      resolve(workingFolder, path),
      resolve(dirname(config), path),
    ]);
  }));
  const paths = [...found.flat(), ...certificates.map((path) => resolve(workingFolder, path))];
  const warnings = await Promise.all([...new Set(paths)].map(async (path) => {
    try {
      const end = describeEnd(readCertificateFacts(await readRegularText(path)), systemClock.now());
      return end === undefined
        ? []
        : [`warning: certificate ${quoteText(path)} ${end}: broker-ctl identity renew`];
    } catch {
      return [];
    }
  }));
  return warnings.flat();
}

async function readHead(path: string): Promise<string> {
  try {
    await using file = await openFile(path);
    return new TextDecoder().decode(await readAt(file, 0, HEAD_BYTES));
  } catch {
    return "";
  }
}
