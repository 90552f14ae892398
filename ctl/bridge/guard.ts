import { foldIdentity, isSameIdentity } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import type { Click, Member } from "./chat.ts";

/** By the id of a user of the chat, who that is to the brokers. `undefined`: the guard was turned off. */
export type IdentityMap = ReadonlyMap<string, string> | undefined;

interface Question {
  readonly click: Pick<Click, "user" | "verb">;
  readonly record: Pick<ApprovalRecord, "caller" | "end_user">;
  readonly member: Member;
  readonly identities: IdentityMap;
}

/** Why somebody may not decide; `undefined` when he may. To deny harms nobody: the guard is about approval alone. */
export function findObjection({ click, record, member, identities }: Question): string | undefined {
  switch (member) {
    case "program":
      return "programs do not decide";
    case "outsider":
      return "who belongs to another workspace does not decide";
    case "gone":
      return "this account is closed";
    case "person":
      break;
    default:
      return member satisfies never;
  }
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

/** Without domain or realm: what is left of `ann@example.com`, `CORP\ann` and `corp/ann`. */
function bareName(identity: string): string {
  const [name = ""] = (foldIdentity(identity).split(/[\\/]/).at(-1) ?? "").split("@", 1);
  return name;
}

/** The comment of a decision, for the audit log and the page: it is this bridge that says so, and nobody else. */
export function describeClicker(
  { chat, user, identities }: {
    readonly chat: string;
    readonly user: string;
    readonly identities: IdentityMap;
  },
): string {
  const identity = identities?.get(user);
  const who = identity === undefined ? "not in its identity map" : `${identity} by its identity map`;
  return `the chat bridge says: ${chat} user ${user}, ${
    identities === undefined ? "identity guard off" : who
  }`;
}
