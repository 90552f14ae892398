import { AppError } from "@gateway/shared/errors";
import type { Card, Verb } from "./card.ts";

/** A decision that somebody in the chat has made. */
export interface Click {
  /** The same when the chat delivers it again, and no other's. */
  readonly key: string;
  /** The message that it was made on. */
  readonly message: string;
  /** What the button carried; absent where the chat has no buttons, and the message alone says what is meant. */
  readonly nonce?: string;
  /** The user's id in the chat. */
  readonly user: string;
  readonly verb: Verb;
}

/** Who somebody in the chat is. `outsider`: of another workspace or server. */
export type Member = "person" | "program" | "outsider" | "gone";

/** What the bridge asks of a chat. An identity of a message is the chat's own. */
export interface Chat {
  /** As people call it, in the audit log too. */
  readonly name: string;
  /**
   * Finds out whether the credentials serve.
   *
   * @returns who the bridge is there, for the log
   * @throws {AppError} when they don't
   */
  connect(signal: AbortSignal): Promise<string>;
  /**
   * Passes clicks on until the signal is aborted, and connects again whenever that ends; never rejects.
   *
   * @param take resolves once the click can't be lost any more: only then the chat is told that it has arrived
   */
  listen(take: (click: Click) => Promise<void>, signal: AbortSignal): Promise<void>;
  /**
   * Posts a card.
   *
   * @returns the message
   * @throws {AppError} `rate_limited` or `invalid_request` where nothing was posted; else nobody knows
   */
  post(card: Card): Promise<string>;
  /** The message with a card that was posted lately and whose answer was lost; `undefined`: there is none. */
  find(card: Card, since: number): Promise<string | undefined>;
  /** Puts another card in the place of a message's. */
  update(message: string, card: Card): Promise<void>;
  say(message: string, text: string): Promise<void>;
  member(user: string): Promise<Member>;
}

const LONGEST_PAUSE_SECONDS = 300;

/** How long a chat is left alone after a failure, in milliseconds: as long as it wants, within reason. */
export function wantedPauseMs(error: unknown): number {
  if (!(error instanceof AppError) || error.code !== "rate_limited") return 0;
  return Math.min(Math.max(error.retryAfterSeconds ?? 1, 0), LONGEST_PAUSE_SECONDS) * 1000;
}
