// Runtime grants and learned waivers of approval, and the command policies of a host with both. A grant adds
// allow patterns to a host that has an allowlist, and nothing else. A waiver permits one exact command
// without an approval.
import type { Steps } from "../clock.ts";
import { AppError } from "../errors.ts";
import { quoteText, withoutEmpty } from "../text.ts";
import { formatTimestamp, type GrantInfo, LONGEST_GRANT_TTL_SECONDS } from "../wire/policy.ts";
import type { Enforcement } from "../wire/sign.ts";
import {
  type CommandVerdict,
  compilePattern,
  decideCommandSteps,
  escapePattern,
  extendAllowlist,
  type Pattern,
  type PolicySet,
} from "./command.ts";
import { type CompiledHost, needsOwnCertificates } from "./compile.ts";
import { canonicalSudoUser } from "./shell.ts";

/** A grant or a waiver as it is stored. */
export interface Grant {
  /** 24 lowercase hex characters. */
  readonly id: string;
  /** A host or a cluster. */
  readonly host: string;
  /** Patterns for the host's allowlist. */
  readonly allow: readonly string[];
  /** Patterns of commands that need no approval. */
  readonly waiveApproval: readonly string[];
  /** In a grant, an empty value means any caller. A waiver always applies to exactly this caller. */
  readonly caller: string;
  /** In a grant, an empty value means any end user. In a waiver, it means a request without an end user. */
  readonly endUser: string;
  readonly sudo: boolean;
  readonly sudoUser: string;
  /** SHA-256 of the content, for a waiver of a file transfer; else empty. */
  readonly contentSha256: string;
  readonly approver: string;
  /** The approval that a waiver was learned from; else empty. */
  readonly approvalId: string;
  /** Milliseconds since the epoch, like `expiresAt`. */
  readonly grantedAt: number;
  readonly expiresAt: number;
}

/** A grant with its compiled patterns. */
export interface ReadyGrant {
  readonly grant: Grant;
  readonly allow: readonly Pattern[];
  readonly waives: readonly Pattern[];
}

/** All grants and waivers, which may include expired ones; immutable. */
export interface GrantSet {
  readonly byId: ReadonlyMap<string, ReadyGrant>;
  /** The grants of each host, in the order in which they were added. */
  readonly byHost: ReadonlyMap<string, readonly ReadyGrant[]>;
}

