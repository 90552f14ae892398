import { AppError } from "@gateway/shared/errors";
import {
  type CompiledPolicy,
  compilePolicy,
  type PolicyConfig,
  type PolicySet,
} from "@gateway/shared/policy";
import {
  findUnusedPolicies,
  type LintFinding,
  lintPattern,
  lintPolicy,
} from "@gateway/shared/policy/analysis";
import { formatKeyPath, quoteText, shortenText } from "@gateway/shared/text";
import { loadHosts, loadPolicy } from "./signer_file.ts";
import { INDENT } from "./table.ts";

const LISTS = ["allow", "require_approval"] as const;
const MOST_WARNINGS = 5;
const MOST_CHARACTERS = 200;
/** The patterns that are analyzed after a reload: 1,000 take 2 to 25 s. */
const MOST_PATTERNS = 200;

/** A finding in at most three lines. */
export function formatFinding(finding: LintFinding, mark = ""): readonly string[] {
  const { path, pattern, problem, command, fix } = finding;
  const short = (text: string) => shortenText(text, MOST_CHARACTERS);
  return [
    `${mark}${path} ${quoteText(short(pattern))}: ${short(problem)}`,
    ...command === "" ? [] : [`${INDENT}allows:  ${short(command)}`],
    `${INDENT}instead: ${short(fix)}`,
  ];
}

/** Warnings about the patterns of a change. */
export function formatWarnings(findings: readonly LintFinding[]): readonly string[] {
  const more = findings.length - MOST_WARNINGS;
  return [
    ...findings.slice(0, MOST_WARNINGS).flatMap((each) => formatFinding(each, "warning: ")),
    ...more > 0 ? [`warning: ${more} more findings: broker-ctl policy lint`] : [],
  ];
}

/** The policy without other hosts than this; undefined if it is invalid. */
function compileHost({ hosts, ...config }: PolicyConfig, name: string): CompiledPolicy | undefined {
  const host = Object.hasOwn(hosts, name) ? hosts[name] : undefined;
  // Only this host is compiled, and not the bastion in front of it.
  const only = host === undefined ? {} : { [name]: { ...host, jump: "" } };
  const compiled = compilePolicy({ ...config, hosts: only });
  return compiled.kind === "ok" ? compiled.policy : undefined;
}

/** Patterns for a list of a host or cluster. */
export interface AddedPatterns {
  readonly name: string;
  readonly isCluster?: boolean;
  readonly list: string;
  readonly patterns: readonly string[];
}

/**
 * The risks of patterns that the signer adds to a host or cluster, together with its rules in the signer's config.
 * Without that config, the risks of the patterns alone.
 */
export async function lintAddedPatterns(
  { name, isCluster = false, list, patterns }: AddedPatterns,
  config: string | undefined,
  workingFolder: string,
): Promise<readonly LintFinding[]> {
  const policy = await tolerant(async () => compileHost(await loadHosts(config, workingFolder), name));
  const rules = (policy?.hosts.get(name) ?? policy?.clusters.get(name))?.commands;
  if (list !== "allow" && (list !== "require_approval" || rules === undefined)) return [];
  return patterns.flatMap((pattern) => lintPattern({ list, pattern, rules, isCluster }));
}

/** Warns about the patterns that a reload brought, if the signer's config is on this machine. */
export async function lintNewPatterns(
  patterns: readonly string[],
  config: string | undefined,
  workingFolder: string,
) {
  if (patterns.length === 0) return { findings: [], lines: [] };
  const policy = await tolerant(() => loadPolicy(config, workingFolder));
  const found = new Set(patterns.slice(0, MOST_PATTERNS).filter((each) => policy?.patterns.has(each)));
  const findings = policy === undefined ? [] : lintPolicy(policy, (pattern) => found.has(pattern));
  const others = patterns.length - found.size;
  const note =
    `new patterns not analyzed: ${others}; with the signer's config: broker-ctl policy lint --config FILE`;
  return { findings, lines: [...formatWarnings(findings), ...others > 0 ? [note] : []] };
}

/** Without a config on this machine, an analysis is less exact or not possible. */
async function tolerant<T>(load: () => Promise<T>): Promise<T | undefined> {
  try {
    return await load();
  } catch (error) {
    if (error instanceof AppError) return undefined;
    throw error;
  }
}

/** The risks of the rule that decided, such as `allow:^tar `. */
export function lintRule(rule: string, rules: PolicySet): readonly LintFinding[] {
  return LISTS.filter((list) => rule.startsWith(`${list}:`)).flatMap((list) =>
    lintPattern({ list, pattern: rule.slice(list.length + 1), rules })
  );
}

/**
 * The risks of a policy that the previous policy does not have. A pattern that moves within its list is not new. The
 * risks of a command policy are new if a host uses it for the first time.
 *
 * @param isOfInterest selects the patterns by their text; absent: all
 */
export function lintChange(
  before: CompiledPolicy,
  after: CompiledPolicy,
  isOfInterest?: (pattern: string) => boolean,
): readonly LintFinding[] {
  const listOf = (path: string) => path.slice(0, path.lastIndexOf("["));
  const identify = ({ path, pattern, problem }: LintFinding) =>
    JSON.stringify([listOf(path), pattern, problem]);
  const newlyUsed = findUnusedPolicies(before).difference(findUnusedPolicies(after));
  const lists = new Set(
    [...newlyUsed].flatMap((name) => LISTS.map((list) => formatKeyPath(["command_policies", name, list]))),
  );
  const known = new Set(lintPolicy(before, isOfInterest).map(identify));
  return lintPolicy(after, isOfInterest).filter((each) =>
    lists.has(listOf(each.path)) || !known.has(identify(each))
  );
}

/** The risks of a host's own patterns that the host did not have before. */
export function lintChangedHost(name: string, before: PolicyConfig, after: PolicyConfig) {
  const { allow = [], require_approval: approval = [] } = after.hosts[name]?.command_policy ?? {};
  const own = new Set([...allow, ...approval]);
  const [old, next] = [compileHost(before, name), compileHost(after, name)];
  return old && next ? lintChange(old, next, (pattern) => own.has(pattern)) : [];
}
