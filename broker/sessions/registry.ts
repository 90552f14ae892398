import type { AuditEntry } from "@gateway/shared/audit";
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { Events } from "../request/records.ts";
import type { RecordingSummary } from "./recorder.ts";
import type { Session, SessionInfo } from "./session.ts";

/** How many sessions there may be, those that are being opened included. */
export const SESSION_LIMITS = { total: 200, perCaller: 20 } as const;

/** How long a session may live. */
export interface Lifetimes {
  readonly idleSeconds: number;
  readonly maxSeconds: number;
}

/** What a {@linkcode SessionRegistry} works with. */
interface RegistryPorts {
  readonly clock: Clock;
  readonly events: Pick<Events, "bestEffort">;
  readonly lifetimes: Lifetimes;
}

/** How a session came to its end, for the audit log. */
interface Ending {
  readonly outcome: "session_close" | "session_killed";
  readonly err?: string;
}

/** The open sessions, and the room for more. */
export class SessionRegistry {
  readonly #ports: RegistryPorts;
  readonly #sessions = new Map<string, Session>();
  /** How many are open or being opened, by caller. */
  readonly #places = new Map<string, number>();
  #total = 0;
  #stale: string | undefined;

  constructor(ports: RegistryPorts) {
    this.#ports = ports;
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** Rejects new sessions and commands with this reason, until `undefined` ends that. */
  reject(reason: string | undefined): void {
    this.#stale = reason;
  }

  /**
   * Takes a place for a session, before anything is asked of anybody. The place has to be left again, by
   * {@linkcode SessionRegistry.leave} or by the end of the session that is added in it.
   *
   * @throws {AppError} `rate_limited`, `state_stale`
   */
  enter(caller: string): void {
    this.#requireKnownFreezes();
    const own = this.#places.get(caller) ?? 0;
    const full = this.#total >= SESSION_LIMITS.total
      ? `global session limit reached (${SESSION_LIMITS.total})`
      : own >= SESSION_LIMITS.perCaller
      ? `per-caller session limit reached (${SESSION_LIMITS.perCaller})`
      : undefined;
    if (full !== undefined) {
      throw new AppError("rate_limited", `${full}; close existing sessions before opening new ones`);
    }
    this.#places.set(caller, own + 1);
    this.#total += 1;
  }

  #requireKnownFreezes(): void {
    if (this.#stale !== undefined) throw new AppError("state_stale", this.#stale);
  }

  /** Gives a place back that no session was added in. */
  leave(caller: string): void {
    const own = (this.#places.get(caller) ?? 0) - 1;
    if (own > 0) this.#places.set(caller, own);
    else this.#places.delete(caller);
    this.#total -= 1;
  }

  /** Adds a session in a place that has been taken. From now on it can be killed. */
  add(session: Session): void {
    this.#sessions.set(session.info.id, session);
  }

  /**
   * A caller's session. Looking for it changes nothing about it.
   *
   * @param unknown the text for a session that there is not
   * @throws {AppError} `not_found`, or `forbidden` when it is another's
   */
  find(id: string, caller: string, unknown: string): Session {
    const session = this.#sessions.get(id);
    if (session === undefined) throw new AppError("not_found", `${unknown}: ${quoteText(id)}`);
    if (session.info.caller === caller) return session;
    throw new AppError("forbidden", `session ${quoteText(id)} does not belong to the current caller`);
  }

  /**
   * A caller's session, to run something in it. One that has reached its age takes nothing new, or it would stay
   * busy, and open, for ever.
   *
   * @throws {AppError} `not_found`, `state_stale`, or `forbidden` when it is another's
   */
  findForUse(id: string, caller: string): Session {
    this.#requireKnownFreezes();
    const unknown = "unknown or expired session";
    const session = this.find(id, caller, unknown);
    if (this.#isOld(session)) throw new AppError("not_found", `${unknown}: ${quoteText(id)}`);
    return session;
  }

  /**
   * Ends a session, whatever runs in it: its connection goes first, then its recording is closed, then it is
   * recorded. Does nothing when it has ended already.
   */
  async end(session: Session, { outcome, err = "" }: Ending): Promise<boolean> {
    const summary = await this.drop(session);
    if (summary === "gone") return false;
    await this.#ports.events.bestEffort({ ...session.entry, outcome, err, ...describeRecording(summary) });
    return true;
  }

  /** Ends a session without a record; `"gone"` when it had ended already, else what was recorded of it. */
  async drop(session: Session): Promise<RecordingSummary | undefined | "gone"> {
    const { id, caller } = session.info;
    // Whoever takes it out ends it: nobody else will.
    if (this.#sessions.get(id) !== session) return "gone";
    this.#sessions.delete(id);
    this.leave(caller);
    session.end();
    await session.close();
    return await session.recorder?.close();
  }

  /**
   * Kills every session that matches.
   *
   * @returns how many there were
   */
  async kill(matches: (session: SessionInfo) => boolean, why: string): Promise<number> {
    const found = [...this.#sessions.values()].filter(({ info }) => matches(info));
    const ended = await Promise.all(
      found.map((session) => this.end(session, { outcome: "session_killed", err: why })),
    );
    return ended.filter((did) => did).length;
  }

  /** Closes the sessions that nobody has used for too long, or that are too old; those that are busy stay. */
  async reap(): Promise<void> {
    const { clock, lifetimes } = this.#ports;
    const unusedSince = clock.now() - lifetimes.idleSeconds * 1000;
    const due = [...this.#sessions.values()].filter((session) =>
      !session.isBusy && (session.lastUsed <= unusedSince || this.#isOld(session))
    );
    const ending: Ending = { outcome: "session_close", err: "reaped (idle/lifetime)" };
    await Promise.all(due.map((session) => this.end(session, ending)));
  }

  #isOld({ openedAt }: Session): boolean {
    const { clock, lifetimes } = this.#ports;
    return clock.now() - openedAt >= lifetimes.maxSeconds * 1000;
  }

  async closeAll(): Promise<void> {
    const ending: Ending = { outcome: "session_close", err: "broker stopped" };
    await Promise.all([...this.#sessions.values()].map((session) => this.end(session, ending)));
  }
}

function describeRecording(
  summary: RecordingSummary | undefined,
): Pick<AuditEntry, "body_sha256" | "warning"> {
  if (summary === undefined) return {};
  const { sha256, complete } = summary;
  if (sha256 === undefined) return { warning: "the recording could not be closed" };
  return { body_sha256: sha256, warning: complete ? "" : "the recording is not complete" };
}
