// What a new policy changes in access: for each host and cluster who may use it, how, and with which commands.
import { decideCommand, type Pattern, type PolicySet } from "../command.ts";
import type { CompiledHost, CompiledPolicy } from "../compile.ts";
import type { CompiledCluster } from "../compile_cluster.ts";
import { isListedFor } from "../ssh.ts";
import { type Analysis, ANY_WORDS, commandOf, PARSED_TEXT, searchTexts } from "./search.ts";

/** `unknown`: the patterns are too large to be compared, so the change counts as wider. */
type Effect = "wider" | "narrower" | "unknown";

/** One change of access. */
export interface AccessChange {
  /** `host`, `cluster` or `caller`. */
  readonly kind: "host" | "cluster" | "caller";
  /** The names of all hosts, clusters or callers with this change. */
  readonly names: readonly string[];
  readonly effect: Effect;
  readonly change: string;
  /** A command that the two policies decide differently; empty: the change is not about commands. */
  readonly command: string;
  /** The rule that decides the command in the wider policy. */
  readonly rule: string;
}

type Change = Pick<AccessChange, "effect" | "change" | "command" | "rule">;

/** Whether a change needs the attention of a second reviewer. */
export function isWider({ effect }: Pick<AccessChange, "effect">): boolean {
  return effect !== "narrower";
}

/** Compares two policies. The result is empty if they give the same access. */
export function diffPolicies(from: CompiledPolicy, to: CompiledPolicy): readonly AccessChange[] {
  const changes = new Map<string, AccessChange>();
  const add = (kind: AccessChange["kind"], name: string, change: Change) => {
    const key = JSON.stringify([kind, change]);
    const names = [...changes.get(key)?.names ?? [], name];
    changes.set(key, { kind, names, ...change });
  };
  const compared = new Map<PolicySet, Map<PolicySet, readonly Change[]>>();
  const compare = (old: PolicySet, next: PolicySet) => {
    const known = compared.get(old) ?? new Map<PolicySet, readonly Change[]>();
    compared.set(old, known);
    const found = known.get(next) ?? diffCommands(old, next);
    known.set(next, found);
    return found;
  };
  const callers = ["(any other caller)", ...new Set([...from.callers.keys(), ...to.callers.keys()])];
  for (const kind of ["host", "cluster"] as const) {
    const [olds, nexts] = kind === "host" ? [from.hosts, to.hosts] : [from.clusters, to.clusters];
    for (const name of new Set([...olds.keys(), ...nexts.keys()])) {
      const [old, next] = [olds.get(name), nexts.get(name)];
      if (old === undefined || next === undefined) {
        add(kind, name, next === undefined ? narrower("removed") : wider("added"));
        continue;
      }
      for (const change of [...diffFacets(old, next), ...compare(old.commands, next.commands)]) {
        add(kind, name, change);
      }
      const named = [...callers, ...old.allowed_callers ?? [], ...next.allowed_callers ?? []];
      for (const caller of new Set(named)) {
        const [before, after] = [isListedFor(from, caller, old), isListedFor(to, caller, next)];
        if (before !== after) add(kind, name, direction(after, `caller ${caller} may use it`));
      }
    }
  }
  for (const caller of new Set([...from.callers.keys(), ...to.callers.keys()])) {
    const row = (policy: CompiledPolicy) => policy.callers.get(caller) ?? policy.callers.get("_default");
    for (const change of diffCaller(row(from), row(to))) add("caller", caller, change);
  }
  return [...changes.values()];
}

const wider = (change: string, command = "", rule = ""): Change => ({
  effect: "wider",
  change,
  command,
  rule,
});
const narrower = (change: string, command = "", rule = ""): Change => ({
  ...{ effect: "narrower", change, command, rule },
});

/** A right that was given or taken away. */
function direction(isGiven: boolean, right: string): Change {
  return isGiven ? wider(`newly allowed: ${right}`) : narrower(`no longer allowed: ${right}`);
}

type Facets = Readonly<Record<string, unknown>>;

/** What a right of a host, cluster or caller is, in words, if its value is `true` or larger. */
function diffRights(old: Facets, next: Facets): readonly Change[] {
  return Object.keys(next).flatMap((right) =>
    old[right] === next[right] ? [] : [direction(next[right] === true, right)]
  );
}

