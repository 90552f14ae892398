import * as z from "@zod/zod";
import { parseConfig } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { foldIdentity, hasUnseen, isSameIdentity, quoteText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import type { Click, Member } from "./chat.ts";

/** The brokers' name of a user, by the user's ID in the chat. `undefined`: the guard is turned off. */
export type IdentityMap = ReadonlyMap<string, string> | undefined;

const MAY_NOT_DECIDE = {
  program: "programs do not decide",
  outsider: "who belongs to another workspace does not decide",
  gone: "this account is closed",
} as const satisfies Record<Exclude<Member, "person">, string>;

/** Why a user may not decide; `undefined` if they may. Any person may deny: the guard is about approvals. */
export function findObjection({ click, record, member, identities }: {
  readonly click: Pick<Click, "user" | "verb">;
  readonly record: Pick<ApprovalRecord, "caller" | "end_user">;
  readonly member: Member;
  readonly identities: IdentityMap;
}): string | undefined {
  if (member !== "person") return MAY_NOT_DECIDE[member];
  if (click.verb.kind === "deny" || identities === undefined) return undefined;
  const identity = identities.get(click.user);
  if (identity === undefined) return "who this account is, the bridge's identity map does not say";
  const { caller, end_user: endUser = "" } = record;
  if (endUser === "") {
    return "for whom it is asked is not known, so it can't be told from who approves; its page takes an approval";
  }
  if (isSameIdentity(identity, endUser) || isSameIdentity(identity, caller)) {
    return "whoever asks does not approve";
  }
  if (bareName(identity) === bareName(endUser)) {
    return "it is asked for a user of the same name, so it can't be told from who approves; the identity map has to " +
      "name people as brokers do; its page takes an approval";
  }
  return undefined;
}

/** The name without domain or realm: `ann` of `ann@example.com`, `CORP\ann` and `corp/ann`. */
function bareName(identity: string): string {
  const [name = ""] = (foldIdentity(identity).split(/[\\/]/).at(-1) ?? "").split("@", 1);
  return name;
}

/** The comment of a decision, for the audit log and the page. It is the bridge's own claim. */
export function describeClicker({ chat, user, identities }: {
  readonly chat: string;
  readonly user: string;
  readonly identities: IdentityMap;
}): string {
  const identity = identities?.get(user);
  const who = identity === undefined ? "not in its identity map" : `${identity} by its identity map`;
  return `the chat bridge says: ${chat} user ${user}, ${
    identities === undefined ? "identity guard off" : who
  }`;
}

const identityMap = z.record(z.string(), z.string());
const LONGEST_IDENTITY = 256;

/**
 * Reads an identity map: `{ "<user ID in the chat>": "<end user as brokers name them>" }`.
 *
 * @param userId the form of user IDs in this chat: another key would never match, and nobody would notice
 */
export function parseIdentityMap(text: string, path: string, userId: RegExp): ReadonlyMap<string, string> {
  const entries = Object.entries(
    parseConfig({ text, source: path, what: "identity map", schema: identityMap }),
  );
  const fail = (problem: string) =>
    new AppError("invalid_config", `Cannot use identity map ${quoteText(path)}: ${problem}`);
  if (entries.length === 0) throw fail("it is empty; nobody could approve");
  for (const [user, identity] of entries) {
    if (!userId.test(user)) throw fail(`${quoteText(user)} is no id of a user of this chat`);
    if (identity.trim() === "" || identity.length > LONGEST_IDENTITY || hasUnseen(identity)) {
      throw fail(`${quoteText(user)} has no identity that can be compared`);
    }
  }
  return new Map(entries);
}
