import * as z from "@zod/zod";
import { parseConfig } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { foldIdentity, hasInvisible, isSameIdentity, quoteText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import type { Click, Member } from "./chat.ts";

/** The name of a user in the brokers, by the user's ID in the chat. `undefined`: the guard is off. */
export type IdentityMap = ReadonlyMap<string, string> | undefined;

const MAY_NOT_DECIDE = {
  program: "programs cannot decide requests",
  outsider: "members of another workspace cannot decide requests",
  gone: "this account is deactivated",
} as const satisfies Record<Exclude<Member, "person">, string>;

/** The reason why a user may not decide; `undefined` if they may. Every person may deny: the guard is for approvals. */
export function findObjection({ click, record, member, identities }: {
  readonly click: Pick<Click, "user" | "verb">;
  readonly record: Pick<ApprovalRecord, "caller" | "end_user">;
  readonly member: Member;
  readonly identities: IdentityMap;
}): string | undefined {
  if (member !== "person") return MAY_NOT_DECIDE[member];
  if (click.verb.kind === "deny" || identities === undefined) return undefined;
  const identity = identities.get(click.user);
  if (identity === undefined) return "this account is not in the bridge's identity map";
  const { caller, end_user: endUser = "" } = record;
  if (endUser === "") return "the requester is unknown and could be you; approve it on its page";
  if (isSameIdentity(identity, endUser) || isSameIdentity(identity, caller)) {
    return "requesters cannot approve their own requests";
  }
  if (bareName(identity) === bareName(endUser)) {
    return "the requester has the same name and could be you; approve it on its page, or use the brokers' names of " +
      "users in the identity map";
  }
  return undefined;
}

/** The name without domain or realm: `ann` of `ann@example.com`, `CORP\ann` and `corp/ann`. */
function bareName(identity: string): string {
  const [name = ""] = (foldIdentity(identity).split(/[\\/]/).at(-1) ?? "").split("@", 1);
  return name;
}

/** The comment of a decision, for the audit log and the page. The control plane cannot verify it. */
export function describeClicker({ chat, user, identities }: {
  readonly chat: string;
  readonly user: string;
  readonly identities: IdentityMap;
}): string {
  const identity = identities?.get(user);
  const who = identity === undefined ? "not in the identity map" : `${identity} in the identity map`;
  const guard = identities === undefined ? "identity guard off" : who;
  return `reported by the chat bridge: ${chat} user ${user}, ${guard}`;
}

const identityMap = z.record(z.string(), z.string());
const LONGEST_IDENTITY = 256;

/**
 * Reads an identity map: `{ "<user ID in the chat>": "<end user as brokers name them>" }`.
 *
 * @param userId the form of user IDs in this chat: a wrong key would never match, without any error
 */
export function parseIdentityMap(text: string, path: string, userId: RegExp): ReadonlyMap<string, string> {
  const entries = Object.entries(
    parseConfig({ text, source: path, what: "identity map", schema: identityMap }),
  );
  const fail = (problem: string) =>
    new AppError("invalid_config", `Cannot use identity map ${quoteText(path)}: ${problem}`);
  if (entries.length === 0) throw fail("it is empty, so that no one could approve");
  for (const [user, identity] of entries) {
    if (!userId.test(user)) throw fail(`${quoteText(user)} is not a user ID of this chat`);
    if (identity.trim() === "" || identity.length > LONGEST_IDENTITY || hasInvisible(identity)) {
      throw fail(`the identity of ${quoteText(user)} is empty, too long or contains invisible characters`);
    }
  }
  return new Map(entries);
}
