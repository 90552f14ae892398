import { X509Certificate } from "node:crypto";
import { IDENTITY_KINDS, type IdentityKind, WARN_DAYS } from "./kinds.ts";

/** What a certificate says of itself. */
export interface CertificateFacts {
  readonly commonName: string;
  /** `undefined`: made by another program, or before identities had kinds. */
  readonly kind: IdentityKind | undefined;
  /** Names and addresses that it stands for as a server. */
  readonly names: readonly string[];
  readonly isAuthority: boolean;
  readonly notBefore: Date;
  readonly notAfter: Date;
}

const DAY_MS = 86_400_000;

/** @throws for what is no certificate */
export function readCertificateFacts(pem: string): CertificateFacts {
  const certificate = new X509Certificate(pem);
  const { subject } = certificate.toLegacyObject();
  const { CN = "", OU } = subject as { readonly CN?: string; readonly OU?: unknown };
  return {
    commonName: String(CN),
    kind: typeof OU === "string" && Object.hasOwn(IDENTITY_KINDS, OU) ? OU as IdentityKind : undefined,
    names: (certificate.subjectAltName ?? "").split(", ").flatMap((text) =>
      /^(?:DNS|IP Address):(.+)$/.exec(text)?.slice(1) ?? []
    ),
    isAuthority: certificate.ca,
    notBefore: new Date(certificate.validFrom),
    notAfter: new Date(certificate.validTo),
  };
}

/** What to say of a certificate's end, if anything. */
export function describeEnd({ notAfter, notBefore }: CertificateFacts, now: number): string | undefined {
  const time = notAfter.toISOString().replace(".000", "");
  if (now > notAfter.getTime()) return `expired at ${time}`;
  if (now < notBefore.getTime()) return `is not valid before ${notBefore.toISOString().replace(".000", "")}`;
  const days = Math.floor((notAfter.getTime() - now) / DAY_MS);
  return days < WARN_DAYS ? `expires in ${days} ${days === 1 ? "day" : "days"}, at ${time}` : undefined;
}

/** Whether less is left of a certificate than that many days. */
export function endsWithin({ notAfter }: CertificateFacts, days: number, now: number): boolean {
  return notAfter.getTime() - now < days * DAY_MS;
}
