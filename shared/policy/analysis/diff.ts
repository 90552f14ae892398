// What a new policy changes in access: for each host and cluster who may use it, how, and with which commands.
import { Buffer } from "node:buffer";
import { fingerprint } from "../../ssh/mod.ts";
import { foldIdentity } from "../../text.ts";
import { decideCommand, listRules, type PolicySet } from "../command.ts";
import type { CompiledHost, CompiledPolicy } from "../compile.ts";
import type { CompiledCluster } from "../compile_cluster.ts";
import type { ApproverConfig } from "../model.ts";
import { isListedFor, ownRowOf, requiredApprovals } from "../ssh.ts";
import { type Analysis, ANY_WORDS, commandOf, PARSED_TEXT, searchTexts } from "./search.ts";

/** `unknown`: the patterns are too large to be compared, so the change counts as wider. */
type Effect = "wider" | "narrower" | "unknown";

/** One change of access. */
export interface AccessChange {
  /** `host`, `cluster`, `caller` or `approver`. */
  readonly kind: "host" | "cluster" | "caller" | "approver";
  /** The names of all hosts, clusters, callers or approvers with this change. */
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
  const compare = (old: PolicySet, next: PolicySet) =>
    compared.getOrInsertComputed(old, () => new Map())
      .getOrInsertComputed(next, () => diffCommands(old, next));
  const callers = new Set([...from.callers.keys(), ...to.callers.keys()]);
  for (const kind of ["host", "cluster"] as const) {
    const [olds, nexts] = kind === "host" ? [from.hosts, to.hosts] : [from.clusters, to.clusters];
    for (const name of new Set([...olds.keys(), ...nexts.keys()])) {
      const [old, next] = [olds.get(name), nexts.get(name)];
      if (old === undefined || next === undefined) {
        add(kind, name, next === undefined ? narrower("removed") : wider("added"));
        continue;
      }
      const listed = [...old.allowed_callers ?? [], ...next.allowed_callers ?? []];
      const named = new Set(["(any other caller)", ...callers, ...listed]);
      const changes = [
        ...diffRights(rightsOf(from, old, named), rightsOf(to, next, named)),
        ...diffLifetimes(old, next),
        ...diffSignatures(
          requiredApprovals(from.config.approvals, old),
          requiredApprovals(to.config.approvals, next),
        ),
        ...diffValues(old, next),
        ...compare(old.commands, next.commands),
      ];
      for (const change of changes) add(kind, name, change);
    }
  }
  for (const caller of callers) {
    const [old, next] = [callerRow(from, caller), callerRow(to, caller)];
    const peers = [...old.only_via ?? [], ...next.only_via ?? []];
    for (const change of diffRights(callerRights(old, peers), callerRights(next, peers))) {
      add("caller", caller, change);
    }
  }
  const approversOf = ({ config }: CompiledPolicy) =>
    new Map(Object.entries(config.approvals?.approvers ?? {}));
  const [olds, nexts] = [approversOf(from), approversOf(to)];
  for (const name of new Set([...olds.keys(), ...nexts.keys()])) {
    const [old, next] = [olds.get(name), nexts.get(name)];
    if (old === undefined || next === undefined) {
      add("approver", name, next === undefined ? narrower("removed") : wider("added"));
      continue;
    }
    const rights = diffRights(approverRights(from, old, next), approverRights(to, next, old));
    for (const change of rights) add("approver", name, change);
  }
  return [...changes.values()];
}

const toChange = (effect: Effect) => (change: string, command = "", rule = ""): Change => {
  return { effect, change, command, rule };
};
const [wider, narrower, unknown] = [toChange("wider"), toChange("narrower"), toChange("unknown")];

/** The changes of rights: each is given or taken away. */
function diffRights(old: readonly string[], next: readonly string[]): readonly Change[] {
  const [before, after] = [new Set(old), new Set(next)];
  return [...before.symmetricDifference(after)].map((right) =>
    after.has(right) ? wider(`newly allowed: ${right}`) : narrower(`no longer allowed: ${right}`)
  );
}

/** The keys of the members that are true. */
function heldOf(rights: Readonly<Record<string, boolean>>): readonly string[] {
  return Object.keys(rights).filter((right) => rights[right]);
}

type Target = CompiledHost | CompiledCluster;

/** What a host or cluster permits, in words. */
function rightsOf(policy: CompiledPolicy, target: Target, callers: Iterable<string>): readonly string[] {
  const common = [
    ...[...callers].filter((each) => isListedFor(policy, each, target)).map((each) =>
      `caller ${each} may use it`
    ),
    ...target.groups.map((group) => `end users in group ${group}`),
  ];
  if ("apiServer" in target) {
    return [
      ...common,
      ...target.reveals.map(({ source }) => `values of Secrets that ${source} matches`),
      ...target.forces.map(({ source }) => `taking over fields without approval: ${source}`),
    ];
  }
  const { restricts, parses } = target.commands;
  const sudoUsers = target.allow_sudo === true ? ["root", ...target.allowed_sudo_users ?? []] : [];
  return [
    ...common,
    ...sudoUsers.map((user) => `sudo as ${user}`),
    ...heldOf({
      "a terminal (allow_pty)": target.allow_pty === true,
      "file transfer (allow_file_transfer)": target.allow_file_transfer === true,
      "use as a bastion (allow_as_bastion)": target.allow_as_bastion === true,
      "shell sessions without command rules": !restricts && target.seal === undefined,
      "shell syntax that rules see as one text (shell_parse is off)": restricts && !parses,
      "commands without the shim (sealed_exec is off)": target.seal === undefined,
      "sessions without a certificate for each command": target.unsealed_sessions !== false,
      "a certificate from any address": (target.source_address ?? "") === "",
      "commands that outlive their connection": target.stop_on_disconnect !== true,
      "a principal shared with other hosts": target.shared_principal === true,
    }),
  ];
}

