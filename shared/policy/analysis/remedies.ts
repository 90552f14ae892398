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
import { canonicalSudoUser } from "../shell.ts";
import { isInGroups } from "../ssh.ts";
import { decideRequest, type HostQuestion } from "./question.ts";

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
  // Any caller that may use the host, and an end user in all groups of the host.
  const access = {
    caller: undefined,
    endUserGroups: question.endUserGroups && [...question.endUserGroups, ...groups],
  };
  const decision = decideRequest({ ...policy, hosts }, opened, { ...question, ...access });
  if (decision.kind === "denied") return [];
  return [
    ...missingAccess(policy, host, question, path),
    ...sudo && !allow_sudo ? [`set ${path}.allow_sudo to true`] : [],
    ...isNewUser ? [`add ${quoteText(user)} to ${path}.allowed_sudo_users`] : [],
    ...rules.changes,
    ...decision.requireApproval ? ["get an approval"] : [],
  ];
}

function missingAccess(
  policy: CompiledPolicy,
  { groups, allowed_callers: callers = [] }: CompiledHost,
  { caller, endUserGroups }: HostQuestion,
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
