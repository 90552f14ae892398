// Finds allow patterns that admit more than their author meant. Every finding has a command that the decision
// function itself allows.
import { formatKeyPath } from "../../text.ts";
import {
  compileCommandPolicy,
  compilePattern,
  composePolicies,
  decideCommand,
  type PolicySet,
} from "../command.ts";
import type { CompiledPolicy } from "../compile.ts";
import type { CommandPolicy } from "../model.ts";
import { Automaton, type GroupedPattern } from "./automaton.ts";
import { CLUSTER_ESCAPES, type Escape, HOST_ESCAPES, NARROWER, NEUTRAL_OPTIONS } from "./escapes.ts";
import { commandOf, PARSED_TEXT, searchTexts } from "./search.ts";

/** What a pattern does that its author may not expect. */
export interface LintFinding {
  /** The pattern's key path in the config. */
  readonly path: string;
  readonly pattern: string;
  readonly kind: "escape" | "open-start" | "open-end" | "no-effect" | "approval-avoided" | "not-analyzed";
  /** A command that the policy allows and that shows the problem; empty if there is none. */
  readonly command: string;
  readonly problem: string;
  readonly fix: string;
}

/** The rules of some hosts, or of one cluster. */
interface Subject {
  readonly set: PolicySet;
  readonly escapes: readonly Escape[];
  readonly rules: readonly Rule[];
}

interface Rule {
  readonly list: "allow" | "require_approval";
  readonly path: string;
  readonly source: string;
}

const MOST_ESCAPES = 3;
/** The search for further escapes of a pattern is short. */
const MORE_STATES = 100;
const [RULE, DENY, APPROVAL, PARSED, FROM_START, TO_END, ALLOW, PROGRAM, FIRST_ESCAPE] = [
  ...[0, 1, 2, 3, 4, 5, 6, 7, 8],
] as const;

/**
 * Finds the risks of all command policies, and of the rules of clusters.
 *
 * @param isOfInterest selects the patterns by their text; absent: all
 */
export function lintPolicy(
  policy: CompiledPolicy,
  isOfInterest: (pattern: string) => boolean = () => true,
): readonly LintFinding[] {
  const findings = new Map<string, LintFinding>();
  for (const { set, escapes, rules } of subjectsOf(policy)) {
    for (const rule of rules.filter(({ source }) => isOfInterest(source))) {
      for (const each of lintRule(set, escapes, rule)) {
        findings.set(`${each.path} ${each.pattern} ${each.problem}`, each);
      }
    }
  }
  return [...findings.values()];
}

/** Finds the risks of one pattern that joins the rules of a host or cluster; without rules, of the pattern alone. */
export function lintPattern({ list, pattern, rules = composePolicies([]), isCluster = false }: {
  readonly list: Rule["list"];
  readonly pattern: string;
  readonly rules?: PolicySet | undefined;
  readonly isCluster?: boolean;
}): readonly LintFinding[] {
  const mode = list === "allow" ? "allowlist" : "off";
  const policy: CommandPolicy = { mode, [list]: [pattern], shell_parse: rules.parses };
  const set = composePolicies([...rules.members, compileCommandPolicy(policy, "", [])]);
  const escapes = isCluster ? CLUSTER_ESCAPES : HOST_ESCAPES;
  const findings = lintRule(set, escapes, { list, path: list, source: pattern });
  return [...new Map(findings.map((each) => [each.problem, each])).values()];
}

type NamedPolicy = readonly [path: readonly string[], policy: CommandPolicy | undefined];

/** The rules of all hosts and clusters, each combination once, and the policies that no host uses yet. */
function* subjectsOf({ config, hosts, clusters }: CompiledPolicy): Iterable<Subject> {
  const library = (name: string): NamedPolicy => [["command_policies", name], config.command_policies[name]];
  const seen = new Set<PolicySet>();
  for (const [name, { commands: set, groups }] of hosts) {
    if (seen.has(set)) continue;
    seen.add(set);
    const brought = ["_default", ...groups].flatMap((group) => config.group_command_policies[group] ?? []);
    const own: NamedPolicy = [["hosts", name, "command_policy"], config.hosts[name]?.command_policy];
    yield hostSubject(set, [...[...new Set(brought)].map(library), own]);
  }
  for (const name of findUnusedPolicies({ config, hosts })) {
    const named = library(name);
    yield hostSubject(composePolicies([compileCommandPolicy(named[1] ?? {}, name, [])]), [named]);
  }
  for (const [name, { commands: set }] of clusters) {
    const path = formatKeyPath(["kubernetes", "clusters", name]);
    const allow = set.members.flatMap((member) => member.allow);
    const rules = allow.map(({ source }) => ({ list: "allow", path, source } as const));
    yield { set, escapes: CLUSTER_ESCAPES, rules };
  }
}

/** The names of the command policies that no host uses. */
export function findUnusedPolicies(
  { config, hosts }: Pick<CompiledPolicy, "config" | "hosts">,
): ReadonlySet<string> {
  const byGroup = new Map(Object.entries(config.group_command_policies));
  const used = hosts.values().flatMap(({ groups }) =>
    ["_default", ...groups].flatMap((group) => byGroup.get(group) ?? [])
  );
  return new Set(Object.keys(config.command_policies)).difference(new Set(used));
}

