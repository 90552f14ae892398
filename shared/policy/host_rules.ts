// The hosts of a caller for `GET /v1/hosts`, optionally with their rules. Deny patterns are not sent, because
// they would show an agent which commands the author of the rules forgot.
import type { HostInfo, HostRules, HostsResponse } from "../wire/inventory.ts";
import { withoutEmpty } from "../text.ts";
import { SESSION_MODES } from "../wire/sign.ts";
import type { Pattern } from "./command.ts";
import { type CompiledHost, type CompiledPolicy, needsOwnCertificates } from "./compile.ts";
import { isListedFor } from "./ssh.ts";

/** The hosts that a caller may use, sorted by name. */
export function visibleHosts(policy: CompiledPolicy, caller: string): HostsResponse {
  return pickHosts(policy, caller, [...policy.hosts.keys()].sort(), toHostInfo);
}

/** The hosts of these names that a caller may use, each with its rules. */
export function visibleRules(policy: CompiledPolicy, caller: string, names: Iterable<string>): HostsResponse {
  return pickHosts(policy, caller, names, (host) => ({ ...toHostInfo(host), policy: rulesOf(host) }));
}

function pickHosts(
  policy: CompiledPolicy,
  caller: string,
  names: Iterable<string>,
  describe: (host: CompiledHost) => HostInfo,
): HostsResponse {
  const entries: [string, HostInfo][] = [];
  for (const name of new Set(names)) {
    const host = policy.hosts.get(name);
    if (host !== undefined && isListedFor(policy, caller, host)) entries.push([name, describe(host)]);
  }
  return Object.fromEntries(entries);
}

/** Describes a host without its rules. */
export function toHostInfo(host: CompiledHost): HostInfo {
  const { addr, user, host_key, jump, groups } = host;
  const { allow_sudo, allow_pty, allow_file_transfer, stop_on_disconnect } = host;
  return {
    addr,
    user,
    host_key,
    ...withoutEmpty({ jump, allow_sudo, allow_pty, allow_file_transfer, stop_on_disconnect }),
    ...(needsOwnCertificates(host) && { unsealed_sessions: false }),
    ...withoutEmpty({ groups }),
  };
}

/** The rules of a host without those that deny. */
export function rulesOf(host: CompiledHost): HostRules {
  const { members, restricts, parses, enforcement } = host.commands;
  const active = members.filter(({ mode }) => mode !== "off");
  const allowlists = active.filter(({ mode }) => mode === "allowlist");
  const allow = listSources(allowlists.flatMap((member) => member.allow));
  const approval = listSources(members.flatMap((member) => member.requireApproval));
  const takesShells = !restricts && host.seal === undefined;
  return {
    commands: allowlists.length > 0 ? "allowlist" : active.length > 0 ? "denylist" : "any",
    enforcement,
    shell_parse: restricts && parses,
    ...(allowlists.length > 0 && { allow: allow.sources }),
    ...withoutEmpty({
      allow_omitted: allow.omitted,
      some_denied: active.some(({ deny }) => deny.length > 0),
    }),
    ...withoutEmpty({ require_approval: approval.sources, require_approval_omitted: approval.omitted }),
    ...(host.allow_sudo === true &&
      { sudo_users: [...new Set(["root", ...host.allowed_sudo_users ?? []])] }),
    session_modes: SESSION_MODES.filter((mode) =>
      mode === "exec" || (takesShells && (mode === "shell" || host.allow_pty === true))
    ),
    // A transfer uses a redirection, which no rule can allow if commands are parsed.
    file_transfer: host.allow_file_transfer === true && !(restricts && parses && enforcement === "enforce"),
    max_ttl_seconds: host.maxTtlSeconds,
  };
}

/** The longest list of patterns of one host in an answer, in UTF-16 units; an answer has up to twenty hosts. */
const MAX_LIST_LENGTH = 12_000;

function listSources(
  patterns: readonly Pattern[],
): { readonly sources: readonly string[]; readonly omitted: number } {
  const all = [...new Set(patterns.map(({ source }) => source))];
  let length = 0;
  const sources = all.filter(({ length: own }) => (length += own) <= MAX_LIST_LENGTH);
  return { sources, omitted: all.length - sources.length };
}
