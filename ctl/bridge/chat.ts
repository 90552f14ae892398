import type { Clock } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { withPlainKeys } from "@gateway/shared/json";
import type { ServiceLogger } from "@gateway/shared/service";
import { collectBytes } from "@gateway/shared/text";
import type { Card, Verb } from "./card.ts";

export interface Click {
  /** Equal if the chat delivers the click again; unique otherwise. */
  readonly key: string;
  readonly message: string;
  /** The nonce in the button's value; absent in a chat without buttons. */
  readonly nonce?: string;
  readonly user: string;
  readonly verb: Verb;
}

/** `outsider`: a member of another workspace or server. */
export type Member = "person" | "program" | "outsider" | "gone";

/** The functions that the bridge needs from a chat. A message is identified by the chat's ID of the message. */
export interface Chat {
  readonly name: string;
  /** Checks the credentials. @returns the bridge's own account, for the log */
  connect(): Promise<string>;
  /**
   * Delivers clicks until the signal is aborted, and reconnects when the connection ends; never rejects.
   *
   * @param take resolves when the click is durable: only then the chat gets its acknowledgment
   */
  listen(take: (click: Click) => Promise<void>, signal: AbortSignal): Promise<void>;
  /** Posts a card. @returns the message */
  post(card: Card): Promise<string>;
  /** Finds the message of a card after a post without a response. */
  find(card: Card, since: number): Promise<string | undefined>;
  update(message: string, card: Card): Promise<void>;
  say(message: string, text: string): Promise<void>;
  member(user: string): Promise<Member>;
}

export interface ChatOptions {
  readonly channel: string;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  readonly fetch: typeof fetch;
  readonly signal: AbortSignal;
}

const MOST_BYTES = 4 * 1024 * 1024;

/**
 * A `fetch` that limits responses to 4 MiB, makes them safe for `JSON.parse`, and does not follow redirects.
 */
export function boundedFetch(fetch: typeof globalThis.fetch, signal: AbortSignal): typeof globalThis.fetch {
  return async (input, init) => {
    const signals = init?.signal ? [signal, init.signal] : [signal];
    const response = await fetch(input, { ...init, redirect: "error", signal: AbortSignal.any(signals) });
    const { body, status, statusText, headers } = response;
    const bytes = body === null ? new Uint8Array() : await collectBytes(body, MOST_BYTES);
    if (bytes === undefined) {
      throw new AppError("upstream_failure", `the chat's response is larger than ${MOST_BYTES} bytes`);
    }
    const isEmpty = status === 204 || status === 304;
    return new Response(isEmpty ? null : plain(new TextDecoder().decode(bytes)), {
      ...{ status, statusText, headers },
    });
  };
}

/** Makes JSON safe to parse. A text that is not JSON stays unchanged, and its parser rejects it. */
function plain(text: string): string {
  try {
    return withPlainKeys(text);
  } catch (error) {
    if (error instanceof SyntaxError) return text;
    throw error;
  }
}

const LONGEST_WANTED_SECONDS = 300;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

/** The pause that a chat requested with a failure, in milliseconds, up to a limit. */
export function wantedPauseMs(error: unknown): number {
  if (!(error instanceof AppError) || error.code !== "rate_limited") return 0;
  return Math.min(Math.max(error.retryAfterSeconds ?? 1, 0), LONGEST_WANTED_SECONDS) * 1000;
}

/**
 * Keeps a connection until the signal is aborted: reconnects when it ends, with growing pauses after failures.
 *
 * @param hold connects, calls `connected`, and resolves or rejects when the connection is over
 */
export async function keepConnected(
  { clock, logger }: Pick<ChatOptions, "clock" | "logger">,
  signal: AbortSignal,
  hold: (connected: () => void) => Promise<void>,
): Promise<void> {
  let pauseMs = FIRST_PAUSE_MS;
  let lastFailure = "";
  while (!signal.aborted) {
    let wantedMs = 0;
    try {
      await hold(() => {
        logger.info("connected to the chat");
        pauseMs = FIRST_PAUSE_MS;
        lastFailure = "";
      });
    } catch (error) {
      if (signal.aborted) return;
      wantedMs = wantedPauseMs(error);
      const failure = errorText(error);
      if (failure !== lastFailure) logger.warn("chat connection failed, retrying", { error });
      lastFailure = failure;
    }
    await clock.sleep(Math.max(pauseMs, wantedMs), signal).catch(() => {});
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  }
}
