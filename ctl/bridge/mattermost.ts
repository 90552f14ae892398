import * as z from "@zod/zod";
import { within } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { each, LONGEST_LEARN_TTL_SECONDS } from "@gateway/shared/wire";
import { parseDuration, readJson } from "../kit/values.ts";
import type { Card, Verb } from "./card.ts";
import { boundedFetch, type Chat, type ChatOptions, type Click, keepConnected, type Member } from "./chat.ts";

interface MattermostOptions extends ChatOptions {
  readonly url: string;
  readonly token: string;
}

const TIMEOUT_MS = 15_000;
/** A socket without data for this time is treated as dead. */
const SILENT_MS = 60_000;

const user = z.object({
  id: z.string().min(1),
  is_bot: z.boolean().default(false),
  delete_at: z.int().default(0),
  remote_id: z.string().nullish(),
});
const post = z.object({ id: z.string().min(1) });
const posts = z.object({
  posts: z.record(
    z.string(),
    z.object({ user_id: z.string(), props: z.record(z.string(), z.unknown()).nullish() }),
  ),
});

const id = z.string().regex(/^[a-z0-9]{26}$/);
const posted = z.object({ event: z.literal("posted"), data: z.object({ post: z.string().max(100_000) }) });
const answer = z.object({
  ...each(id, "id", "user_id", "channel_id", "root_id"),
  // Messages of the server itself have a type that is not empty.
  type: z.literal(""),
  message: z.string().max(100),
  props: z.record(z.string(), z.unknown()).nullish(),
});

const REPLY = /^(?<word>approve|deny|learn)(?: (?<time>[0-9a-z.]{1,20}))?$/;
/** Webhooks and bots can write under any name. */
const NOT_IN_PERSON = ["from_webhook", "from_bot", "from_plugin", "from_oauth_app", "override_username"];

/**
 * A channel of Mattermost. Its buttons would need a server that Mattermost can reach, so people decide by replies in the
 * message's thread.
 */
export class MattermostChat implements Chat {
  readonly name = "Mattermost";
  readonly #options: MattermostOptions;
  readonly #fetch: typeof fetch;
  #self = "";

  constructor(options: MattermostOptions) {
    this.#options = options;
    this.#fetch = boundedFetch(options.fetch, options.signal);
  }

  async connect(): Promise<string> {
    const self = await this.#whoAmI();
    await this.#ask("GET", `/channels/${this.#options.channel}/members/${self}`, z.object({}));
    return self;
  }

  async #whoAmI(): Promise<string> {
    this.#self ||= (await this.#ask("GET", "/users/me", user)).id;
    return this.#self;
  }

  async listen(take: (click: Click) => Promise<void>, signal: AbortSignal): Promise<void> {
    await keepConnected(this.#options, signal, (connected) => this.#hold(take, connected, signal));
  }

  async post(card: Card): Promise<string> {
    const { id } = await this.#ask("POST", "/posts", post, {
      channel_id: this.#options.channel,
      message: messageOf(card),
      props: { gateway_nonce: card.nonce },
    });
    return id;
  }

  async find({ nonce }: Card, since: number): Promise<string | undefined> {
    const self = await this.#whoAmI();
    const path = `/channels/${this.#options.channel}/posts?since=${Math.floor(since)}`;
    const found = Object.entries((await this.#ask("GET", path, posts)).posts);
    return found.find(([, { user_id, props }]) => user_id === self && props?.["gateway_nonce"] === nonce)
      ?.[0];
  }

  async update(message: string, card: Card): Promise<void> {
    await this.#ask("PUT", `/posts/${encodeURIComponent(message)}/patch`, z.object({}), {
      message: messageOf(card),
    });
  }

  async say(message: string, text: string): Promise<void> {
    const body = { channel_id: this.#options.channel, root_id: message, message: fenced(text) };
    await this.#ask("POST", "/posts", post, body);
  }

  async member(id: string): Promise<Member> {
    const { is_bot, delete_at, remote_id } = await this.#ask("GET", `/users/${encodeURIComponent(id)}`, user);
    if (is_bot) return "program";
    if (delete_at !== 0) return "gone";
    return remote_id ? "outsider" : "person";
  }

  async #hold(take: (click: Click) => Promise<void>, connected: () => void, signal: AbortSignal) {
    const { url, channel, token, clock, logger } = this.#options;
    const self = await this.#whoAmI();
    const socket = new WebSocket(`${url.replace(/^http/, "ws")}/api/v4/websocket`);
    let heardAt = clock.now();
    const over = new Promise<void>((resolve) => {
      socket.onclose = () => resolve();
      socket.onerror = () => resolve();
    });
    socket.onopen = () =>
      socket.send(JSON.stringify({ seq: 1, action: "authentication_challenge", data: { token } }));
    socket.onmessage = ({ data }) => {
      heardAt = clock.now();
      const event = typeof data === "string" ? readJson(z.unknown(), data) : undefined;
      if (hello.safeParse(event).success) connected();
      const click = readMattermostClick(event, { channel, self });
      if (click !== undefined) {
        take(click).catch((error) => logger.warn("reply was not stored", { error }));
      }
    };
    try {
      for (let seq = 2;; seq++) {
        const ms = SILENT_MS / 2;
        const late = () => undefined;
        const isOver = await within({ clock, ms, signal, late }, over).then(() => true, (reason) => {
          if (reason === undefined) return false;
          throw reason;
        });
        if (isOver) return;
        if (clock.now() - heardAt > SILENT_MS) {
          throw new AppError("upstream_failure", "Mattermost's socket stopped sending data");
        }
        socket.send(JSON.stringify({ seq, action: "ping" }));
      }
    } finally {
      socket.close();
    }
  }

  async #ask<T>(method: string, path: string, schema: z.ZodType<T>, body?: unknown): Promise<T> {
    const { url, token, clock, signal } = this.#options;
    const response = await within(
      { clock, ms: TIMEOUT_MS, signal },
      (ended) =>
        this.#fetch(`${url}/api/v4${path}`, {
          method,
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          signal: ended,
          ...(body !== undefined && { body: JSON.stringify(body) }),
        }),
    ).catch(() => {
      throw new AppError("upstream_failure", "Mattermost did not respond");
    });
    if (!response.ok) throw refusalOf(response);
    const data = readJson(schema, await response.text());
    if (data === undefined) throw new AppError("upstream_failure", "Mattermost sent an invalid response");
    return data;
  }
}

