import { z } from "@zod/zod";
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { parseJson } from "@gateway/shared/json";
import type { ServiceLogger } from "@gateway/shared/log";
import { within } from "@gateway/shared/within";
import { boundedFetch } from "./bounded_fetch.ts";
import type { Card } from "./card.ts";
import type { Chat, Click, Member } from "./chat.ts";
import { keepConnected } from "./keep_connected.ts";
import { blocksOf, plainText, summaryOf } from "./slack_blocks.ts";
import { readSlackClick } from "./slack_click.ts";

/** What {@linkcode SlackChat} needs. */
export interface SlackOptions {
  readonly apiUrl: string;
  readonly channel: string;
  readonly botToken: string;
  readonly appToken: string;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  readonly fetch: typeof fetch;
  /** Ends every request. */
  readonly signal: AbortSignal;
}

const TIMEOUT_MS = 15_000;
const START_MS = 30_000;
/**
 * How long a socket is relied on. One whose other end has vanished can't be told from one that is silent, for Slack
 * pings without the program seeing it; so the next one is opened in good time, and takes over before the last ends.
 */
const LIFE_MS = 5 * 60_000;
const OVERLAP_MS = 10_000;
/** By which a message is found again; the app sees it, people don't. */
const EVENT_TYPE = "gateway_approval";
/** Slack says these of a message that is not there any more. */
const GONE: readonly string[] = ["message_not_found", "cant_update_message", "thread_not_found"];

const socketAddress = z.object({ url: z.string() });
const envelope = z.object({
  type: z.string(),
  envelope_id: z.string().max(200).optional(),
  payload: z.unknown().optional(),
});
const verdict = z.object({ ok: z.boolean(), error: z.string().optional() });
const auth = z.object({
  team_id: z.string().min(1),
  user_id: z.string().min(1),
  bot_id: z.string().optional(),
});
const postedMessage = z.object({ ts: z.string().min(1) });
const history = z.object({
  messages: z.array(z.object({
    ts: z.string(),
    bot_id: z.string().optional(),
    metadata: z.object({ event_type: z.string(), event_payload: z.record(z.string(), z.unknown()) })
      .optional(),
  })),
});
const userInfo = z.object({
  user: z.object({
    team_id: z.string().optional(),
    is_bot: z.boolean().optional(),
    is_stranger: z.boolean().optional(),
    deleted: z.boolean().optional(),
  }),
});

/** A channel of Slack: the Web API, and Socket Mode for clicks, so that nothing of the bridge's is open to the internet. */
export class SlackChat implements Chat {
  readonly name = "Slack";
  readonly #options: SlackOptions;
  readonly #fetch: typeof fetch;
  #home: Promise<z.infer<typeof auth>> | undefined;

  /** Connects with the first request. */
  constructor(options: SlackOptions) {
    this.#options = options;
    this.#fetch = boundedFetch(options.fetch, options.signal);
  }

  async connect(): Promise<string> {
    const { team_id, user_id } = await this.#whoAmI();
    // Asked for here, so that it fails at the start where the app may not ask it.
    await this.#ask("users.info", { user: user_id }, userInfo);
    return `${user_id} in ${team_id}`;
  }