/** Values whose change is a change of the target or its identity: nobody can say which is wider. */
function valuesOf(target: Target): Readonly<Record<string, unknown>> {
  if (!("apiServer" in target)) {
    const { addr, user, host_key, jump, principal, source_address, seal } = target;
    return { addr, user, host_key, jump, principal, source_address, seal: seal?.format };
  }
  const { apiServer, caCert, tokenFile, leaseNamespace, extraResources, bindings } = target;
  const accounts = bindings.map((
    { groups, namespace, serviceAccount },
  ) => [...groups, `${namespace}/${serviceAccount}`]);
  return { apiServer, caCert, tokenFile, leaseNamespace, extraResources, bindings: accounts };
}

function diffValues(old: Target, next: Target): readonly Change[] {
  const [before, after] = [valuesOf(old), valuesOf(next)];
  return Object.keys(after).flatMap((name) => {
    const [was, is] = [before, after].map((values) => JSON.stringify(values[name] ?? ""));
    return was === is ? [] : [wider(`${name}: ${was} becomes ${is}`)];
  });
}

function diffLifetimes(old: Target, next: Target): readonly Change[] {
  const lifetimeOf = (each: Target) => "apiServer" in each ? each.tokenTtlSeconds : each.maxTtlSeconds;
  const [before, after] = [lifetimeOf(old), lifetimeOf(next)];
  if (before === after) return [];
  return [(after > before ? wider : narrower)(`longest lifetime in seconds: ${before} becomes ${after}`)];
}

function diffSignatures(before: number, after: number): readonly Change[] {
  if (before === after) return [];
  return [
    (after < before ? wider : narrower)(`people who must sign an approval: ${before} becomes ${after}`),
  ];
}

/** What the callers table says about a caller. Of the row `_default`, only `only_via` counts. */
function callerRow(policy: CompiledPolicy, caller: string) {
  const { self_approve, require_verified_end_user } = ownRowOf(policy, caller) ?? {};
  const { only_via } = policy.callers.get(caller) ?? policy.callers.get("_default") ?? {};
  return { only_via, self_approve, require_verified_end_user };
}

/** What a row of the callers table permits, in words. */
function callerRights(
  { only_via, self_approve, require_verified_end_user }: ReturnType<typeof callerRow>,
  peers: readonly string[],
): readonly string[] {
  return [
    ...heldOf({
      "approving its own commands (self_approve)": self_approve === true,
      "end users without a verified token": require_verified_end_user !== true,
      "requests past the forwarders of only_via": only_via === undefined,
    }),
    ...peers.filter((peer) => only_via?.includes(peer) !== false).map((peer) => `requests through ${peer}`),
  ];
}

/** The approvals that a person may sign, in words that fit the groups and names of another version of the person. */
function approverRights(
  { config: { approvals } }: CompiledPolicy,
  { ssh_keys = [], passkeys = [], groups, identities = [] }: ApproverConfig,
  other: ApproverConfig,
): readonly string[] {
  const { passkey_rp_id = "", passkey_origins: origins = [] } = approvals ?? {};
  const sites = origins.length > 0 ? origins : [`https://${passkey_rp_id}`];
  const digestOf = (key: string) => fingerprint(Buffer.from(key, "base64"));
  const own = new Set(identities.map(foldIdentity));
  return [
    ...ssh_keys.map((line) => `approvals with ssh ${digestOf(line.trim().split(/[ \t]+/)[1] ?? "")}`),
    ...passkeys.flatMap(({ public_key: key }) =>
      sites.map((site) => `approvals with passkey ${digestOf(key)} on ${site}`)
    ),
    ...heldOf({ "approvals for every group": groups === undefined }),
    ...[...groups ?? [], ...other.groups ?? []].filter((each) => groups?.includes(each) !== false)
      .map((group) => `approvals for group ${group}`),
    ...(other.identities ?? []).filter((each) => !own.has(foldIdentity(each)))
      .map((name) => `approvals of requests of ${name}`),
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
  const [olds, nexts] = [new Set(old.members.flatMap(listRules)), new Set(next.members.flatMap(listRules))];
  const isEverything = settingsOf(old) !== settingsOf(next);
  if (!isEverything && olds.symmetricDifference(nexts).size === 0) return [];
  const found = new Map<string, Change>();
  /** How good the examples are: accepted by the parser, and of usual words. */
  const ranks = new Map<string, number>();
  const [TEXT, USUAL, CHANGED, FIRST_RULE] = [0, 1, 2, 3] as const;
  const rules = [...olds.union(nexts)].sort().map((rule, index) => {
    const source = rule.slice(rule.indexOf(":") + 1);
    const isSame = olds.has(rule) && nexts.has(rule);
    return [{ source, group: FIRST_RULE + index }, ...isSame ? [] : [{ source, group: CHANGED }]];
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
  const rest = analysis === "complete" ? [] : [unknown("the command rules are too large to be compared")];
  return [...found.values(), ...rest];
}

/** The settings of a set that change the outcome of commands that no rule matches. */
function settingsOf({ members, restricts, enforcement, parses }: PolicySet): string {
  return JSON.stringify([restricts, enforcement, parses, members.some(({ mode }) => mode === "allowlist")]);
}
