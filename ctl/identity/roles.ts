import type { ControlPlaneConfig } from "@gateway/control-plane/config";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { SignerConfig } from "@gateway/signer/config";
import type { IdentityKind } from "./kinds.ts";

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