/** The grants at a time. */
export interface LiveGrants {
  readonly grants: GrantSet;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** No grants. */
export const NO_GRANTS: GrantSet = { byId: new Map(), byHost: new Map() };

/** Compiles the patterns of a grant, all or none. */
export function compileGrant(
  grant: Grant,
):
  | { readonly kind: "ok"; readonly grant: ReadyGrant }
  | { readonly kind: "invalid"; readonly problem: string } {
  try {
    const allow = grant.allow.map(compilePattern);
    return { kind: "ok", grant: { grant, allow, waives: grant.waiveApproval.map(compilePattern) } };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { kind: "invalid", problem: error.message };
  }
}

/** The set with one more grant. */
export function addGrant(set: GrantSet, ready: ReadyGrant): GrantSet {
  const { id, host } = ready.grant;
  const rest = set.byId.has(id) ? removeGrants(set, new Set([id])) : set;
  return {
    byId: new Map(rest.byId).set(id, ready),
    byHost: new Map(rest.byHost).set(host, [...rest.byHost.get(host) ?? [], ready]),
  };
}

/** The set without the grants of these IDs. */
export function removeGrants(set: GrantSet, ids: ReadonlySet<string>): GrantSet {
  const byId = new Map(set.byId);
  const byHost = new Map(set.byHost);
  for (const id of ids) {
    const removed = byId.get(id);
    if (removed === undefined) continue;
    byId.delete(id);
    const { host } = removed.grant;
    const rest = (byHost.get(host) ?? []).filter(({ grant }) => grant.id !== id);
    if (rest.length > 0) byHost.set(host, rest);
    else byHost.delete(host);
  }
  return { byId, byHost };
}

/** Whether a grant is in force at a time. */
export function isActive({ expiresAt }: Grant, now: number): boolean {
  return now < expiresAt;
}

/** The active grants and waivers, the oldest first. */
export function listActive({ grants, now }: LiveGrants): readonly Grant[] {
  return [...grants.byId.values()].map(({ grant }) => grant).filter((grant) => isActive(grant, now))
    .sort((a, b) => a.grantedAt - b.grantedAt || (a.id < b.id ? -1 : 1));
}

/** The allow patterns of active grants for this host, caller and end user, one list for each grant. */
export function findGrantedPatterns(
  { grants, now }: LiveGrants,
  { host, caller, endUser }: Pick<GatedCommand, "host" | "caller" | "endUser">,
): readonly (readonly Pattern[])[] {
  return (grants.byHost.get(host) ?? [])
    .filter(({ grant, allow }) =>
      allow.length > 0 && isActive(grant, now) && ["", caller].includes(grant.caller) &&
      ["", endUser].includes(grant.endUser)
    )
    .map(({ allow }) => allow);
}

/** A grant on the wire. */
export function toGrantInfo(grant: Grant): GrantInfo {
  return {
    ...{ id: grant.id, host: grant.host },
    ...withoutEmpty({ allow: grant.allow, waive_approval: grant.waiveApproval }),
    ...withoutEmpty({ caller: grant.caller, end_user: grant.endUser }),
    ...withoutEmpty({ sudo: grant.sudo, sudo_user: grant.sudoUser, content_sha256: grant.contentSha256 }),
    ...withoutEmpty({ approver: grant.approver, approval_id: grant.approvalId }),
    granted_at: formatTimestamp(grant.grantedAt),
    expires_at: formatTimestamp(grant.expiresAt),
  };
}

/** A command that may need approval. */
export interface GatedCommand {
  readonly host: string;
  readonly caller: string;
  /** Empty: none. */
  readonly endUser: string;
  readonly sudo: boolean;
  /** The requested account; empty means root. Without `sudo` it is ignored. */
  readonly sudoUser: string;
  readonly command: string;
  /** Whether the request is a file transfer or an apply, whose effect also depends on the content. */
  readonly fileTransfer: boolean;
  /** SHA-256 of the content; empty: unknown, or nothing is written. */
  readonly contentSha256: string;
}

/** The scope of a waiver. A new waiver replaces one of the same scope. */
export type WaiverScope = Pick<
  Grant,
  "host" | "caller" | "endUser" | "sudo" | "sudoUser" | "allow" | "waiveApproval" | "contentSha256"
>;

/** The scope of the waiver that is learned from a command. */
export function waiverScope(gated: GatedCommand): WaiverScope {
  const { host, caller, endUser, sudo, sudoUser, command } = gated;
  return {
    host,
    caller,
    endUser,
    sudo,
    sudoUser: canonicalSudoUser(sudo, sudoUser),
    allow: [],
    waiveApproval: [waiverPattern(command)],
    contentSha256: contentOf(gated) ?? "",
  };
}

/** The reason why no waiver can be learned from a command; `undefined` if one can. */
export function unlearnable(gated: Pick<GatedCommand, "fileTransfer" | "contentSha256">): string | undefined {
  return contentOf(gated) === undefined
    ? "a file transfer or an apply without the digest of its content"
    : undefined;
}

/**
 * The content that a waiver is bound to, because the command of a transfer names only the path. `undefined`
 * if the content is unknown, in which case no waiver applies.
 */
function contentOf(
  { fileTransfer, contentSha256 }: Pick<GatedCommand, "fileTransfer" | "contentSha256">,
): string | undefined {
  return fileTransfer ? contentSha256 || undefined : "";
}

/** The pattern that matches exactly this command. */
export function waiverPattern(command: string): string {
  return `^${escapePattern(command.toWellFormed())}$`;
}

/**
 * Whether an active waiver permits the command without an approval. All fields match exactly, including an
 * empty end user.
 */
export function isWaived({ grants, now }: LiveGrants, gated: GatedCommand): boolean {
  const contentSha256 = contentOf(gated);
  if (contentSha256 === undefined) return false;
  const scope = { ...gated, sudoUser: canonicalSudoUser(gated.sudo, gated.sudoUser), contentSha256 };
  return (grants.byHost.get(gated.host) ?? []).some(({ grant, waives }) =>
    isActive(grant, now) && hasScope(grant, scope) && waives.some((pattern) => pattern.test(gated.command))
  );
}

function hasScope(grant: Grant, scope: Omit<WaiverScope, "allow" | "waiveApproval">): boolean {
  return (["host", "caller", "endUser", "sudo", "sudoUser", "contentSha256"] as const)
    .every((field) => grant[field] === scope[field]);
}

/** The waivers of exactly this scope, including expired ones. */
export function findSameScope(set: GrantSet, scope: WaiverScope): readonly Grant[] {
  const patterns = JSON.stringify(scope.waiveApproval);
  return (set.byHost.get(scope.host) ?? []).map(({ grant }) => grant).filter((grant) =>
    grant.allow.length === 0 && scope.allow.length === 0 && hasScope(grant, scope) &&
    JSON.stringify(grant.waiveApproval) === patterns
  );
}

/** The lifetime of a learned waiver. A maximum (0: none) shortens it. */
export function clampWaiverTtl(seconds: number, maxSeconds: number): number {
  return Math.min(seconds, maxSeconds > 0 ? maxSeconds : Infinity, LONGEST_GRANT_TTL_SECONDS);
}

/**
 * {@linkcode decideCommand} with grants. Grants are checked only if no rule of the host matches. The result
 * is the same as with all rules together, because the host's rules come first and no other verdict depends on
 * a grant.
 */
export function* decideWithGrants(
  commands: PolicySet,
  gated: GatedCommand,
  live: LiveGrants,
): Steps<CommandVerdict & { readonly byGrant: boolean }> {
  const verdict = { ...(yield* decideCommandSteps(commands, gated.command)), byGrant: false };
  if (verdict.rule !== "allowlist:no-match") return verdict;
  const granted = findGrantedPatterns(live, gated);
  if (granted.length === 0) return verdict;
  const extended = yield* decideCommandSteps(extendAllowlist(commands, granted), gated.command);
  return { ...extended, byGrant: extended.kind === "allowed" };
}

/** An intent that the command policies of its host allow. */
export interface AllowedCommand {
  readonly kind: "allowed";
  /** The rule, in the form of `matched_rule` on the wire; empty if no rule decided. */
  readonly matchedRule: string;
  /** Empty unless a command policy was evaluated. */
  readonly enforcement: Enforcement | "";
  /** A human other than the requester must approve first. Never true in audit mode. */
  readonly requireApproval: boolean;
  /** The command needs no approval only because of an active waiver. */
  readonly approvalWaived: boolean;
  /** The rules of the config alone would have denied the command. */
  readonly byGrant: boolean;
  /** In audit mode: the effect that enforcement would have had. */
  readonly warning: string;
  readonly wouldDeny: boolean;
  readonly wouldRequireApproval: boolean;
}

/** An intent that the command policies of its host deny. */
export interface DeniedCommand {
  readonly kind: "denied";
  /** The reason, for people. Host, caller and user are in quotes. */
  readonly reason: string;
  /** Empty if no rule denied. */
  readonly matchedRule: string;
  /** Empty unless a command policy was evaluated. */
  readonly enforcement: Enforcement | "";
}

/**
 * Applies a host's command policies. Audit mode turns a denial by the rules into a warning, and nothing else: all
 * other checks deny in both modes. A role other than target runs no command.
 */
export function* decideHostCommand(
  host: CompiledHost,
  intent: GatedCommand & Readonly<Record<"role" | "purpose" | "sessionMode", string>>,
  live: LiveGrants,
): Steps<AllowedCommand | DeniedCommand> {
  const { commands, name } = host;
  if (intent.role !== "target" || !commands.restricts) return allow({ enforcement: "" });
  const { enforcement } = commands;
  const deny = (reason: string, matchedRule = ""): DeniedCommand => ({
    kind: "denied",
    reason,
    matchedRule,
    enforcement,
  });
  if (intent.purpose === "session") {
    if (intent.sessionMode !== "exec") {
      return deny(`host ${quoteText(name)} has command_policy: sessions require mode="exec"`);
    }
    if (needsOwnCertificates(host)) {
      return deny(
        `host ${
          quoteText(name)
        } has unsealed_sessions=false: no certificate for a session; use one-shot commands, ` +
          "or a broker that requests a certificate for each command of a session, or seal the host",
      );
    }
    // Only the session opens here. Each of its commands is decided later.
    if (intent.command === "") return allow({ enforcement });
  }
  const verdict = yield* decideWithGrants(commands, intent, live);
  const { rule: matchedRule, requireApproval, byGrant } = verdict;
  // A waiver replaces only the approval: a denied command stays denied.
  if (verdict.kind === "allowed" && requireApproval && isWaived(live, intent)) {
    return allow({
      enforcement,
      matchedRule: `approval-waived:${matchedRule}`,
      approvalWaived: true,
      byGrant,
    });
  }
  if (enforcement === "audit") return audit(verdict);
  if (verdict.kind === "allowed") return allow({ enforcement, matchedRule, requireApproval, byGrant });
  const [, structure] = /^shell-parse:(.*)$/s.exec(matchedRule) ?? [];
  return deny(
    structure === undefined
      ? `command not allowed on ${quoteText(name)} by command_policy (${matchedRule})`
      : `command_policy for ${quoteText(name)}: ${structure}`,
    matchedRule,
  );
}

function allow(facts: Partial<AllowedCommand> & Pick<AllowedCommand, "enforcement">): AllowedCommand {
  return {
    kind: "allowed",
    matchedRule: "",
    requireApproval: false,
    approvalWaived: false,
    byGrant: false,
    warning: "",
    wouldDeny: false,
    wouldRequireApproval: false,
    ...facts,
  };
}

function audit({ kind, rule: matchedRule, requireApproval }: CommandVerdict): AllowedCommand {
  const wouldDeny = kind === "denied";
  const would = [
    ...(wouldDeny ? ["would deny"] : []),
    ...(requireApproval ? ["would require approval"] : []),
  ].join(" and ");
  const warning = would === "" ? "" : `command_policy audit: ${would} (${matchedRule})`;
  return allow({
    enforcement: "audit",
    matchedRule,
    warning,
    wouldDeny,
    wouldRequireApproval: requireApproval,
  });
}
