/**
 * The command firewall: several command policies joined to one set, and what the set says of a command.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { composePolicies, decideCommand } from "@gateway/shared/policy";
 * import { compilePattern } from "@gateway/shared/policy";
 *
 * const set = composePolicies([{
 *   mode: "allowlist",
 *   enforcement: "enforce",
 *   allow: [compilePattern("^uptime$")],
 *   deny: [],
 *   requireApproval: [],
 *   shellParse: true,
 * }]);
 * assert.deepEqual(decideCommand(set, "uptime; id"), {
 *   kind: "denied",
 *   rule: "allowlist:no-match",
 *   structure: "",
 *   requireApproval: false,
 * });
 * ```
 *
 * @module
 */
import type { Enforcement } from "../wire/sign.ts";
import type { Pattern } from "./pattern.ts";
import { finish, type Steps } from "../clock.ts";
import { parseCommand } from "./shell.ts";

/** How much text is matched in a step: the engine takes up to a microsecond for a character. */
const STEP_CHARACTERS = 4096;

/** One command policy, ready to decide. */
export interface CompiledCommandPolicy {
  readonly mode: "off" | "allowlist" | "denylist";
  /** Whether the policy blocks or only warns. */
  readonly enforcement: Enforcement;
  /** Consulted in an allowlist only. */
  readonly allow: readonly Pattern[];
  /** Consulted in every mode but `off`. */
  readonly deny: readonly Pattern[];
  /** Consulted in every mode, `off` included. */
  readonly requireApproval: readonly Pattern[];
  /** Whether a command is parsed as a shell does, and each part judged for itself. */
  readonly shellParse: boolean;
}

/** The union of all command policies that hold for one host. */
export interface PolicySet {
  /** In the order in which they are consulted. */
  readonly members: readonly CompiledCommandPolicy[];
  /** Whether any member restricts; if none does the set has no opinion. */
  readonly restricts: boolean;
  /** `enforce` when any restricting member enforces. */
  readonly enforcement: Enforcement;
  /** Whether commands are parsed: unless every member switched it off. */
  readonly parses: boolean;
}

/** What a {@linkcode PolicySet} says of one command, before enforcement is considered. */
export type CommandVerdict =
  | {
    readonly kind: "allowed";
    /** `require_approval:<pattern>`, `allow:<pattern>`, or empty when no rule spoke. */
    readonly rule: string;
    readonly requireApproval: boolean;
  }
  | {
    readonly kind: "denied";
    /** `deny:<pattern>`, `allowlist:no-match` or `shell-parse:<reason>`. */
    readonly rule: string;
    /** The reason of a structural refusal; empty when a rule denied. */
    readonly structure: string;
    /** Whether the denied command would also have needed approval. */
    readonly requireApproval: boolean;
  };

/** Whether a policy restricts anything: an allowlist, a denylist, or any approval rule. */
export function isRestricting(policy: CompiledCommandPolicy): boolean {
  return policy.mode !== "off" || policy.requireApproval.length > 0;
}

/** Joins policies; the order is that in which their rules are consulted. */
export function composePolicies(members: readonly CompiledCommandPolicy[]): PolicySet {
  const restricting = members.filter(isRestricting);
  return {
    members,
    restricts: restricting.length > 0,
    enforcement: restricting.length > 0 && restricting.every((policy) => policy.enforcement === "audit")
      ? "audit"
      : "enforce",
    parses: !(members.length > 0 && members.every((policy) => !policy.shellParse)),
  };
}

/** Whether a set has an allowlist, to which patterns can be added. */
export function hasAllowlist({ members }: PolicySet): boolean {
  return members.some(({ mode }) => mode === "allowlist");
}

/**
 * A set with more allow patterns, a member for each list; without an allowlist it stays as it is. Denials,
 * approval, enforcement and parsing are those of the set.
 */
export function extendAllowlist(set: PolicySet, lists: readonly (readonly Pattern[])[]): PolicySet {
  if (!hasAllowlist(set)) return set;
  const members = lists.map((allow): CompiledCommandPolicy => ({
    mode: "allowlist",
    enforcement: set.enforcement,
    allow,
    deny: [],
    requireApproval: [],
    shellParse: set.parses,
  }));
  return { ...set, members: [...set.members, ...members] };
}

/**
 * Decides one command. Each simple command in it is a candidate of its own, its words joined by one space, so
 * that no pattern can match across `;` or `|`; without parsing the raw text is the one candidate. The first
 * denial wins, deny before approval before allow.
 */
export function decideCommand(set: PolicySet, command: string): CommandVerdict {
  return finish(decideCommandSteps(set, command));
}

/** {@linkcode decideCommand} in steps, for a service that answers other requests meanwhile. */
export function* decideCommandSteps(set: PolicySet, command: string): Steps<CommandVerdict> {
  const text = command.toWellFormed();
  if (!set.parses) return yield* decideCandidates(set, [text]);
  const parsed = parseCommand(text);
  switch (parsed.kind) {
    case "refused":
      return {
        kind: "denied",
        rule: `shell-parse:${parsed.reason}`,
        structure: parsed.reason,
        requireApproval: false,
      };
    case "commands":
      return yield* decideCandidates(set, parsed.commands.map((words) => words.join(" ")));
    default:
      return parsed satisfies never;
  }
}

function* decideCandidates(set: PolicySet, candidates: readonly string[]): Steps<CommandVerdict> {
  let approvalRule = "";
  let lastRule = "";
  const known = new Map<string, CommandVerdict>();
  for (const candidate of candidates) {
    const verdict = known.get(candidate) ?? (yield* decideCandidate(set, candidate));
    known.set(candidate, verdict);
    if (verdict.kind === "denied") return verdict;
    if (verdict.requireApproval && approvalRule === "") approvalRule = verdict.rule;
    lastRule = verdict.rule;
  }
  const requireApproval = approvalRule !== "";
  return { kind: "allowed", rule: requireApproval ? approvalRule : lastRule, requireApproval };
}

function* decideCandidate({ members }: PolicySet, candidate: string): Steps<CommandVerdict> {
  const approval = yield* firstMatch(members.map((policy) => policy.requireApproval), candidate);
  const requireApproval = approval !== undefined;
  const active = members.filter((policy) => policy.mode !== "off");
  const deny = yield* firstMatch(active.map((policy) => policy.deny), candidate);
  if (deny !== undefined) {
    return { kind: "denied", rule: `deny:${deny.source}`, structure: "", requireApproval };
  }
  const allowlists = active.filter((policy) => policy.mode === "allowlist");
  const allow = yield* firstMatch(allowlists.map((policy) => policy.allow), candidate);
  if (allowlists.length > 0 && allow === undefined) {
    return { kind: "denied", rule: "allowlist:no-match", structure: "", requireApproval };
  }
  if (approval !== undefined) {
    return { kind: "allowed", rule: `require_approval:${approval.source}`, requireApproval };
  }
  return { kind: "allowed", rule: allow === undefined ? "" : `allow:${allow.source}`, requireApproval };
}

function* firstMatch(
  lists: readonly (readonly Pattern[])[],
  candidate: string,
): Steps<Pattern | undefined> {
  let tested = 0;
  for (const pattern of lists.flat()) {
    tested += candidate.length + 64;
    if (tested >= STEP_CHARACTERS) {
      tested = 0;
      yield;
    }
    if (pattern.test(candidate)) return pattern;
  }
  return undefined;
}
