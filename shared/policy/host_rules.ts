/**
 * What a caller may know of the rules of a host that it may use: what is allowed, what needs approval, and which ways
 * there are. What is denied stays the signer's: a list of it is a list of what somebody thought of.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { compileSample, sampleConfig } from "../testing/sample_policy.ts";
 * import { visibleRules } from "./host_rules.ts";
 *
 * const policy = compileSample(sampleConfig({ command_policy: { mode: "allowlist", allow: ["^uptime$"], deny: ["x"] } }));
 * const { web01 } = visibleRules(policy, "broker-1", ["web01", "other"]);
 * assert.deepEqual(web01?.policy?.allow, ["^uptime$"]);
 * assert.equal(web01?.policy?.some_denied, true);
 * ```
 *
 * @module
 */
import type { HostInfo, HostRules, HostsResponse } from "../wire/host.ts";
import { SESSION_MODES, type SessionMode } from "../wire/sign.ts";
import type { CompiledHost, CompiledPolicy } from "./compile.ts";
import type { PolicySet } from "./command.ts";
import type { Pattern } from "./pattern.ts";
import { isVisibleHost, toHostInfo } from "./rbac.ts";

/** The hosts of these names that a caller may use, each with its rules; the others are left out. */
export function visibleRules(
  policy: CompiledPolicy,
  caller: string,
  names: Iterable<string>,
): HostsResponse {
  const entries: [string, HostInfo][] = [];
  for (const name of new Set(names)) {
    const host = policy.hosts.get(name);
    if (host === undefined || !isVisibleHost(policy, caller, host)) continue;
    entries.push([name, { ...toHostInfo(host), policy: rulesOf(host) }]);
  }
  return Object.fromEntries(entries);
}

/** The rules of a host without those that deny. */
export function rulesOf(host: CompiledHost): HostRules {
  const { commands } = host;
  const active = commands.members.filter(({ mode }) => mode !== "off");
  const allowlists = active.filter(({ mode }) => mode === "allowlist");
  const allow = listSources(allowlists.map((member) => member.allow));
  const approval = listSources(commands.members.map((member) => member.requireApproval));
  return {
    commands: kindOf(commands),
    enforcement: commands.enforcement,
    shell_parse: commands.restricts && commands.parses,
    ...(allowlists.length === 0 ? {} : { allow: allow.sources }),
    ...(allow.omitted === 0 ? {} : { allow_omitted: allow.omitted }),
    ...(active.some(({ deny }) => deny.length > 0) ? { some_denied: true } : {}),
    ...(approval.sources.length === 0 ? {} : { require_approval: approval.sources }),
    ...(approval.omitted === 0 ? {} : { require_approval_omitted: approval.omitted }),
    ...(host.allowSudo ? { sudo_users: [...new Set(["root", ...host.allowedSudoUsers])] } : {}),
    session_modes: SESSION_MODES.filter((mode) => permitsMode(host, mode)),
    file_transfer: host.allowFileTransfer && !refusesRedirections(commands),
    max_ttl_seconds: host.maxTtlSeconds,
  };
}

function kindOf({ members }: PolicySet): HostRules["commands"] {
  for (const kind of ["allowlist", "denylist"] as const) {
    if (members.some(({ mode }) => mode === kind)) return kind;
  }
  return "any";
}

function permitsMode({ commands, allowPty, seal }: CompiledHost, mode: SessionMode): boolean {
  if (mode === "exec") return true;
  return !commands.restricts && seal === undefined && (mode !== "pty" || allowPty);
}

/** Files are moved by a redirection, which no rule can let through where commands are parsed. */
function refusesRedirections({ restricts, parses, enforcement }: PolicySet): boolean {
  return restricts && parses && enforcement === "enforce";
}

/** What one list of patterns of one host may take in an answer, in UTF-16 units; an answer has up to twenty hosts. */
const MAX_LIST_LENGTH = 12_000;

function listSources(
  lists: readonly (readonly Pattern[])[],
): { readonly sources: readonly string[]; readonly omitted: number } {
  const all = [...new Set(lists.flat().map(({ source }) => source))];
  const sources: string[] = [];
  let length = 0;
  for (const source of all) {
    length += source.length;
    if (length > MAX_LIST_LENGTH) break;
    sources.push(source);
  }
  return { sources, omitted: all.length - sources.length };
}