function hostSubject(set: PolicySet, policies: readonly NamedPolicy[]): Subject {
  const rules = policies.flatMap(([path, policy = {}]) =>
    (["allow", "require_approval"] as const).flatMap((list) =>
      list === "allow" && policy.mode !== "allowlist" ? [] : (policy[list] ?? []).map((source, index) => {
        return { list, path: formatKeyPath([...path, list, index]), source };
      })
    )
  );
  return { set, escapes: HOST_ESCAPES, rules };
}

/** Escapes, and the automaton that finds them. */
interface Catalog {
  readonly escapes: readonly Escape[];
  readonly automaton: Automaton;
}

const catalogs = new Map<string, Catalog>();

/** The escapes that can be used by commands with this program; undefined: with any program. */
function catalogFor(all: readonly Escape[], program: string | undefined): Catalog {
  const key = `${all === HOST_ESCAPES} ${program}`;
  let known = catalogs.get(key);
  if (known === undefined) {
    const escapes = program === undefined
      ? all
      : all.filter(({ programs }) => compilePattern(`^(?:${programs})$`).test(program));
    const automaton = new Automaton(
      escapes.map(({ pattern }, index) => ({ source: pattern, group: FIRST_ESCAPE + index })),
    );
    known = { escapes, automaton };
    catalogs.set(key, known);
  }
  return known;
}

/** The first word of all commands that a rule matches; undefined if it is not proved to be the same in all. */
function programOf(rules: readonly GroupedPattern[], command: string): string | undefined {
  const word = /^[\w/-]+(?= |$)/.exec(command)?.[0];
  if (word === undefined) return undefined;
  let isOther = false;
  const analysis = searchTexts([...rules, { source: `^${word}(?: |$)`, group: PROGRAM }], {
    needs: RULE,
    hope: (matched, alive) => !matched.has(PROGRAM) && mayMatch([RULE, PARSED], matched, alive),
    visit: (_text, matched) => isOther ||= !matched.has(PROGRAM) && mayMatch([RULE, PARSED], matched),
  });
  return isOther || analysis === "gave up" ? undefined : word;
}

/** Whether no deny rule matches a text, and all groups match it, or still can. */
function mayMatch(groups: readonly number[], matched: Groups, alive: Groups = new Set()): boolean {
  return !matched.has(DENY) && groups.every((group) => matched.has(group) || alive.has(group));
}

/** The command of a text, and what the rules decide about it. */
function decideText(set: PolicySet, text: string) {
  const command = commandOf(set.parses, text);
  const { kind, requireApproval } = decideCommand(set, command);
  return { command, verdict: kind === "allowed" && requireApproval ? "approval" : kind } as const;
}

const describe =
  ({ path, source: pattern }: Rule) =>
  (kind: LintFinding["kind"], problem: string, fix: string, command = ""): LintFinding => {
    return { path, pattern, kind, command, problem, fix };
  };

const DIVIDE = "divide the pattern into short ones without wide repetitions";
const TOO_LARGE = [
  "not-analyzed",
  "not analyzed: the pattern is too large, so its risks are unknown",
  DIVIDE,
] as const;
const refused = (command: string) =>
  `not analyzed: the shell parser rejects ${command}, which the pattern matches`;
const LIST_ARGUMENTS = "list the exact arguments, and end the pattern with $";
const WITHOUT_EFFECT = "the pattern has no effect";

