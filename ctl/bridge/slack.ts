import { SocketModeClient } from "@slack/socket-mode";
import {
  LogLevel,
  WebAPIPlatformError,
  WebAPIRateLimitedError,
  WebClient,
  type WebClientOptions,
} from "@slack/web-api";
import * as z from "@zod/zod";
import { within } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { each } from "@gateway/shared/wire";
import type { Card } from "./card.ts";
import { boundedFetch, type Chat, type ChatOptions, type Click, keepConnected, type Member } from "./chat.ts";
import { blocksOf, readSlackClick, sectionOf, summaryOf } from "./slack_messages.ts";

interface SlackOptions extends ChatOptions {
  readonly apiUrl: string;
  readonly botToken: string;
  readonly appToken: string;
}

const TIMEOUT_MS = 15_000;
const START_MS = 30_000;
/** The message no longer exists. */
const GONE: readonly string[] = ["message_not_found", "cant_update_message", "thread_not_found"];

/** This method needs the token of the app; every other method needs the bot's token. */
const OPEN = "apps.connections.open";

const auth = z.object({ ...each(z.string().min(1), "team_id", "user_id"), bot_id: z.string().optional() });
const postedMessage = z.object({ ts: z.string().min(1) });
const history = z.object({
  messages: z.array(
    z.object({ ts: z.string(), bot_id: z.string().optional(), blocks: z.unknown().optional() }),
  ),
});
const userInfo = z.object({
  user: z.object({
    team_id: z.string().optional(),
    ...each(z.boolean().optional(), "is_bot", "is_stranger", "deleted"),
  }),
});

/** The libraries' log could contain tokens and foreign text. Failures are thrown in any case. */
const SILENT = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  setLevel() {},
  getLevel: () => LogLevel.ERROR,
  setName() {},
};

/** A channel of Slack: the Web API, and Socket Mode for clicks, so that the bridge needs no listener. */
export class SlackChat implements Chat {
  readonly name = "Slack";
  readonly #options: SlackOptions;
  readonly #clientOptions: WebClientOptions;
  readonly #web: WebClient;
  #home: Promise<z.infer<typeof auth>> | undefined;

