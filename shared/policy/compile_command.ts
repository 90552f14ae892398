/**
 * Command policies from config text to compiled patterns, every problem reported with its key path.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { compileCommandPolicy } from "./compile_command.ts";
 *
 * const problems: string[] = [];
 * compileCommandPolicy({ mode: "allowlist", allow: ["("] }, "command_policies.base", problems);
 * assert.match(problems[0] ?? "", /^command_policies\.base\.allow\[0\]: /);
 * ```
 *
 * @module
 */
import { AppError } from "../errors.ts";
import { formatKeyPath, quoteText } from "../text.ts";
import type { Steps } from "../clock.ts";
import { type CompiledCommandPolicy, composePolicies, type PolicySet } from "./command.ts";
import type { CommandPolicy, PolicyConfig } from "./model.ts";
import { compilePattern, type Pattern } from "./pattern.ts";

/** The named command policies, and for each host group (and `_default`) the names that hold for it. */
export interface CommandLibrary {
  readonly policies: ReadonlyMap<string, CompiledCommandPolicy>;
  readonly groups: ReadonlyMap<string, readonly string[]>;
  /** The policies of these names as one set; the same set for the same names, because hosts are many and sets few. */
  readonly compose: (names: ReadonlySet<string>) => PolicySet;
  /** Compiles the patterns of policies beside the library. */
  readonly compile: typeof compilePattern;
}

/** Compiles the library; appends to `problems` what is wrong with it. Groups need not have hosts. */
export function* compileCommandLibrary(
  config: PolicyConfig,
  problems: string[],
  compile: typeof compilePattern = compilePattern,
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
  return { policies, groups, compose: composeOnce(policies), compile };
}

function composeOnce(policies: CommandLibrary["policies"]): CommandLibrary["compose"] {
  const sets = new Map<string, PolicySet>();
  return (names) => {
    const key = JSON.stringify([...names]);
    const known = sets.get(key);
    if (known !== undefined) return known;
    const members = [...names].map((name) => policies.get(name)).filter((policy) => policy !== undefined);
    const set = composePolicies(members);
    sets.set(key, set);
    return set;
  };
}

/** Compiles one command policy; appends to `problems` what is wrong with it, and leaves that part out. */
export function compileCommandPolicy(
  policy: CommandPolicy,
  path: string,
  problems: string[],
  compile: typeof compilePattern = compilePattern,
): CompiledCommandPolicy {
  const compileAll = (sources: readonly string[], key: string) =>
    compilePatterns(sources, { path: `${path}.${key}`, problems, compile });
  const { mode = "", enforcement = "", allow = [], deny = [], require_approval: approval = [] } = policy;
  if (!["", "off", "allowlist", "denylist"].includes(mode)) problems.push(`${path}.mode: unknown mode`);
  if (!["", "enforce", "audit"].includes(enforcement)) {
    problems.push(`${path}.enforcement: unknown enforcement`);
  }
  // It would never be consulted, and its author believes otherwise. The opposite, deny beside an allowlist,
  // has an effect and is accepted.
  if (mode === "denylist" && allow.length > 0) {
    problems.push(`${path}.allow: a denylist has no allow rules; use mode "allowlist"`);
  }
  // Without a mode they would never be consulted either. Rules of approval hold in every mode.
  if (mode === "" && allow.length + deny.length > 0) {
    const [wanted, first] = allow.length > 0 ? ["allowlist", "allow"] : ["denylist", "deny"];
    problems.push(
      `${path}.mode: the ${first} patterns have no effect without a mode; write mode "${wanted}", or "off" to keep them without effect`,
    );
  }
  return {
    mode: mode === "" ? "off" : mode,
    enforcement: enforcement === "" ? "enforce" : enforcement,
    allow: compileAll(allow, "allow"),
    deny: compileAll(deny, "deny"),
    requireApproval: compileAll(approval, "require_approval"),
    shellParse: policy.shell_parse ?? true,
  };
}

interface PatternList {
  /** The key path of the list. */
  readonly path: string;
  readonly problems: string[];
  readonly compile: typeof compilePattern;
}

function compilePatterns(
  sources: readonly string[],
  { path, problems, compile }: PatternList,
): readonly Pattern[] {
  const patterns: Pattern[] = [];
  for (const [index, source] of sources.entries()) {
    try {
      patterns.push(compile(source));
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      problems.push(`${path}[${index}]: ${error.message}`);
    }
  }
  return patterns;
}

/** The command policies of a config whose patterns are switched off on purpose: each as a key path. */
export function* findInertPolicies(
  { hosts, command_policies }: {
    readonly hosts: Readonly<Record<string, { readonly command_policy?: CommandPolicy }>>;
    readonly command_policies: Readonly<Record<string, CommandPolicy>>;
  },
): Steps<readonly string[]> {
  const inert: string[] = [];
  for (const [name, policy] of Object.entries(command_policies)) {
    if (isInert(policy)) inert.push(formatKeyPath(["command_policies", name]));
  }
  for (const name of Object.keys(hosts)) {
    yield;
    const policy = hosts[name]?.command_policy;
    if (policy !== undefined && isInert(policy)) {
      inert.push(formatKeyPath(["hosts", name, "command_policy"]));
    }
  }
  return inert;
}

function isInert({ mode, allow = [], deny = [] }: CommandPolicy): boolean {
  return mode === "off" && allow.length + deny.length > 0;
}
