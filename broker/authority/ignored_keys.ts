import type { BrokerConfig } from "../config/config.ts";
import type { BrokerHost } from "../config/host_config.ts";

/** The keys of a host that only local mode looks at. */
const POLICY_FIELDS = [
  "principal",
  "source_address",
  "command_policy",
  "allow_sudo",
  "allowed_sudo_users",
  "allow_pty",
  "allow_file_transfer",
  "allow_as_bastion",
  "stop_on_disconnect",
] as const satisfies readonly (keyof BrokerHost)[];

const TOP_LEVEL = [
  "ca_key",
  "ca_keys",
  "command_policies",
  "group_command_policies",
  "hosts",
  "kubernetes",
  "source_address",
] as const satisfies readonly (keyof BrokerConfig)[];

/**
 * One line that names the keys of a config in remote mode that have no effect; `undefined` if there are none.
 */
export function describeIgnoredKeys(config: BrokerConfig): string | undefined {
  if (config.signer === undefined) return undefined;
  const keys = TOP_LEVEL.filter((key) => isSet(config[key]));
  const hosts = Object.keys(config.hosts).sort().flatMap((name) => {
    const fields = POLICY_FIELDS.filter((field) => isSet(config.hosts[name]?.[field]));
    return fields.length === 0 ? [] : [`${name}: ${fields.join(", ")}`];
  });
  const parts = [
    ...(keys.length > 0 ? [keys.join(", ")] : []),
    ...(hosts.length > 0 ? [`policy fields on ${hosts.length} host(s) (${hosts.join("; ")})`] : []),
  ];
  if (parts.length === 0) return undefined;
  return `warning: remote mode (signer block set): ignoring local-mode config — ${parts.join("; ")}. ` +
    "Host inventory and policy come from the signer.";
}

/** Whether a value says anything: an empty one means the same as none. */
function isSet(value: unknown): boolean {
  if (value === undefined || value === "" || value === false) return false;
  return typeof value !== "object" || value === null || Object.keys(value).length > 0;
}