/** Values whose change is a change of the target or its identity: nobody can say which is wider. */
function diffValues(old: Facets, next: Facets): readonly Change[] {
  return Object.keys(next).flatMap((name) => {
    const [before, after] = [old, next].map((values) => JSON.stringify(values[name] ?? ""));
    return before === after ? [] : [wider(`${name}: ${before} becomes ${after}`)];
  });
}

function diffSets(old: readonly string[], next: readonly string[], right: (item: string) => string) {
  return [...new Set([...old, ...next])].flatMap((item) => {
    const [before, after] = [old.includes(item), next.includes(item)];
    return before === after ? [] : [direction(after, right(item))];
  });
}

function diffNumber(old: number, next: number, what: string): readonly Change[] {
  if (old === next) return [];
  return [(next > old ? wider : narrower)(`${what}: ${old} becomes ${next}`)];
}

function diffFacets(old: CompiledHost | CompiledCluster, next: CompiledHost | CompiledCluster) {
  const groups = diffSets(old.groups, next.groups, (group) => `end users in group ${group}`);
  if ("apiServer" in old || "apiServer" in next) {
    return "apiServer" in old && "apiServer" in next ? [...groups, ...diffClusters(old, next)] : groups;
  }
  const sudoUsers = ({ allow_sudo, allowed_sudo_users = [] }: CompiledHost) =>
    allow_sudo === true ? ["root", ...allowed_sudo_users] : [];
  const rights = (host: CompiledHost) => ({
    "a terminal (allow_pty)": host.allow_pty === true,
    "file transfer (allow_file_transfer)": host.allow_file_transfer === true,
    "use as a bastion (allow_as_bastion)": host.allow_as_bastion === true,
    "shell sessions without command rules": !host.commands.restricts && host.seal === undefined,
    "shell syntax that rules see as one text (shell_parse is off)": host.commands.restricts &&
      !host.commands.parses,
    "commands without the shim (sealed_exec is off)": host.seal === undefined,
    "sessions without a certificate for each command": host.unsealed_sessions !== false,
    "a certificate from any address": (host.source_address ?? "") === "",
    "commands that outlive their connection": host.stop_on_disconnect !== true,
    "a principal shared with other hosts": host.shared_principal === true,
  });
  const values = ({ addr, user, host_key, jump, principal, source_address, seal }: CompiledHost) => ({
    ...{ addr, user, host_key, jump, principal, source_address, seal: seal?.format },
  });
  return [
    ...groups,
    ...diffRights(rights(old), rights(next)),
    ...diffSets(sudoUsers(old), sudoUsers(next), (user) => `sudo as ${user}`),
    ...diffNumber(old.maxTtlSeconds, next.maxTtlSeconds, "longest certificate in seconds"),
    ...diffValues(values(old), values(next)),
  ];
}

function diffClusters(old: CompiledCluster, next: CompiledCluster): readonly Change[] {
  const sources = (patterns: readonly Pattern[]) => patterns.map(({ source }) => source);
  const values = (
    { apiServer, caCert, tokenFile, bindings, leaseNamespace, extraResources }: CompiledCluster,
  ) => ({
    ...{ apiServer, caCert, tokenFile, leaseNamespace, extraResources },
    bindings: bindings.map((
      { groups, namespace, serviceAccount },
    ) => [...groups, `${namespace}/${serviceAccount}`]),
  });
  return [
    ...diffNumber(old.tokenTtlSeconds, next.tokenTtlSeconds, "token lifetime in seconds"),
    ...diffValues(values(old), values(next)),
    ...diffSets(
      sources(old.reveals),
      sources(next.reveals),
      (rule) => `values of Secrets that ${rule} matches`,
    ),
    ...diffSets(
      sources(old.forces),
      sources(next.forces),
      (rule) => `taking over fields without approval: ${rule}`,
    ),
  ];
}

type Caller = CompiledPolicy["callers"] extends ReadonlyMap<string, infer Row> ? Row : never;

function diffCaller(old: Caller | undefined, next: Caller | undefined): readonly Change[] {
  const rights = (row: Caller | undefined) => ({
    "approving its own commands (self_approve)": row?.self_approve === true,
    "end users without a verified token": row?.require_verified_end_user !== true,
    "requests past the forwarders of only_via": row?.only_via === undefined,
  });
  return [
    ...diffRights(rights(old), rights(next)),
    ...old?.only_via === undefined || next?.only_via === undefined
      ? []
      : diffSets(old.only_via, next.only_via, (peer) => `requests through ${peer}`),
  ];
}