  constructor(options: SlackOptions) {
    this.#options = options;
    this.#clientOptions = {
      slackApiUrl: options.apiUrl,
      fetch: boundedFetch(options.fetch, options.signal),
      timeout: TIMEOUT_MS,
      // The bridge decides about retries.
      retryConfig: { retries: 0 },
      rejectRateLimitedCalls: true,
      allowAbsoluteUrls: false,
    };
    this.#web = new WebClient(options.botToken, { ...this.#clientOptions, logger: SILENT });
  }

  async connect(): Promise<string> {
    const { channel, appToken: token, logger } = this.#options;
    const { team_id, user_id } = await this.#whoAmI();
    // Call every method once, so that missing permissions are detected at the start.
    await this.#ask("users.info", { user: user_id }, userInfo);
    await this.#ask(OPEN, { token }, z.object({}));
    await this.#ask("conversations.history", { channel, limit: 1 }, history).catch((error) => {
      if (!/: missing_scope:/.test(errorText(error))) throw error;
      logger.warn("app cannot read the channel, a request may be posted twice", { error });
    });
    return `${user_id} in ${team_id}`;
  }

  async listen(take: (click: Click) => Promise<void>, signal: AbortSignal): Promise<void> {
    await keepConnected(this.#options, signal, (connected) => this.#hold(take, connected, signal));
  }

  async post(card: Card): Promise<string> {
    const { ts } = await this.#ask("chat.postMessage", {
      ...this.#message(card),
      unfurl_links: false,
      unfurl_media: false,
    }, postedMessage);
    return ts;
  }

  async find({ nonce }: Card, since: number): Promise<string | undefined> {
    const { bot_id } = await this.#whoAmI();
    const { messages } = await this.#ask("conversations.history", {
      channel: this.#options.channel,
      oldest: String(since / 1000),
      limit: 200,
    }, history);
    // Only the bridge knows the nonces of its buttons.
    return messages.find(({ bot_id: author, blocks }) =>
      author !== undefined && author === bot_id && JSON.stringify(blocks ?? []).includes(`.${nonce}`)
    )?.ts;
  }

  async update(message: string, card: Card): Promise<void> {
    await this.#ask("chat.update", { ...this.#message(card), ts: message }, z.object({}));
  }

  async say(message: string, text: string): Promise<void> {
    await this.#ask("chat.postMessage", {
      channel: this.#options.channel,
      thread_ts: message,
      text: "About this request",
      blocks: [sectionOf(text)],
    }, z.object({}));
  }

  async member(user: string): Promise<Member> {
    const { team_id } = await this.#whoAmI();
    const { user: found } = await this.#ask("users.info", { user }, userInfo);
    if (found.is_bot === true) return "program";
    if (found.deleted === true) return "gone";
    return found.is_stranger === true || found.team_id !== team_id ? "outsider" : "person";
  }

  #message(card: Card) {
    return { channel: this.#options.channel, text: summaryOf(card), blocks: blocksOf(card) };
  }

  async #hold(take: (click: Click) => Promise<void>, connected: () => void, signal: AbortSignal) {
    const { channel, appToken, clock, logger } = this.#options;
    const { team_id: team } = await this.#whoAmI();
    const client = new SocketModeClient({
      appToken,
      logger: SILENT,
      // The library's reconnect ends the process if Slack sends a malformed response.
      autoReconnectEnabled: false,
      clientOptions: this.#clientOptions,
    });
    const over = new Promise<void>((resolve) => client.once("disconnected", () => resolve()));
    client.on("slack_event", ({ ack, type, body }) => {
      void (async () => {
        const click = type === "interactive" ? readSlackClick(body, { team, channel }) : undefined;
        if (click !== undefined) await take(click);
        else logger.warn("event from Slack ignored, it is not a button of this channel");
        await ack();
        // Without an acknowledgment, Slack delivers it again.
      })().catch((error) => logger.warn("click was not stored", { error }));
    });
    try {
      const late = () => new AppError("upstream_failure", "Slack's socket did not open in time");
      await within(
        { clock, ms: START_MS, signal, late },
        client.start().then(() => {}, (error) => fail(error, OPEN)),
      );
      connected();
      await within({ clock, signal }, over);
    } finally {
      await Promise.race([client.disconnect(), clock.sleep(1_000)]).catch(() => {});
    }
  }

  #whoAmI(): Promise<z.infer<typeof auth>> {
    this.#home ??= this.#ask("auth.test", {}, auth).catch((error) => {
      this.#home = undefined;
      throw error;
    });
    return this.#home;
  }

  async #ask<T>(method: string, body: Record<string, unknown>, schema: z.ZodType<T>): Promise<T> {
    const answer = await this.#web.apiCall(method, body).catch((error) => fail(error, method));
    const { data } = schema.safeParse(answer);
    if (data === undefined) {
      throw new AppError("upstream_failure", `Slack sent an invalid response to ${method}`);
    }
    return data;
  }
}

/** Reports a failure without the response body and without its causes, which contain URLs with tickets. */
function fail(error: unknown, method: string): never {
  if (error instanceof AppError) throw error;
  if (error instanceof WebAPIRateLimitedError) {
    throw new AppError("rate_limited", "Slack requested a pause", { retryAfterSeconds: error.retryAfter });
  }
  if (error instanceof WebAPIPlatformError && /^[a-z_]{1,60}$/.test(error.data.error)) {
    const { error: problem } = error.data;
    const code = GONE.includes(problem) ? "not_found" : "invalid_request";
    const fix = fixOf(problem, method === OPEN ? "SLACK_APP_TOKEN (xapp-…)" : "SLACK_BOT_TOKEN (xoxb-…)");
    throw new AppError(code, `Slack rejected ${method}: ${problem}${fix}`);
  }
  throw new AppError("upstream_failure", "Slack sent an invalid response");
}

const BAD_TOKEN =
  /^(?:invalid_auth|not_authed|token_revoked|token_expired|account_inactive|not_allowed_token_type)$/;

function fixOf(problem: string, token: string): string {
  if (BAD_TOKEN.test(problem)) {
    return `: ${token} is invalid; copy it again from the app's settings`;
  }
  const invite = ": invite the bot to the channel of --slack-channel";
  const fixes: Readonly<Record<string, string>> = {
    missing_scope:
      ": add the scopes chat:write, users:read and channels:history (private channel: groups:history) to " +
      "the bot, connections:write to the app token, and install the app again",
    not_in_channel: invite,
    channel_not_found: invite,
  };
  return fixes[problem] ?? "";
}
