import type { ControlPlaneConfig } from "./config.ts";

/** What an operator should know of a config that is valid and yet weak. */
export function configWarnings(config: ControlPlaneConfig): readonly string[] {
  const { approval, sign_callers, behavior, state_db, trusted_forwarders } = config;
  const warnings: string[] = [];
  if (approval.callers.length === 0) {
    warnings.push("approval.callers is empty: nobody can decide, and what needs approval expires");
  }
  if (approval.callers.length > 0 && approval.approval_url_template === "") {
    warnings.push(
      "approval.approval_url_template is empty: notifications have no link, and a browser that names the origin of " +
        "a decision can't decide",
    );
  }
  if (sign_callers.length === 0) {
    warnings.push(
      "sign_callers is empty: every certificate of client_ca but the approvers' may ask for signing",
    );
  }
  const both = sign_callers.filter((caller) => approval.callers.includes(caller));
  if (both.length > 0) {
    warnings.push(
      `in sign_callers and in approval.callers: ${both.join(", ")}: may decide on what others ask`,
    );
  }
  const strangers = trusted_forwarders.filter((caller) =>
    sign_callers.length > 0 && !sign_callers.includes(caller)
  );
  if (strangers.length > 0) {
    warnings.push(`in trusted_forwarders and not in sign_callers: ${strangers.join(", ")}: has no effect`);
  }
  if (behavior.mode === "off") warnings.push("behavior.mode is off: unusual requests are not noticed");
  if (state_db === "") warnings.push("state_db is not set: approvals are gone with the process");
  return warnings;
}
