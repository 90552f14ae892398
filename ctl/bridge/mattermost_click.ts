import * as z from "@zod/zod";
import { AppError } from "@gateway/shared/errors";
import { parseJson } from "@gateway/shared/json";
import { LONGEST_LEARN_TTL_SECONDS } from "@gateway/shared/wire";
import { parseDuration } from "../kit/duration.ts";
import type { Verb } from "./card.ts";
import type { Click } from "./chat.ts";

const id = z.string().regex(/^[a-z0-9]{26}$/);
const posted = z.object({ event: z.literal("posted"), data: z.object({ post: z.string().max(100_000) }) });
const answer = z.object({
  id,
  user_id: id,
  channel_id: id,
  root_id: id,
  // Empty: of a person, not of the server.
  type: z.literal(""),
  message: z.string().max(100),
  props: z.record(z.string(), z.unknown()).nullish(),
});

const WORDS = /^(?<word>approve|deny|learn)(?: (?<time>[0-9a-z.]{1,20}))?$/;
/** Who writes by way of a webhook or of a bot can write in any name. */
const NOT_IN_PERSON = ["from_webhook", "from_bot", "from_plugin", "from_oauth_app", "override_username"];

/** The decision in an answer below a message: `approve`, `deny` or `learn 2h`, and nothing else in it. */
export function readMattermostClick(
  event: unknown,
  { channel, self }: { readonly channel: string; readonly self: string },
): Click | undefined {
  const text = posted.safeParse(event).data?.data.post;
  const { data } = answer.safeParse(text === undefined ? undefined : parseText(text));
  if (data === undefined || data.channel_id !== channel || data.user_id === self) return undefined;
  if (NOT_IN_PERSON.some((name) => data.props?.[name] !== undefined)) return undefined;
  const { word, time } = WORDS.exec(data.message.trim().toLowerCase())?.groups ?? {};
  const verb = verbOf(word, time);
  if (verb === undefined) return undefined;
  return { key: data.id, message: data.root_id, user: data.user_id, verb };
}

function verbOf(word: string | undefined, time: string | undefined): Verb | undefined {
  if (word === "approve" || word === "deny") return time === undefined ? { kind: word } : undefined;
  if (word !== "learn" || time === undefined) return undefined;
  try {
    const ttlSeconds = parseDuration(time);
    return ttlSeconds <= LONGEST_LEARN_TTL_SECONDS ? { kind: "learn", ttlSeconds } : undefined;
  } catch (error) {
    if (error instanceof AppError) return undefined;
    throw error;
  }
}

/** What a text of the chat says; nothing when it is no JSON. */
export function parseText(text: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