type Outcome = "denied" | "allowed" | "allowed after approval";

/** Enforcement `audit` blocks nothing and asks nobody. */
function outcomeOf(set: PolicySet, command: string): { readonly result: Outcome; readonly rule: string } {
  const { kind, requireApproval, rule } = decideCommand(set, command);
  if (!set.restricts || set.enforcement === "audit") return { result: "allowed", rule };
  if (kind === "denied") return { result: "denied", rule };
  return { result: requireApproval ? "allowed after approval" : "allowed", rule };
}

const decidePatterns = (set: PolicySet, text: string) => outcomeOf({ ...set, parses: false }, text);

/** Marks a change whose only example is one that the parser rejects. */
const REFUSED = ", by the patterns; the shell parser rejects the example, and can accept others";

const WIDTH: Readonly<Record<Outcome, number>> = { denied: 0, "allowed after approval": 1, allowed: 2 };

/** The changes of outcomes, each with the shortest command that shows it. */
function diffCommands(old: PolicySet, next: PolicySet): readonly Change[] {
  const [olds, nexts] = [new Set(ruleKeys(old)), new Set(ruleKeys(next))];
  const isSame = (key: string) => olds.has(key) && nexts.has(key);
  const isEverything = settingsOf(old) !== settingsOf(next);
  if (!isEverything && olds.symmetricDifference(nexts).size === 0) return [];
  const found = new Map<string, Change>();
  /** How good the examples are: accepted by the parser, and of usual words. */
  const ranks = new Map<string, number>();
  const [TEXT, USUAL, CHANGED, FIRST_RULE] = [0, 1, 2, 3] as const;
  const rules = [...new Set([...olds, ...nexts])].map((key, index) => {
    const source = key.slice(key.indexOf(" ") + 1);
    return [{ source, group: FIRST_RULE + index }, ...isSame(key) ? [] : [{ source, group: CHANGED }]];
  });
  const isParsed = old.parses && next.parses;
  const text = isParsed ? ANY_WORDS : "";
  const analysis: Analysis = searchTexts([
    { source: text, group: TEXT },
    { source: PARSED_TEXT, group: USUAL },
    ...rules.flat(),
  ], {
    hope: (matched, alive) =>
      (matched.has(TEXT) || alive.has(TEXT)) && (isEverything || matched.has(CHANGED) || alive.has(CHANGED)),
    visit(candidate, matched) {
      if (!matched.has(TEXT) || !(isEverything || matched.has(CHANGED))) return false;
      // Patterns decide about the words. The parser's refusals are the same in both policies, and would hide other texts
      // that the patterns do not distinguish.
      const [before, after] = [decidePatterns(old, candidate), decidePatterns(next, candidate)];
      if (before.result === after.result) return false;
      const change = `${before.result} becomes ${after.result}`;
      const isWider = WIDTH[after.result] > WIDTH[before.result];
      const { rule } = isWider ? after : before;
      const key = `${change} ${rule}`;
      const command = commandOf(isParsed, candidate);
      const isReal = outcomeOf(old, command).result === before.result &&
        outcomeOf(next, command).result === after.result;
      const rank = !isReal ? 0 : matched.has(USUAL) ? 2 : 1;
      if (rank <= (ranks.get(key) ?? -1)) return false;
      ranks.set(key, rank);
      found.set(key, (isWider ? wider : narrower)(isReal ? change : `${change}${REFUSED}`, command, rule));
      return false;
    },
  });
  const unknown: Change = {
    rule: "",
    effect: "unknown",
    change: "the command rules are too large to be compared",
    command: "",
  };
  return [...found.values(), ...analysis === "complete" ? [] : [unknown]];
}

/** The rules of a set that decide, each as its kind and its pattern. */
function ruleKeys({ members }: PolicySet): readonly string[] {
  return [
    ...new Set(members.flatMap(({ mode, allow, deny, requireApproval }) => [
      ...mode === "allowlist" ? allow.map(({ source }) => `allow ${source}`) : [],
      ...mode === "off" ? [] : deny.map(({ source }) => `deny ${source}`),
      ...requireApproval.map(({ source }) => `approval ${source}`),
    ])),
  ].sort();
}

/** The settings of a set that change the outcome of commands that no rule matches. */
function settingsOf({ members, restricts, enforcement, parses }: PolicySet): string {
  return JSON.stringify([restricts, enforcement, parses, members.some(({ mode }) => mode === "allowlist")]);
}