  async listen(take: (click: Click) => Promise<void>, signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    await keepConnected({ clock, logger, signal }, (connected) => this.#hold(take, connected, signal));
  }

  async post(card: Card): Promise<string> {
    const { ts } = await this.#ask("chat.postMessage", {
      ...this.#message(card),
      metadata: { event_type: EVENT_TYPE, event_payload: { nonce: card.nonce } },
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
      include_all_metadata: true,
    }, history);
    return messages.find(({ bot_id: author, metadata }) =>
      author !== undefined && author === bot_id && metadata?.event_type === EVENT_TYPE &&
      metadata.event_payload["nonce"] === nonce
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
      blocks: [{ type: "section", text: plainText(text) }],
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

  async #hold(
    take: (click: Click) => Promise<void>,
    connected: () => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { channel, clock, appToken, logger } = this.#options;
    const { team_id: team } = await this.#whoAmI();
    const { url } = await this.#ask("apps.connections.open", {}, socketAddress, appToken);
    const socket = new WebSocket(this.#checkAddress(url));
    let greet = () => {};
    const greeted = new Promise<void>((resolve) => greet = resolve);
    const over = new Promise<void>((resolve) => {
      socket.onclose = () => resolve();
      socket.onerror = () => resolve();
    });
    const receive = async (text: string) => {
      const { data } = envelope.safeParse(parse(text));
      if (data?.type === "hello") greet();
      if (data?.type === "disconnect") socket.close();
      if (data?.envelope_id === undefined) return;
      const click = data.type === "interactive" ? readSlackClick(data.payload, { team, channel }) : undefined;
      if (click !== undefined) await take(click);
      else logger.warn("what came from Slack is none of this channel's buttons");
      // Slack delivers again what is not acknowledged.
      if (socket.readyState === WebSocket.OPEN) {
        socket.send(JSON.stringify({ envelope_id: data.envelope_id }));
      }
    };
    socket.onmessage = ({ data }) =>
      void receive(String(data)).catch((error) => logger.warn("a click was not taken", { error }));
    const close = () => socket.close();
    signal.addEventListener("abort", close, { once: true });
    over.then(() => signal.removeEventListener("abort", close));
    try {
      const late = () => new AppError("upstream_failure", "Slack's socket did not open in time");
      const closed = over.then(() => {
        throw new AppError("upstream_failure", "Slack's socket did not open");
      });
      await within({ clock, ms: START_MS, signal, late }, Promise.race([greeted, closed]));
    } catch (error) {
      close();
      throw error;
    }
    connected();
    const life = new AbortController();
    await Promise.race([over, clock.sleep(LIFE_MS, life.signal).catch(() => {})]);
    life.abort();
    void Promise.race([over, clock.sleep(OVERLAP_MS, signal).catch(() => {})]).then(close);
  }

  /** Whoever could answer in Slack's place must not have clicks come in the clear. */
  #checkAddress(text: string): URL {
    const url = URL.parse(text);
    const isExpected = url?.protocol === new URL(this.#options.apiUrl).protocol.replace("http", "ws");
    if (url !== null && isExpected) return url;
    throw new AppError(
      "upstream_failure",
      "Slack's answer to apps.connections.open is not one that it gives",
    );
  }

  /** Asked once; what fails is asked again. */
  #whoAmI(): Promise<z.infer<typeof auth>> {
    this.#home ??= this.#ask("auth.test", {}, auth).catch((error) => {
      this.#home = undefined;
      throw error;
    });
    return this.#home;
  }

  async #ask<T>(
    method: string,
    body: Readonly<Record<string, unknown>>,
    schema: z.ZodType<T>,
    token: string = this.#options.botToken,
  ): Promise<T> {
    const { apiUrl, clock, signal } = this.#options;
    const form = Object.entries(body).map(([name, value]) => [
      name,
      typeof value === "string" ? value : JSON.stringify(value),
    ]);
    const response = await within(
      { clock, ms: TIMEOUT_MS, signal },
      (ended) =>
        this.#fetch(`${apiUrl}${method}`, {
          method: "POST",
          headers: { authorization: `Bearer ${token}` },
          body: new URLSearchParams(form),
          signal: ended,
        }),
    ).catch(() => {
      throw new AppError("upstream_failure", "Slack did not answer");
    });
    const answer = await readAnswer(response);
    const { data } = schema.safeParse(answer);
    if (data !== undefined) return data;
    throw new AppError("upstream_failure", `Slack's answer to ${method} is not one that it gives`);
  }
}

/** An answer that is well. What a body says beside Slack's short words of failure goes into no message. */
async function readAnswer(response: Response): Promise<unknown> {
  if (response.status === 429) {
    const seconds = Number(response.headers.get("retry-after"));
    const retryAfterSeconds = seconds > 0 && seconds < 3600 ? seconds : 30;
    throw new AppError("rate_limited", "Slack wants a pause", { retryAfterSeconds });
  }
  if (response.status !== 200) throw new AppError("upstream_failure", `Slack answered ${response.status}`);
  const answer = parse(await response.text());
  const { data } = verdict.safeParse(answer);
  if (data?.ok === true) return answer;
  const word = data?.error ?? "";
  if (!/^[a-z_]{1,60}$/.test(word)) {
    throw new AppError("upstream_failure", "Slack did not answer as it should");
  }
  throw new AppError(GONE.includes(word) ? "not_found" : "invalid_request", `Slack refuses: ${word}`);
}

function parse(text: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
