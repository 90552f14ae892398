import { AppError } from "@gateway/shared/errors";
import { hasUnseen, quoteText } from "@gateway/shared/text";
import { parseConfig } from "@gateway/shared/config";
import * as z from "@zod/zod";

const identityMap = z.record(z.string(), z.string());
const LONGEST_IDENTITY = 256;

/**
 * Reads an identity map: `{ "<user id of the chat>": "<end user as brokers name them>" }`.
 *
 * @param userId what ids of users look like in this chat: another key would never match, and nobody would notice
 * @throws {AppError} `invalid_config` for anything else, one without entries included
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