const FIXES: Readonly<Record<number, string>> = {
  401: ": MATTERMOST_TOKEN is invalid",
  403: ": the bot is not in the channel, or lacks a permission",
};

function refusalOf({ status, headers }: Response): AppError {
  if (status === 429) {
    const seconds = Number(headers.get("retry-after") ?? headers.get("x-ratelimit-reset"));
    const retryAfterSeconds = seconds > 0 && seconds < 3600 ? seconds : 1;
    return new AppError("rate_limited", "Mattermost requested a pause", { retryAfterSeconds });
  }
  if (status === 404) {
    return new AppError("not_found", "Mattermost did not find it, or the bot is not in the channel");
  }
  const code = status >= 400 && status < 500 ? "invalid_request" : "upstream_failure";
  return new AppError(code, `Mattermost responded with HTTP ${status}${FIXES[status] ?? ""}`);
}

const hello = z.object({ event: z.literal("hello") });

/** The length of a row of a code block, in characters. */
export const LONGEST_ROW = 100;
/** The start of a continued row. No line of a card starts with it, so that a row cannot imitate a line. */
const CONTINUED = `${" ".repeat(9)}↳ `;

/** A card as Markdown. Foreign text is in a code block, where nothing is markup or a mention. */
export function messageOf({ title, lines, note, page, verbs }: Card): string {
  const words = verbs.map((verb) => verb === "learn" ? "`learn 8h` (or another time)" : `\`${verb}\``);
  return [
    `**${title}**`,
    fenced(lines.flatMap(breakLine).join("\n")),
    ...(note === "" ? [] : [note]),
    `[Open the request](${page})`,
    ...(verbs.length === 0 ? [] : [`Reply in this message's thread with ${words.join(", ")}`]),
  ].join("\n\n");
}

/** A code block whose fence is longer than any in the text. */
export function fenced(text: string): string {
  const longest = Math.max(2, ...Array.from(text.matchAll(/`+/g), ([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}text\n${text}\n${fence}`;
}

/** Mattermost does not wrap code blocks: text beyond the right edge is hidden. */
function breakLine(line: string): readonly string[] {
  const characters = Array.from(line);
  const rows = [characters.slice(0, LONGEST_ROW).join("")];
  const length = LONGEST_ROW - CONTINUED.length;
  for (let start = LONGEST_ROW; start < characters.length; start += length) {
    rows.push(CONTINUED + characters.slice(start, start + length).join(""));
  }
  return rows;
}

/** The decision in a reply that consists of `approve`, `deny` or `learn 2h`. */
function readMattermostClick(
  event: unknown,
  { channel, self }: { readonly channel: string; readonly self: string },
): Click | undefined {
  const text = posted.safeParse(event).data?.data.post;
  const data = text === undefined ? undefined : readJson(answer, text);
  if (data === undefined || data.channel_id !== channel || data.user_id === self) return undefined;
  if (NOT_IN_PERSON.some((name) => data.props?.[name] !== undefined)) return undefined;
  const { word, time } = REPLY.exec(data.message.trim().toLowerCase())?.groups ?? {};
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
