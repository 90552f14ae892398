import { hasUnseen, quoteText } from "@gateway/shared/text";
import { HOST_IDENTITY_SUFFIX, isHostIdentity } from "@gateway/shared/wire";
import type { ControlPlaneConfig } from "@gateway/control-plane/config";
import type { SignerConfig } from "@gateway/signer/config";
import { conflict, invalid } from "../kit/output.ts";

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

export function parseKind(text: string): IdentityKind {
  if (Object.hasOwn(IDENTITY_KINDS, text)) return text as IdentityKind;
  const kinds = Object.keys(IDENTITY_KINDS).join(", ");
  throw invalid(`Cannot add a ${quoteText(text)}: expected one of ${kinds}`);
}

export function checkName(name: string): string {
  if (NAME.test(name) && !isHostIdentity(name) && !hasUnseen(name)) return name;
  throw invalid(
    `Cannot use the name ${quoteText(name)}: expected letters, digits, dots, dashes, underscores and @, ` +
      `and not ${HOST_IDENTITY_SUFFIX} at the end, which hosts have`,
  );
}

/** A server's certificate has names. */
export function isServer(kind: IdentityKind): boolean {
  return IDENTITY_KINDS[kind] !== "client";
}

export const LEAF_DAYS = 90;

/** Commands warn of a certificate this long before its end. */
export const WARN_DAYS = 14;

/** `identity renew --due` renews a certificate this long before its end. */
export const RENEW_DAYS = 30;

type SignerRoles = Pick<SignerConfig, "reload_callers" | "trusted_forwarders" | "callers" | "krl_callers">;
type ControlPlaneRoles = Pick<ControlPlaneConfig, "approval" | "sign_callers" | "trusted_forwarders">;

/** The role of a name in the configs: a certificate of another kind with that name would get its rights. */
export function roleOf(
  name: string,
  signer: SignerRoles,
  controlPlane: ControlPlaneRoles | undefined,
): IdentityKind | "host" | undefined {
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
