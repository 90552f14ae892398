import { controlPlaneConfig } from "@gateway/control-plane/config";
import { parseConfig } from "@gateway/shared/config";
import { APPROVAL_WAIT_SECONDS, type ConfigChoices, quote } from "./config_text.ts";
import { publicAddress, reachable } from "./options.ts";
import { approvalsUrl, certificatePath, keyPath, type Layout } from "./layout.ts";

/**
 * The text of `control-plane.json`, checked as the control plane will check it.
 *
 * @throws {AppError} `invalid_config` when it would not load
 */
export function formatControlPlaneConfig(layout: Layout, { listeners, names = [] }: ConfigChoices): string {
  const text = `// Made by broker-ctl init: the control plane, between the brokers and the signer.
{
  // Approvers come here too.
  "listen": ${quote(listeners.controlPlane)},
  "server_cert": ${quote(certificatePath(layout, "controlPlane"))},
  "server_key": ${quote(keyPath(layout, "controlPlane"))},
  "client_ca": ${quote(layout.mtlsCa)},
  "denied_callers": ${quote(layout.deniedCallers)},

  // The signer knows it as a trusted forwarder.
  "signer": {
    "url": ${quote(`https://${reachable(listeners.signer)}`)},
    "client_cert": ${quote(certificatePath(layout, "controlPlaneClient"))},
    "client_key": ${quote(keyPath(layout, "controlPlaneClient"))},
    "ca": ${quote(layout.mtlsCa)}
  },

  // Whose requests go to the signer, and whose word about their end users counts.
  "sign_callers": ["broker-local"],
  "trusted_forwarders": ["broker-local"],

  // What needs approval stands in the policies of signer.json ("require_approval"); here, who may give it.
  // Nobody approves what it asked for itself.
  "approval": {
    "callers": ["approver-local"],
    "timeout_seconds": ${APPROVAL_WAIT_SECONDS},
    "notifier": "log",
    "approval_url_template": ${quote(`${approvalsUrl(publicAddress(listeners.controlPlane, names))}/{id}`)}
  },

  // observe: what is unusual stands in the audit log. enforce: it has to be approved, and too much is refused.
  "behavior": { "mode": "observe", "rate_limit_per_min": 60 },

  "audit_log": ${quote(layout.controlPlaneAuditLog)},
  "audit_key": ${quote(layout.controlPlaneAuditKey)},
  "audit_fail_mode": "closed",
  "monitor_listen": ${quote(listeners.controlPlaneMonitor)},

  // Approvals, and what is usual for whom, survive a restart.
  "state_db": ${quote(layout.controlPlaneState)}
}
`;
  const kind = { what: "control plane config", schema: controlPlaneConfig };
  parseConfig({ ...kind, text, source: layout.controlPlaneConfig });
  return text;
}
