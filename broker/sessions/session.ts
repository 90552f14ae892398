import type { AuditEntry } from "@gateway/shared/audit/entry";
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/quote";
import type { SessionMode } from "@gateway/shared/wire/sign";
import type { Recorder } from "../recording/recorder.ts";
import type { SessionLink } from "./link.ts";
import { Turns } from "./turns.ts";

/** On whose behalf something is asked; each request brings its own. */
export interface Asker {
  readonly caller: string;
  /** `null`: no filter by groups. */
  readonly callerGroups: readonly string[] | null;
  /** The caller's own token: a secret, for the signer and nobody else. */
  readonly bearerToken?: string | undefined;
  /** Why, in the caller's words: for whoever has to approve it. */
  readonly reason?: string | undefined;
}

/** What a session is, and stays. */
export interface SessionInfo {
  /** 24 hexadecimal digits. */
  readonly id: string;
  /** Who opened it, and alone may use it. */
  readonly caller: string;
  /** The logical name. */
  readonly host: string;
  readonly mode: SessionMode;
  /** Of the target's certificate. */
  readonly serial: bigint;
  readonly sudo: boolean;
  /** Root when empty. */
  readonly sudoUser: string;
  /** What the signer put before elevated commands; empty for none. */
  readonly elevationPrefix: string;
  /** Of the route that it was opened on. */
  readonly routeSignature: string;
}

/** What a {@linkcode Session} is made of. */
export interface SessionParts {
  readonly info: SessionInfo;
  readonly link: SessionLink;
  /** Absent where nothing is recorded. */
  readonly recorder: Recorder | undefined;
  /** What every record of it says. */
  readonly entry: Omit<AuditEntry, "outcome">;
  readonly clock: Clock;
}

/** sshd's default for channels on one connection (`MaxSessions`). */
export const MAX_COMMANDS_AT_ONCE = 10;
/** How many more may wait. */
export const MAX_COMMANDS_WAITING = 32;

/** An open session. */
export class Session {
  readonly info: SessionInfo;
  readonly link: SessionLink;
  readonly recorder: Recorder | undefined;
  readonly entry: Omit<AuditEntry, "outcome">;
  readonly openedAt: number;
  readonly #clock: Clock;
  readonly #turns: Turns;
  readonly #ended = new AbortController();
  #inUse = 0;
  #lastUsed: number;

  constructor({ info, link, recorder, entry, clock }: SessionParts) {
    this.info = info;
    this.link = link;
    this.recorder = recorder;
    this.entry = entry;
    this.#clock = clock;
    this.openedAt = clock.now();
    this.#lastUsed = this.openedAt;
    // A shell does one thing after the other.
    const atOnce = info.mode === "exec" ? MAX_COMMANDS_AT_ONCE : 1;
    this.#turns = new Turns({ atOnce, waiting: MAX_COMMANDS_WAITING });
  }

  /** Aborted when the session has been closed, killed or reaped. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** A command runs, or waits for its turn. */
  get isBusy(): boolean {
    return this.#inUse > 0;
  }

  /** When it was last used, in milliseconds since the epoch. */
  get lastUsed(): number {
    return this.#lastUsed;
  }

  /** Tells whoever uses it that it is over. */
  end(): void {
    const text = `session ${quoteText(this.info.id)} has ended`;
    this.#ended.abort(new AppError("upstream_failure", text));
  }

  /**
   * Runs a step when its turn has come; the session is busy from the call on. The step's signal is aborted with the
   * given one and with the session.
   *
   * @throws {AppError} `rate_limited` when too many wait already
   */
  async use<T>(signal: AbortSignal, step: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const either = AbortSignal.any([signal, this.ended]);
    this.#inUse += 1;
    this.#lastUsed = this.#clock.now();
    try {
      using _turn = await this.#turns.take(either);
      return await step(either);
    } finally {
      this.#inUse -= 1;
      this.#lastUsed = this.#clock.now();
    }
  }
}