/** A pattern that spells out all its commands: its author means each of them. */
const LITERAL = /^\^(?:[^*+.{[\\]|\\[^\w])*\$$/;

function lintRule(set: PolicySet, escapes: readonly Escape[], rule: Rule): readonly LintFinding[] {
  return rule.list === "allow" ? lintAllow(set, escapes, rule) : lintApproval(set, rule);
}

function lintAllow(set: PolicySet, all: readonly Escape[], rule: Rule): readonly LintFinding[] {
  const { source } = rule;
  const finding = describe(rule);
  const rules = rulesAround(set, source);
  const found: Partial<Record<"allowed" | "openStart" | "openEnd" | "denied" | "approval", string>> = {};
  const edges = [{ source: `^(?:${source})`, group: FROM_START }, {
    source: `(?:${source})$`,
    group: TO_END,
  }];
  const isAnchored = new Automaton([{ source, group: RULE }]).isAnchored(RULE);
  const shape = searchTexts([...rules, ...edges], {
    needs: RULE,
    hope: (matched, alive) =>
      mayMatch([RULE, PARSED], matched, alive) &&
      (found.allowed === undefined || !matched.has(TO_END) || !isAnchored && !matched.has(FROM_START)),
    visit(text, matched) {
      if (!mayMatch([RULE, PARSED], matched)) return false;
      const { command, verdict } = decideText(set, text);
      found[verdict] ??= command;
      if (verdict !== "allowed") return false;
      if (!matched.has(FROM_START)) found.openStart ??= command;
      if (!matched.has(TO_END)) found.openEnd ??= command;
      return found.openStart !== undefined || isAnchored && found.openEnd !== undefined;
    },
  });
  const anchored = `^${source.replace(/^\^|\$$/g, "")}$`;
  if (found.openStart !== undefined) {
    const problem = "the pattern does not start with ^, so it also matches in the middle of other commands";
    return [finding("open-start", problem, anchored, found.openStart)];
  }
  if (shape === "gave up") return [finding(...TOO_LARGE)];
  if (found.allowed === undefined) {
    if (found.approval !== undefined) return [];
    // Texts that the patterns do not distinguish are judged by one of them, but the parser can distinguish them.
    if (found.denied !== undefined) return [finding("not-analyzed", refused(found.denied), DIVIDE)];
    const problem = `${WITHOUT_EFFECT}: no command can match it, or deny rules deny them all`;
    return [finding("no-effect", problem, "remove it")];
  }
  if (found.openEnd === undefined && LITERAL.test(source)) return [];
  const { escapes, automaton } = catalogFor(all, programOf(rules, found.allowed));
  const admitted = new Map<Escape, string>();
  let more = MORE_STATES;
  const risks = searchTexts(rules, {
    needs: RULE,
    hope: (matched, alive) =>
      (admitted.size === 0 || --more > 0) && !matched.has(APPROVAL) &&
      escapes.some((escape, index) =>
        !admitted.has(escape) && mayMatch([RULE, PARSED, FIRST_ESCAPE + index], matched, alive)
      ),
    visit(text, matched) {
      if (!mayMatch([RULE, PARSED], matched) || matched.has(APPROVAL)) return false;
      const { command, verdict } = decideText(set, text);
      if (verdict !== "allowed") return false;
      for (const [index, escape] of escapes.entries()) {
        if (matched.has(FIRST_ESCAPE + index) && !admitted.has(escape)) admitted.set(escape, command);
      }
      return admitted.size >= MOST_ESCAPES;
    },
  }, automaton);
  if (admitted.size > 0) {
    return [...admitted].map(([{ gives }, command]) => {
      const program = programIn(command);
      const narrower = Object.hasOwn(NARROWER, program) ? NARROWER[program] : undefined;
      return finding("escape", `${program} ${gives}`, narrower ?? LIST_ARGUMENTS, command);
    });
  }
  if (risks === "gave up") return [finding(...TOO_LARGE)];
  if (found.openEnd === undefined) return [];
  return [
    finding("open-end", "the pattern does not end with $, so any text can follow", anchored, found.openEnd),
  ];
}

/** The name of a command's program without its path. */
function programIn(command: string): string {
  const [name = ""] = command.split(" ");
  return name.slice(name.lastIndexOf("/") + 1);
}

/** Finds an approval that an option before the subcommand avoids, and one that no command can need. */
function lintApproval(set: PolicySet, rule: Rule): readonly LintFinding[] {
  const finding = describe(rule);
  const lists = set.members.filter(({ mode }) => mode === "allowlist");
  const allow = lists.flatMap((member) => member.allow.map(({ source }) => ({ source, group: ALLOW })));
  const found: Partial<Record<"gated" | "denied", string>> = {};
  const needed = lists.length === 0 ? [RULE, PARSED] : [RULE, PARSED, ALLOW];
  const analysis = searchTexts([...rulesAround(set, rule.source), ...allow], {
    hope: (matched, alive) => mayMatch(needed, matched, alive),
    visit(text, matched) {
      if (!mayMatch(needed, matched)) return false;
      const { command, verdict } = decideText(set, text);
      if (verdict === "denied") found.denied ??= command;
      else found.gated = text;
      return found.gated !== undefined;
    },
  });
  const { gated, denied } = found;
  if (gated === undefined) {
    if (analysis === "gave up") return [finding(...TOO_LARGE)];
    if (denied !== undefined) return [finding("not-analyzed", refused(denied), DIVIDE)];
    const problem = `${WITHOUT_EFFECT}: no allow rule admits a command that it matches`;
    return [finding("no-effect", problem, "add an allow rule, or remove it")];
  }
  const [name = "", ...rest] = gated.split(" ");
  const program = programIn(gated);
  const neutral = Object.hasOwn(NEUTRAL_OPTIONS, program) ? NEUTRAL_OPTIONS[program] : undefined;
  if (neutral === undefined || rest.length === 0) return [];
  const { command, verdict } = decideText(set, [name, neutral, ...rest].join(" "));
  if (verdict !== "allowed") return [];
  const wider = rule.source.replace(`${program} `, `${program} (?:.* )?`);
  return [finding("approval-avoided", "an option before the subcommand avoids the approval", wider, command)];
}

type Groups = ReadonlySet<number>;

function rulesAround(set: PolicySet, source: string): readonly GroupedPattern[] {
  return [
    { source, group: RULE },
    { source: set.parses ? PARSED_TEXT : "", group: PARSED },
    ...set.members.flatMap(({ mode, deny, requireApproval }) => [
      ...(mode === "off" ? [] : deny.map((each) => ({ source: each.source, group: DENY }))),
      ...requireApproval.map((each) => ({ source: each.source, group: APPROVAL })),
    ]),
  ];
}
