import { AppError } from "@gateway/shared/errors";
import { hasUnseen, quoteText } from "@gateway/shared/text";
import { HOST_IDENTITY_SUFFIX, isHostIdentity } from "@gateway/shared/wire";
import type { ControlPlaneConfig } from "@gateway/control-plane/config";
import type { SignerConfig } from "@gateway/signer/config";

/** What a leaf may be used for in TLS. */
export type LeafUsage = "client" | "server" | "both";

/** The names a local listener is reached by. */
export const LOCAL_NAMES: readonly string[] = ["localhost", "127.0.0.1", "::1"];

/** Who can have an identity, and what its certificate is good for. */
export const IDENTITY_KINDS = {
  agent: { usage: "client", what: "asks a broker over HTTP" },
  broker: { usage: "both", what: "asks the control plane or the signer, and is asked by agents" },
  approver: { usage: "client", what: "decides on approvals" },
  operator: { usage: "client", what: "administers the signer" },
  signer: { usage: "server", what: "is asked by brokers and the control plane" },
  "control-plane": { usage: "both", what: "asks the signer, and is asked by brokers and approvers" },
} as const satisfies Record<string, { readonly usage: LeafUsage; readonly what: string }>;

/** One of {@linkcode IDENTITY_KINDS}. */
export type IdentityKind = keyof typeof IDENTITY_KINDS;

const NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$/;

/** @throws {AppError} `invalid_request` for another word */
export function parseKind(text: string): IdentityKind {
  if (Object.hasOwn(IDENTITY_KINDS, text)) return text as IdentityKind;
  const kinds = Object.keys(IDENTITY_KINDS).join(", ");
  throw new AppError("invalid_request", `Cannot add a ${quoteText(text)}: expected one of ${kinds}`);
}

/** @throws {AppError} `invalid_request` for what is no good name of a file, a caller and a word of a shell */
export function checkName(name: string): string {
  if (NAME.test(name) && !isHostIdentity(name) && !hasUnseen(name)) return name;
  throw new AppError(
    "invalid_request",
    `Cannot use the name ${quoteText(name)}: expected letters, digits, dots, dashes, underscores and @, ` +
      `and not ${HOST_IDENTITY_SUFFIX} at the end, which hosts have`,
  );
}

/** What a certificate is good for beside being a client; servers are reached by names. */
export function isServer(kind: IdentityKind): boolean {
  return IDENTITY_KINDS[kind].usage !== "client";
}

/** How long a certificate is good for when nobody says otherwise, in days. */
export const LEAF_DAYS = 90;

/** How long before its end a certificate is warned of. */
export const WARN_DAYS = 14;

/** How long before its end a certificate is renewed, of those that are due. */
export const RENEW_DAYS = 30;

type SignerRoles = Pick<SignerConfig, "reload_callers" | "trusted_forwarders" | "callers" | "krl_callers">;
type ControlPlaneRoles = Pick<ControlPlaneConfig, "approval" | "sign_callers" | "trusted_forwarders">;

/** What names may do, by the configs: a certificate of another kind with such a name would get its rights. */
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

/** @throws {AppError} `conflict` when the name has the rights of another kind */
export function checkRole(kind: IdentityKind, name: string, role: ReturnType<typeof roleOf>): void {
  if (role === undefined || role === kind) return;
  throw new AppError(
    "conflict",
    `Cannot add ${kind} ${quoteText(name)}: the configs give that name the rights of a ${role}`,
  );
}
