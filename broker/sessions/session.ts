import type { AuditEntry } from "@gateway/shared/audit";
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { SessionMode } from "@gateway/shared/wire";
import type { Recorder } from "./recorder.ts";
import { NO_LINK, type SessionLink } from "./link.ts";
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

/** What a session is. What its certificate says is another's after {@linkcode Session.renew}. */
export interface SessionInfo {
  /** 24 hexadecimal digits. */
  readonly id: string;
  /** Who opened it, and alone may use it. */
  readonly caller: string;
  readonly host: string;
  readonly mode: SessionMode;
  /** Of the target's certificate; `undefined`: each command gets a certificate of its own. */
  readonly serial: bigint | undefined;
  /** Of the bastions' certificates, of single commands, and of those before, which may still be valid; the last ones. */
  readonly otherSerials: readonly bigint[];
  readonly sudo: boolean;
  /** Root when empty. */
  readonly sudoUser: string;
  /** What the signer put before elevated commands; empty for none. */
  readonly elevationPrefix: string;
  /** The shim that the certificate is locked to on a sealed host; `undefined`: commands run as they are sent. */
  readonly shim: string | undefined;
  /** Of the route that it was opened on. */
  readonly routeSignature: string;
}

/** A connection, and what the certificate that it was made with says. */
export interface Renewal extends Pick<SessionInfo, "elevationPrefix" | "shim"> {
  readonly link: SessionLink;
  readonly serial: bigint;
  readonly bastionSerials: readonly bigint[];
}

/** What a {@linkcode Session} is made of. */
interface SessionParts {
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
/** More than a session uses in the life of a certificate, unless it runs a command each second. */
const MAX_OTHER_SERIALS = 1000;
export const MAX_COMMANDS_WAITING = 32;

/** Of all its certificates: one that was replaced opens the host until it expires, a bastion's the bastion. */
export function serialsOf(
  { serial, otherSerials }: Pick<SessionInfo, "serial" | "otherSerials">,
): readonly bigint[] {
  return serial === undefined ? otherSerials : [...otherSerials, serial];
}

export class Session {
  readonly recorder: Recorder | undefined;
  readonly openedAt: number;
  #info: SessionInfo;
  #link: SessionLink;
  readonly #entry: Omit<AuditEntry, "outcome">;
  /** Earlier connections, on which commands may still run. */
  readonly #replaced: SessionLink[] = [];
  /** Connections of single commands that run. */
  readonly #own = new Set<SessionLink>();
  #renewing: Promise<void> | undefined;
  readonly #clock: Clock;
  readonly #turns: Turns;
  readonly #ended = new AbortController();
  #inUse = 0;
  #lastUsed: number;

  constructor({ info, link, recorder, entry, clock }: SessionParts) {
    this.#info = info;
    this.#link = link;
    this.recorder = recorder;
    this.#entry = entry;
    this.#clock = clock;
    this.openedAt = clock.now();
    this.#lastUsed = this.openedAt;
    // A shell does one thing after the other.
    const atOnce = info.mode === "exec" ? MAX_COMMANDS_AT_ONCE : 1;
    this.#turns = new Turns({ atOnce, waiting: MAX_COMMANDS_WAITING });
  }

  get info(): SessionInfo {
    return this.#info;
  }

  get link(): SessionLink {
    return this.#link;
  }

  /** What every record of it says, with the serial of its certificate. */
  get entry(): Omit<AuditEntry, "outcome"> {
    const { serial } = this.#info;
    return { ...this.#entry, ...(serial === undefined ? {} : { serial }) };
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
   * Puts another connection in the place of one that does not fit the host any more. What runs on the old one ends
   * there. Commands that come at the same time share one.
   *
   * @param seen the connection that does not fit
   * @param connect gives the new one; its signal is aborted with the session
   */
  async renew(seen: SessionLink, connect: (signal: AbortSignal) => Promise<Renewal>): Promise<void> {
    if (this.#link !== seen) return;
    this.#renewing ??= this.#replace(connect).finally(() => this.#renewing = undefined);
    await this.#renewing;
  }

  async #replace(connect: (signal: AbortSignal) => Promise<Renewal>): Promise<void> {
    const { link, bastionSerials, ...certified } = await connect(this.ended);
    if (this.ended.aborted) {
      await link.close();
      throw this.ended.reason;
    }
    this.#become(link, certified, bastionSerials);
  }

  /**
   * Keeps the serials of a command's own certificates, for the kill switch. A connection that the session still has is
   * closed when nothing runs on it any more: its certificate is locked to nothing.
   */
  keepOwn({ serial, bastionSerials }: Pick<Renewal, "serial" | "bastionSerials">): void {
    this.#become(NO_LINK, { serial: undefined, elevationPrefix: "", shim: undefined }, [
      ...bastionSerials,
      serial,
    ]);
  }

  /** Runs a command on a connection of its own, which is closed afterwards, or with the session. */
  async runOwn<T>(link: SessionLink, run: (link: SessionLink) => Promise<T>): Promise<T> {
    this.#own.add(link);
    try {
      return await run(link);
    } finally {
      this.#own.delete(link);
      await link.close();
    }
  }

  #become(
    link: SessionLink,
    certified: Pick<SessionInfo, "serial" | "elevationPrefix" | "shim">,
    serials: readonly bigint[],
  ): void {
    if (this.#link !== NO_LINK) this.#replaced.push(this.#link);
    this.#link = link;
    const otherSerials = [...serialsOf(this.#info), ...serials].slice(-MAX_OTHER_SERIALS);
    this.#info = { ...this.#info, ...certified, otherSerials };
  }

  /** Closes its connections, whatever runs on them. */
  async close(): Promise<void> {
    const links = [this.#link, ...this.#replaced.splice(0), ...this.#own];
    await Promise.all(links.map((link) => link.close().catch(() => {})));
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
      if (!this.isBusy) { for (const link of this.#replaced.splice(0)) link.close().catch(() => {}); }
    }
  }
}
