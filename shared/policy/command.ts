// The command firewall: RE2 patterns, command policies that are joined into one set, and the verdict of a set
// on a command.
import { RE2JS } from "re2js";
import { finish, type Steps } from "../clock.ts";
import { AppError, configError, errorText } from "../errors.ts";
import { formatKeyPath, quoteText, shortenText } from "../text.ts";
import type { Enforcement } from "../wire/sign.ts";
import type { CommandPolicy, PolicyConfig } from "./model.ts";
import { parseCommand } from "./shell.ts";

/** One compiled pattern. */
export interface Pattern {
  readonly source: string;
  /** Searches anywhere in the text. A lone surrogate counts as U+FFFD. */
  test(text: string): boolean;
}

/**
 * Compiles an RE2 pattern, so that no pattern and no input takes more than linear time. Compilation happens when a
 * policy is loaded, never for a request.
 *
 * @throws {AppError} `invalid_config` if the text is not an RE2 pattern
 */
export function compilePattern(source: string): Pattern {
  const invalid = (why: string, cause?: unknown) => {
    return configError(`Cannot compile pattern ${quoteText(shortenText(source, 200))}: ${why}`, cause);
  };
  // The engine accepts a lone surrogate as a character. UTF-8 cannot contain one, so the pattern would never
  // match.
  if (!source.isWellFormed()) throw invalid("a lone surrogate is not text");
  try {
    // Pass no flags: LOOKBEHINDS would accept patterns that RE2 rejects, and matching would no longer be
    // linear.
    const compiled = RE2JS.compile(source, 0);
    return { source, test: (text) => compiled.test(text.toWellFormed()) };
  } catch (error) {
    throw invalid(errorText(error), error);
  }
}

/** The pattern that matches a text literally. */
export function escapePattern(text: string): string {
  return text.replace(/[\\.+*?()|[\]{}^$]/g, "\\$&");
}

/** One compiled command policy. */
export interface CompiledCommandPolicy {
  readonly mode: "off" | "allowlist" | "denylist";
  readonly enforcement: Enforcement;
  /** Checked only if the mode is allowlist. */
  readonly allow: readonly Pattern[];
  /** Checked in every mode except `off`. */
  readonly deny: readonly Pattern[];
  /** Checked in every mode, including `off`. */
  readonly requireApproval: readonly Pattern[];
  readonly shellParse: boolean;
}

/** The defaults of a policy. The mode has no default, because a forgotten mode must not permit anything. */
export const NO_RULES: Omit<CompiledCommandPolicy, "mode"> = {
  ...{ enforcement: "enforce", shellParse: true, allow: [], deny: [], requireApproval: [] },
};

/** The union of all command policies of one host. */
export interface PolicySet {
  /** The policies in the order in which they are checked. */
  readonly members: readonly CompiledCommandPolicy[];
  /** Whether any member restricts commands. */
  readonly restricts: boolean;
  /** `enforce` if any restricting member enforces. */
  readonly enforcement: Enforcement;
  /** Whether commands are parsed. Parsing is off only if every member turned it off. */
  readonly parses: boolean;
}

/** The verdict of a {@linkcode PolicySet} on one command, before enforcement. */
export interface CommandVerdict {
  readonly kind: "allowed" | "denied";
  /**
   * `require_approval:<pattern>`, `allow:<pattern>`, `deny:<pattern>`, `allowlist:no-match`, `shell-parse:<reason>`, or
   * empty if no rule matched.
   */
  readonly rule: string;
  /** Whether the command needs approval, or would need it if it were not denied. */
  readonly requireApproval: boolean;
}

/** Whether a policy restricts anything: an allowlist, a denylist, or a rule of approval. */
export function isRestricting(policy: CompiledCommandPolicy): boolean {
  return policy.mode !== "off" || policy.requireApproval.length > 0;
}

/** Joins policies; their rules are consulted in this order. */
export function composePolicies(members: readonly CompiledCommandPolicy[]): PolicySet {
  const restricting = members.filter(isRestricting);
  const restricts = restricting.length > 0;
  const isAudit = restricts && restricting.every((policy) => policy.enforcement === "audit");
  const parses = members.length === 0 || members.some((policy) => policy.shellParse);
  return { members, restricts, enforcement: isAudit ? "audit" : "enforce", parses };
}

/** The rules of a policy that have an effect, as verdicts name them. */
export function listRules(
  { mode, allow, deny, requireApproval }: CompiledCommandPolicy,
): readonly string[] {
  return [
    ...mode === "allowlist" ? allow.map(({ source }) => `allow:${source}`) : [],
    ...mode === "off" ? [] : deny.map(({ source }) => `deny:${source}`),
    ...requireApproval.map(({ source }) => `require_approval:${source}`),
  ];
}

/** Whether a set has an allowlist, to which patterns can be added. */
export function hasAllowlist({ members }: PolicySet): boolean {
  return members.some(({ mode }) => mode === "allowlist");
}

/** Adds allow patterns to a set that has an allowlist, one member for each list. Nothing else changes. */
export function extendAllowlist(set: PolicySet, lists: readonly (readonly Pattern[])[]): PolicySet {
  if (!hasAllowlist(set)) return set;
  const { enforcement, parses: shellParse } = set;
  const added = lists.map((
    allow,
  ) => ({ ...NO_RULES, mode: "allowlist", enforcement, allow, shellParse } as const));
  return { ...set, members: [...set.members, ...added] };
}

