import { hasInvisible, quoteText } from "@gateway/shared/text";
import { HOST_IDENTITY_SUFFIX, isHostIdentity } from "@gateway/shared/wire";
import type { ControlPlaneConfig } from "@gateway/control-plane/config";
import type { SignerConfig } from "@gateway/signer/config";
import { conflict, invalid } from "../kit/output.ts";
import { X509Certificate } from "node:crypto";
import { dirname, resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { openFile, readAt, readRegularText } from "@gateway/shared/files";

export type LeafUsage = "client" | "server" | "both";

/** The names of a local listener. */
export const LOCAL_NAMES: readonly string[] = ["localhost", "127.0.0.1", "::1"];

export const IDENTITY_KINDS = {
  agent: "client",
  broker: "both",
  approver: "client",
  operator: "client",
  signer: "server",
  "control-plane": "both",
} as const satisfies Record<string, LeafUsage>;

export type IdentityKind = keyof typeof IDENTITY_KINDS;

const NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$/;

export function checkName(name: string): string {
  if (NAME.test(name) && !isHostIdentity(name) && !hasInvisible(name)) return name;
  throw invalid(
    `Cannot use name ${quoteText(name)}: expected letters, digits, dots, dashes, underscores and @, ` +
      `without the suffix ${HOST_IDENTITY_SUFFIX} of hosts`,
  );
}

/** Checks if certificates of a kind are for a server, and so contain its names. */
export function isServer(kind: IdentityKind): boolean {
  return IDENTITY_KINDS[kind] !== "client";
}

export const LEAF_DAYS = 90;

/** Commands warn this long before a certificate expires. */
const WARN_DAYS = 14;

/** `identity renew --due` renews certificates that expire within this time. */
export const RENEW_DAYS = 30;

type SignerRoles = Pick<SignerConfig, "reload_callers" | "trusted_forwarders" | "callers" | "krl_callers">;
type ControlPlaneRoles = Pick<ControlPlaneConfig, "approval" | "sign_callers" | "trusted_forwarders">;

/** The role of a name in the configs. A certificate of another kind with that name would get the role's rights. */
export function roleOf(name: string, signer: SignerRoles, controlPlane: ControlPlaneRoles | undefined) {
  if (signer.reload_callers.includes(name)) return "operator";
  if (signer.trusted_forwarders.includes(name)) return "control-plane";
  if (Object.hasOwn(signer.krl_callers, name)) return "host";
  if (controlPlane?.approval.callers.includes(name) === true) return "approver";
  const isBroker = Object.hasOwn(signer.callers, name) ||
    controlPlane?.sign_callers.includes(name) === true ||
    controlPlane?.trusted_forwarders.includes(name) === true;
  return isBroker && name !== "_default" ? "broker" : undefined;
}

export function checkRole(kind: IdentityKind, name: string, role: ReturnType<typeof roleOf>): void {
  if (role === undefined || role === kind) return;
  throw conflict(`Cannot add ${kind} ${quoteText(name)}: the configs give that name the rights of a ${role}`);
}

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

/** Describes the expiry of a certificate; `undefined` if it is not soon. */
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

/** Only the beginning of a config is searched, because certificates come before the list of hosts, which can be long. */
const HEAD_BYTES = 65_536;
const NAMED = /"(?:server_cert|client_cert|client_ca|cert|ca)"\s*:\s*"([^"\\]+)"/g;

/**
 * Warnings about certificates that expire soon or have expired: those in configs, and others by their paths. Unreadable
 * files are skipped, because the command that needs them reports them.
 */
export async function expiryWarnings(
  configs: readonly string[],
  workingFolder: string,
  certificates: readonly string[] = [],
): Promise<readonly string[]> {
  const found = await Promise.all(configs.map(async (config) => {
    const text = await readHead(config).catch(() => "");
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
  await using file = await openFile(path);
  return new TextDecoder().decode(await readAt(file, 0, HEAD_BYTES));
}
