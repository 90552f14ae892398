// What would change a denial: the changes of the config that the request needs, proved by deciding it again.
import { formatKeyPath, quoteText } from "../../text.ts";
import {
  compilePattern,
  decideCommand,
  escapePattern,
  extendAllowlist,
  type Pattern,
  type PolicySet,
} from "../command.ts";
import type { CompiledHost, CompiledPolicy } from "../compile.ts";
import type { CompiledCluster } from "../compile_cluster.ts";
import { canonicalSudoUser } from "../shell.ts";
import { isInGroups, type SshDecision } from "../ssh.ts";
import { decideAction, decideRequest, type HostQuestion, readAction, type Requester } from "./question.ts";

/** The places of a rule such as `deny:^rm ` in the config; of `allowlist:no-match`, the places for an allow rule. */
type PlacesOf = (rule: string) => readonly string[];

/**
 * All changes that a request for a host needs to be allowed; empty if no change of the config is enough.
 *
 * @param texts the simple commands of the request, as patterns match them
 */
export function findHostRemedies(
  policy: CompiledPolicy,
  host: CompiledHost,
  question: HostQuestion,
  { texts, placesOf }: { readonly texts: readonly string[]; readonly placesOf: PlacesOf },
): readonly string[] {
  const { sudo = false, sudoUser = "" } = question;
  const { allow_sudo = false, allowed_sudo_users: users = [], groups } = host;
  const path = formatKeyPath(["hosts", host.name]);
  const user = canonicalSudoUser(sudo, sudoUser);
  const isNewUser = sudo && user !== "root" && !users.includes(user);
  const rules = openRules(host.commands, texts, placesOf);
  const sudoers = { allow_sudo: allow_sudo || sudo, allowed_sudo_users: [...users, user] };
  const opened = { ...host, ...sudoers, commands: rules.set };
  const hosts = new Map([[host.name, opened]]);
  return changesFor(decideRequest({ ...policy, hosts }, opened, openAccess(question, groups)), [
    ...missingAccess(policy, host, question, path),
    ...sudo && !allow_sudo ? [`set ${path}.allow_sudo to true`] : [],
    ...isNewUser ? [`add ${quoteText(user)} to ${path}.allowed_sudo_users`] : [],
    ...rules.changes,
  ]);
}

/** All changes that an action on a cluster needs to be allowed; empty if no change of the config is enough. */
export function findClusterRemedies(
  policy: CompiledPolicy,
  cluster: CompiledCluster,
  asker: Requester,
  { action, placesOf }: { readonly action: string; readonly placesOf: PlacesOf },
): readonly string[] {
  const path = formatKeyPath(["kubernetes", "clusters", cluster.name]);
  const rules = openRules(cluster.commands, [action], placesOf);
  const access = { ...openAccess(asker, cluster.groups), caller: undefined };
  const { decision } = decideAction(policy, { ...cluster, commands: rules.set }, readAction(action), access);
  return changesFor(decision, [...missingAccess(policy, cluster, asker, path), ...rules.changes]);
}

function changesFor(
  decision: SshDecision | ReturnType<typeof decideAction>["decision"],
  changes: readonly string[],
): readonly string[] {
  if (decision.kind !== "allowed") return [];
  return decision.requireApproval ? [...changes, "get an approval"] : changes;
}

/** A requester without the caller, so any that may use the host, and with all groups of the host. */
function openAccess<T extends Requester | HostQuestion>(
  { caller: _caller, ...asker }: T,
  groups: readonly string[],
) {
  return { ...asker, endUserGroups: asker.endUserGroups && [...asker.endUserGroups, ...groups] };
}

function missingAccess(
  policy: CompiledPolicy,
  { groups, allowed_callers: callers = [] }: CompiledHost | CompiledCluster,
  { caller, endUserGroups }: Requester | HostQuestion,
  path: string,
): readonly string[] {
  const names = groups.join(" or ") || `(none in ${path}.groups)`;
  const isForeign = endUserGroups?.some((group) => groups.includes(group)) === false;
  const users = isForeign ? [`the end user is missing from group ${names}`] : [];
  if (caller === undefined) return users;
  const row = formatKeyPath(["callers", caller, "allowed_groups"]);
  return [
    ...isInGroups(policy, caller, groups)
      ? []
      : [`the caller is missing from group ${names}: add it to ${row}`],
    ...callers.length === 0 || callers.includes(caller) ? [] : [`add the caller to ${path}.allowed_callers`],
    ...users,
  ];
}

/** Removes the deny rules that match, and adds an allow rule for each command without one. */
function openRules(set: PolicySet, texts: readonly string[], placesOf: PlacesOf) {
  const isHit = (pattern: Pattern) => texts.some((text) => pattern.test(text));
  const denied = set.members.flatMap(({ mode, deny }) => mode === "off" ? [] : deny.filter(isHit));
  const members = set.members.map((member) => {
    return { ...member, deny: member.deny.filter((rule) => !isHit(rule)) };
  });
  const raw = { ...set, members, parses: false };
  const missing = texts.filter((text) => decideCommand(raw, text).kind === "denied");
  const allow = [...new Set(missing)].map((text) => compilePattern(`^${escapePattern(text)}$`));
  const lists = placesOf("allowlist:no-match").join(" or ");
  const narrowed = denied.map(({ source }) => {
    const places = placesOf(`deny:${source}`).join(" and ");
    return `deny rule ${quoteText(source)} of ${places} always wins: narrow or remove it`;
  });
  const added = allow.map(({ source }) => `add allow ${quoteText(source)} to ${lists}`);
  return { changes: [...new Set(narrowed), ...added], set: extendAllowlist({ ...set, members }, [allow]) };
}