/**
 * Decides one command. Each simple command in it is a separate candidate, its words joined by one space, so that no
 * pattern can match across `;` or `|`. Without parsing, the raw text is the only candidate. The first denial wins:
 * deny before approval before allow.
 */
export function decideCommand(set: PolicySet, command: string): CommandVerdict {
  return finish(decideCommandSteps(set, command));
}

/** {@linkcode decideCommand} in steps, for a service that answers requests in the meantime. */
export function* decideCommandSteps(set: PolicySet, command: string): Steps<CommandVerdict> {
  const text = command.toWellFormed();
  if (!set.parses) return yield* decideCandidates(set, [text]);
  const parsed = parseCommand(text);
  if (parsed.kind === "commands") {
    return yield* decideCandidates(set, parsed.commands.map((words) => words.join(" ")));
  }
  const { reason } = parsed;
  return { kind: "denied", rule: `shell-parse:${reason}`, requireApproval: false };
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
  return { kind: "allowed", rule: approvalRule || lastRule, requireApproval };
}

function* decideCandidate({ members }: PolicySet, candidate: string): Steps<CommandVerdict> {
  const approval = yield* firstMatch(members.map((policy) => policy.requireApproval), candidate);
  const requireApproval = approval !== undefined;
  const active = members.filter((policy) => policy.mode !== "off");
  const verdict = (kind: CommandVerdict["kind"], rule: string) => ({ kind, rule, requireApproval });
  const deny = yield* firstMatch(active.map((policy) => policy.deny), candidate);
  if (deny !== undefined) return verdict("denied", `deny:${deny.source}`);
  const allowlists = active.filter((policy) => policy.mode === "allowlist");
  const allow = yield* firstMatch(allowlists.map((policy) => policy.allow), candidate);
  if (allowlists.length > 0 && allow === undefined) return verdict("denied", "allowlist:no-match");
  if (approval !== undefined) return verdict("allowed", `require_approval:${approval.source}`);
  return verdict("allowed", allow === undefined ? "" : `allow:${allow.source}`);
}

/**
 * The number of characters that are matched in one step. The engine takes up to a microsecond for each
 * character.
 */
const STEP_CHARACTERS = 4096;

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

/** The compiled command policies that hosts share. */
export interface CommandLibrary {
  /** The policies of a host's groups, and of `_default`, as one set. Hosts with the same policies share the set. */
  readonly compose: (groups: readonly string[]) => PolicySet;
  readonly compile: typeof compilePattern;
}

/** Compiles the library; appends its faults to `problems`. Groups need not have hosts. */
export function* compileCommandLibrary(
  config: PolicyConfig,
  problems: string[],
  compile: typeof compilePattern,
): Steps<CommandLibrary> {
  const policies = new Map<string, CompiledCommandPolicy>();
  for (const [name, policy] of Object.entries(config.command_policies)) {
    const path = formatKeyPath(["command_policies", name]);
    policies.set(name, compileCommandPolicy(policy, path, problems, compile));
    yield;
  }
  const groups = new Map(Object.entries(config.group_command_policies));
  for (const [group, names] of groups) {
    for (const [index, name] of names.entries()) {
      if (policies.has(name)) continue;
      const path = formatKeyPath(["group_command_policies", group, index]);
      problems.push(`${path}: unknown command policy ${quoteText(name)}`);
    }
  }
  const sets = new Map<string, PolicySet>();
  const compose = (own: readonly string[]): PolicySet => {
    const names = [...new Set(["_default", ...own].flatMap((group) => groups.get(group) ?? []))];
    const key = JSON.stringify(names);
    const set = sets.get(key) ?? composePolicies(names.flatMap((name) => policies.get(name) ?? []));
    sets.set(key, set);
    return set;
  };
  return { compose, compile };
}

/** Compiles one command policy; appends its faults to `problems`, and omits the faulty parts. */
export function compileCommandPolicy(
  policy: CommandPolicy,
  path: string,
  problems: string[],
  compile: typeof compilePattern = compilePattern,
): CompiledCommandPolicy {
  const compileAll = (key: "allow" | "deny" | "require_approval"): readonly Pattern[] =>
    (policy[key] ?? []).flatMap((source, index) => {
      try {
        return [compile(source)];
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        problems.push(`${path}.${key}[${index}]: ${error.message}`);
        return [];
      }
    });
  const { mode = "", enforcement = "", allow = [], deny = [] } = policy;
  if (!["", "off", "allowlist", "denylist"].includes(mode)) problems.push(`${path}.mode: unknown mode`);
  if (!["", "enforce", "audit"].includes(enforcement)) {
    problems.push(`${path}.enforcement: unknown enforcement`);
  }
  // Reject rules that would never be checked, contrary to the intent of their author. Deny rules next to an
  // allowlist have an effect and are accepted. Rules of approval apply in every mode.
  if (mode === "denylist" && allow.length > 0) {
    problems.push(`${path}.allow: a denylist has no allow rules; use mode "allowlist"`);
  }
  if (mode === "" && allow.length + deny.length > 0) {
    const [wanted, first] = allow.length > 0 ? ["allowlist", "allow"] : ["denylist", "deny"];
    problems.push(
      `${path}.mode: the ${first} patterns have no effect without a mode; write mode "${wanted}", or "off" to keep them without effect`,
    );
  }
  return {
    mode: mode || "off",
    enforcement: enforcement || "enforce",
    allow: compileAll("allow"),
    deny: compileAll("deny"),
    requireApproval: compileAll("require_approval"),
    shellParse: policy.shell_parse ?? true,
  };
}
