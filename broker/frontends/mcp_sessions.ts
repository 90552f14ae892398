import { type Clock, every, type Random } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { KeptEvents } from "./kept_events.ts";
import { McpSession, type McpSessionParts } from "./mcp_session.ts";

/** How many sessions there may be, and for how long. */
export interface McpSessionLimits {
  readonly perUser: number;
  readonly total: number;
  /** A session in which nothing happens for so long is ended. */
  readonly idleMs: number;
}

const SESSION_LIMITS: McpSessionLimits = { perUser: 32, total: 1024, idleMs: 30 * 60_000 };

/** One user's: more than 10 MiB of output, which an answer holds twice, as text and as structure. */
export const EVENT_LIMITS = { userLength: 24 << 20, totalLength: 64 << 20 };

const SWEEP_SECONDS = 60;

interface McpSessionsOptions extends Pick<McpSessionParts, "clock" | "createServer" | "onProtocolError"> {
  readonly clock: Clock;
  readonly random: Random;
  readonly limits?: McpSessionLimits;
}

/** The open sessions. Each belongs to the end user who opened it, and answers to nobody else. */
export class McpSessions {
  readonly #options: McpSessionsOptions;
  readonly #limits: McpSessionLimits;
  readonly #sessions = new Map<string, McpSession>();
  readonly #kept = new KeptEvents(EVENT_LIMITS);
  readonly #stop = new AbortController();
  readonly #sweeping: Promise<void>;

  constructor(options: McpSessionsOptions) {
    this.#options = options;
    this.#limits = options.limits ?? SESSION_LIMITS;
    const { clock } = options;
    this.#sweeping = every({ clock, seconds: SWEEP_SECONDS, signal: this.#stop.signal }, () => this.#sweep());
  }

  get size(): number {
    return this.#sessions.size;
  }

  /**
   * Opens a session. A user who has the most that one may have loses the one unused for longest instead: clients
   * that go away without a word are more common than those that need so many.
   *
   * @throws {AppError} `rate_limited` when none can make room
   */
  open(user: string): McpSession {
    this.#stop.signal.throwIfAborted();
    const own = [...this.#sessions.values()].filter((session) => session.user === user);
    if (own.length >= this.#limits.perUser) {
      const [oldest] = own.filter(({ isBusy }) => !isBusy).sort((left, right) => right.idleMs - left.idleMs);
      if (oldest === undefined) throw tooMany(`session limit of this user reached (${this.#limits.perUser})`);
      this.#discard(oldest);
    }
    if (this.#sessions.size >= this.#limits.total) {
      throw tooMany(`session limit reached (${this.#limits.total})`);
    }
    const id = this.#options.random.bytes(20).toHex();
    const events = this.#kept.storeOf(id, user);
    const session = new McpSession({ ...this.#options, id, user, events });
    this.#sessions.set(id, session);
    return session;
  }

  /**
   * The user's session of this id.
   *
   * @throws {AppError} `not_found`; `forbidden` when it is somebody else's
   */
  find(id: string, user: string): McpSession {
    const session = this.#sessions.get(id);
    if (session === undefined) throw new AppError("not_found", "session not found");
    if (session.user !== user) throw new AppError("forbidden", "session user mismatch");
    return session;
  }

  /** Ends a session; what it runs is cancelled. */
  async end(session: McpSession): Promise<void> {
    this.#sessions.delete(session.id);
    this.#kept.forget(session.id);
    await session.close();
  }

  /** Ends the streams that would otherwise never end; sessions stay open. */
  endStandingStreams(): void {
    for (const session of this.#sessions.values()) session.endStandingStream();
  }

  /** Ends all sessions; none can be opened any more. */
  async close(): Promise<void> {
    this.#stop.abort(new AppError("canceled", "the broker is stopping"));
    await Promise.all([...this.#sessions.values()].map((session) => this.end(session)));
    await this.#sweeping;
  }

  #sweep(): void {
    for (const session of this.#sessions.values()) {
      if (session.idleMs >= this.#limits.idleMs) this.#discard(session);
    }
  }

  #discard(session: McpSession): void {
    this.end(session).catch((error) => this.#options.onProtocolError(error));
  }
}

function tooMany(why: string): AppError {
  return new AppError("rate_limited", why, { retryAfterSeconds: SWEEP_SECONDS });
}
