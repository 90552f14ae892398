import type { SignerConfig } from "@gateway/signer/config";
import type { CommandPolicy, HostPolicy } from "@gateway/shared/policy";

/** A command policy that holds for a host, and why it does. */
export interface Contribution {
  /** Its name in the library, or `<inline>`. */
  readonly name: string;
  /** The host group that brings it, `_default`, or `host` for the host's own. */
  readonly via: string;
  /** What is in it: `allowlist(allow:3) approval:1`. */
  readonly label: string;
}

/** The part of the signer's config that says which policies hold where. */
type PolicyLibrary = Pick<SignerConfig, "command_policies" | "group_command_policies">;

/**
 * The command policies of a host, in the order in which they are asked: those of `_default`, of its groups, and
 * its own if that restricts anything. One that several groups bring is named once.
 */
export function listContributions(library: PolicyLibrary, host: HostPolicy): readonly Contribution[] {
  const found = new Map<string, Contribution>();
  for (const via of ["_default", ...(host.groups ?? [])]) {
    for (const name of library.group_command_policies[via] ?? []) {
      const policy = library.command_policies[name];
      if (policy !== undefined && !found.has(name)) found.set(name, { name, via, label: describe(policy) });
    }
  }
  const inline = host.command_policy;
  return inline === undefined || !restricts(inline)
    ? [...found.values()]
    : [...found.values(), { name: "<inline>", via: "host", label: describe(inline) }];
}

function restricts({ mode = "", require_approval: approval = [] }: CommandPolicy): boolean {
  return (mode !== "" && mode !== "off") || approval.length > 0;
}

function describe(policy: CommandPolicy): string {
  const { mode = "", allow = [], deny = [], require_approval: approval = [] } = policy;
  const parts = [
    ...(mode === "allowlist" ? [`allowlist(allow:${allow.length})`] : []),
    ...(mode === "denylist" ? [`denylist(deny:${deny.length})`] : []),
    ...(mode === "allowlist" && deny.length > 0 ? [`deny:${deny.length}`] : []),
    ...(approval.length > 0 ? [`approval:${approval.length}`] : []),
    ...(policy.shell_parse === false ? ["shell_parse:off"] : []),
    ...(policy.enforcement === "audit" ? ["audit"] : []),
  ];
  return parts.length === 0 ? "off" : parts.join(" ");
}
