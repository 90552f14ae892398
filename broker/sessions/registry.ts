import { type Clock, every } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { Events } from "../request/records.ts";
import type { RecordingSummary } from "./recorder.ts";
import type { Session, SessionInfo } from "./session.ts";

/** The limits of open sessions. A session that is being opened counts. */
export const SESSION_LIMITS = { total: 200, perCaller: 20 } as const;
const REAP_SECONDS = 30;

interface RegistryPorts {
  readonly clock: Clock;
  readonly events: Pick<Events, "bestEffort">;
  readonly lifetimes: { readonly idleSeconds: number; readonly maxSeconds: number };
}

interface Ending {
  readonly outcome: "session_close" | "session_killed";
  readonly err?: string;
}

export class SessionRegistry {
  readonly #ports: RegistryPorts;
  /** Open sessions, and places without a session yet, by session ID. */
  readonly #places = new Map<string, { readonly caller: string; readonly session?: Session }>();
  #stale: string | undefined;

  constructor(ports: RegistryPorts) {
    this.#ports = ports;
  }

  get size(): number {
    return this.open.length;
  }

  get open(): readonly Session[] {
    return [...this.#places.values()].flatMap(({ session }) => session ?? []);
  }

  /** Rejects new sessions and commands with this reason; `undefined` accepts them again. */
  reject(reason: string | undefined): void {
    this.#stale = reason;
  }

  /** Reserves a place, which {@linkcode leave} or the end of the session frees. */
  enter(id: string, caller: string): void {
    this.#requireKnownFreezes();
    const own = [...this.#places.values()].filter((place) => place.caller === caller).length;
    const full = this.#places.size >= SESSION_LIMITS.total
      ? `global session limit reached (${SESSION_LIMITS.total})`
      : own >= SESSION_LIMITS.perCaller
      ? `per-caller session limit reached (${SESSION_LIMITS.perCaller})`
      : undefined;
    if (full !== undefined) {
      throw new AppError("rate_limited", `${full}; close existing sessions before opening new ones`);
    }
    this.#places.set(id, { caller });
  }

  #requireKnownFreezes(): void {
    if (this.#stale !== undefined) throw new AppError("state_stale", this.#stale);
  }

  leave(id: string): void {
    this.#places.delete(id);
  }

  /** Adds a session in its place. From now on it can be killed. */
  add(session: Session): void {
    const { id, caller } = session.info;
    this.#places.set(id, { caller, session });
  }

  /**
   * Finds a caller's session, without counting as a use of it. `unknown` is the error text for an unknown
   * session.
   */
  find(id: string, caller: string, unknown: string): Session {
    const session = this.#places.get(id)?.session;
    if (session === undefined) throw new AppError("not_found", `${unknown}: ${quoteText(id)}`);
    if (session.info.caller === caller) return session;
    throw new AppError("forbidden", `session ${quoteText(id)} does not belong to the current caller`);
  }

  /**
   * Finds a caller's session for a command. A session that has reached its maximum age accepts none, because
   * it could otherwise stay busy and open forever.
   */
  findForUse(id: string, caller: string): Session {
    this.#requireKnownFreezes();
    const unknown = "unknown or expired session";
    const session = this.find(id, caller, unknown);
    if (this.#isOld(session)) throw new AppError("not_found", `${unknown}: ${quoteText(id)}`);
    return session;
  }

  /** Ends a session with all its commands: closes the connection, then the recording, then writes the audit record. */
  async end(session: Session, ending: Ending): Promise<void> {
    const summary = await this.drop(session);
    if (summary === "gone") return;
    const recorded = summary &&
      (summary.sha256 === undefined
        ? { warning: "the recording could not be closed" }
        : { body_sha256: summary.sha256, warning: summary.complete ? "" : "the recording is not complete" });
    await this.#ports.events.bestEffort({ err: "", ...session.entry, ...ending, ...recorded });
  }

  /** Ends a session without an audit record; `"gone"` if it has ended already. */
  async drop(session: Session): Promise<RecordingSummary | undefined | "gone"> {
    const { id } = session.info;
    if (this.#places.get(id)?.session !== session) return "gone";
    this.#places.delete(id);
    await session.end();
    return await session.recorder?.close();
  }

  async kill(matches: (session: SessionInfo) => boolean, why: string): Promise<void> {
    await this.#endAll(({ info }) => matches(info), { outcome: "session_killed", err: why });
  }

  /** Closes idle and old sessions that are not busy, until the signal is aborted. */
  async reapUntil(signal: AbortSignal): Promise<void> {
    const { clock, lifetimes: { idleSeconds, maxSeconds } } = this.#ports;
    const ending: Ending = { outcome: "session_close", err: "reaped (idle/lifetime)" };
    await every({ clock, seconds: Math.min(REAP_SECONDS, idleSeconds, maxSeconds), signal }, async () => {
      const unusedSince = clock.now() - idleSeconds * 1000;
      await this.#endAll(
        (session) => !session.isBusy && (session.lastUsed <= unusedSince || this.#isOld(session)),
        ending,
      );
    });
  }

  async closeAll(): Promise<void> {
    await this.#endAll(() => true, { outcome: "session_close", err: "broker stopped" });
  }

  async #endAll(matches: (session: Session) => boolean, ending: Ending): Promise<void> {
    await Promise.all(this.open.filter(matches).map((session) => this.end(session, ending)));
  }

  #isOld({ openedAt }: Session): boolean {
    const { clock, lifetimes } = this.#ports;
    return clock.now() - openedAt >= lifetimes.maxSeconds * 1000;
  }
}
