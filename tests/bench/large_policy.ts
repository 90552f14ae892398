import { parse } from "jsonc-parser";
import type { CallerPolicy, CommandPolicy, HostPolicy, PolicyConfig } from "@gateway/shared/policy";

/** Size of a generated policy. */
export interface PolicySize {
  readonly hosts: number;
  readonly groupPolicies: number;
  readonly callers: number;
}

/** Assumed size of a large installation. */
export const LARGE: PolicySize = { hosts: 10_000, groupPolicies: 200, callers: 50 };

const HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";
const CALLERS_PER_GROUP = 4;

/**
 * Generates the policy of a large installation: every host is in a group with rules, every tenth host is behind a
 * bastion, every fiftieth host has additional rules, and callers see some of the groups.
 *
 * @param all a caller that sees every group
 */
export function generatePolicy(size: PolicySize, all: string): PolicyConfig {
  const groups = Array.from({ length: size.groupPolicies }, (_, n) => `group-${n}`);
  const hosts = Object.fromEntries(
    Array.from({ length: size.hosts }, (_, n) => [hostName(n), host(n, size)]),
  );
  const bastion = {
    ...host(0, size),
    principal: "host:bastion",
    groups: ["bastions"],
    allow_as_bastion: true,
  };
  return {
    hosts: { ...hosts, bastion },
    callers: {
      ...Object.fromEntries(
        Array.from({ length: size.callers - 1 }, (_, n): [string, CallerPolicy] => [`broker-${n}`, {
          allowed_groups: groups.filter((_, group) =>
            group % Math.ceil(size.callers / CALLERS_PER_GROUP) === n % 13
          ),
        }]),
      ),
      [all]: { allowed_groups: [...groups, "bastions"] },
    },
    command_policies: Object.fromEntries(groups.map((group, n) => [group, commandPolicy(n)])),
    group_command_policies: Object.fromEntries(groups.map((group) => [group, [group]])),
    max_ttl_seconds: 300,
  };
}

/** Returns the name of a generated host. */
export function hostName(n: number): string {
  return `host-${String(n).padStart(5, "0")}`;
}

function host(n: number, { groupPolicies }: PolicySize): HostPolicy {
  return {
    addr: `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}:22`,
    user: "deploy",
    host_key: HOST_KEY,
    principal: `host:${hostName(n)}`,
    groups: [`group-${n % groupPolicies}`, "all"],
    allow_sudo: n % 4 === 0,
    allow_pty: n % 8 === 0,
    ...(n % 10 === 1 && { jump: "bastion" }),
    ...(n % 50 === 2 &&
      { command_policy: { mode: "allowlist" as const, allow: [`^app-${n} (status|restart)$`] } }),
  };
}

function commandPolicy(n: number): CommandPolicy {
  return {
    mode: "allowlist",
    allow: [
      "^uptime$",
      "^df( -h)?$",
      `^systemctl (status|is-active) app-${n}(@[0-9]+)?(\\.service)?$`,
      `^journalctl -u app-${n}( -n [0-9]{1,4})?( --no-pager)?$`,
      `^tail -n [0-9]{1,4} /var/log/app-${n}/[a-z0-9._-]+$`,
    ],
    deny: [`^systemctl [a-z-]+ app-${n}-vault`],
    require_approval: [`^systemctl restart app-${n}$`],
  };
}

/** The CN of a stage's broker. */
export const BROKER = "broker-local";

/** Replaces the policy of a `signer.json` by a generated one. */
export async function putLargePolicy(path: string, size: PolicySize = LARGE): Promise<void> {
  const config = parse(await Deno.readTextFile(path), [], { allowTrailingComma: true });
  const policy = generatePolicy(size, BROKER);
  await Deno.writeTextFile(path, JSON.stringify({ ...config, ...policy }, null, 2));
}

/** Adds a generated policy to a `signer.json`. */
export async function addLargePolicy(path: string, size: PolicySize = LARGE): Promise<void> {
  const config = parse(await Deno.readTextFile(path), [], { allowTrailingComma: true });
  const policy = generatePolicy(size, BROKER);
  const { allowed_groups: own } = config.callers[BROKER];
  const { allowed_groups: all = [] } = policy.callers[BROKER] ?? {};
  const callers = {
    ...policy.callers,
    [BROKER]: { ...config.callers[BROKER], allowed_groups: [...own, ...all] },
  };
  // Removes the rules for all hosts, because a bastion cannot have rules.
  const { _default: ofAll, ...rules } = config.group_command_policies;
  const merged = {
    ...config,
    hosts: { ...policy.hosts, ...config.hosts },
    callers,
    command_policies: { ...policy.command_policies, ...config.command_policies },
    group_command_policies: { ...policy.group_command_policies, local: ofAll, ...rules },
  };
  await Deno.writeTextFile(path, JSON.stringify(merged, null, 2));
}

/** Returns the text of a `signer.json` with a generated policy, and the same text with one changed host. */
export async function twoLargeConfigs(path: string): Promise<readonly [string, string]> {
  const text = await Deno.readTextFile(path);
  const changed = text.replace(`"principal": "host:${hostName(7)}"`, `"principal": "host:changed"`);
  if (text === changed) throw new Error("the second config is the same");
  return [text, changed];
}
