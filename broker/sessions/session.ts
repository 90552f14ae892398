import type { AuditEntry } from "@gateway/shared/audit";
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { SessionMode } from "@gateway/shared/wire";
import { Semaphore } from "../request/semaphore.ts";
import type { RouteAuthority } from "../request/obtain.ts";
import type { KeptBytes } from "../ssh/output.ts";
import type { CommandResult } from "../ssh/run_command.ts";
import type { Recorder, SessionTranscript } from "./recorder.ts";

export interface SessionInfo {
  readonly id: string;
  /** Only this caller may use the session. */
  readonly caller: string;
  readonly host: string;
  readonly mode: SessionMode;
  /** The serial of the target's certificate; `undefined` if each command gets its own certificate. */
  readonly serial: bigint | undefined;
  /** The last serials of bastions, single commands and replaced certificates, which may still be valid. */
  readonly otherSerials: readonly bigint[];
  readonly sudo: boolean;
  readonly sudoUser: string;
  readonly elevationPrefix: string;
  /** The shim that the certificate is locked to; `undefined` on a host that is not sealed. */
  readonly shim: string | undefined;
  readonly routeSignature: string;
}

export interface LinkRunOptions {
  readonly signal: AbortSignal;
  /** The host ends the command when its stdin ends (`stop_on_disconnect`). */
  readonly stopsAtStdinEnd?: boolean;
  readonly tap?: SessionTranscript | undefined;
  readonly output?: KeptBytes | undefined;
}

export interface SessionLink {
  /** The reason why no further command can run. */
  readonly broken: string | undefined;
  /** @throws {AppError} `upstream_failure` with the prefix `execution: `, `canceled`, or the error of the tap */
  run(command: string, options: LinkRunOptions): Promise<CommandResult>;
  close(): Promise<void>;
}

/** The link of a session without a certificate: each command connects with its own. */
export const NO_LINK: SessionLink = {
  broken: undefined,
  run: () => Promise.reject(new TypeError("A session without a certificate runs nothing")),
  close: () => Promise.resolve(),
};

type Renewal =
  & Pick<RouteAuthority, "serial" | "bastionSerials" | "elevationPrefix" | "shim">
  & { readonly link: SessionLink };

/** sshd's default for channels on one connection (`MaxSessions`). */
export const MAX_COMMANDS_AT_ONCE = 10;
export const MAX_COMMANDS_WAITING = 32;
/**
 * The maximum number of remembered serials. A session needs fewer in the lifetime of a certificate, unless it
 * runs a command each second.
 */
const MAX_OTHER_SERIALS = 1000;

/** The serials of all certificates of a session. A replaced certificate is valid until it expires. */
export function serialsOf(
  { serial, otherSerials }: Pick<SessionInfo, "serial" | "otherSerials">,
): readonly bigint[] {
  return serial === undefined ? otherSerials : [...otherSerials, serial];
}

export class Session {
  readonly recorder: Recorder | undefined;
  readonly openedAt: number;
  /** The last permitted command, redacted and truncated, for operators. */
  lastCommand = "";
  #info: SessionInfo;
  #link: SessionLink;
  readonly #entry: Omit<AuditEntry, "outcome">;
  readonly #replaced: SessionLink[] = [];
  readonly #own = new Set<SessionLink>();
  #renewing: Promise<void> | undefined;
  readonly #clock: Clock;
  readonly #turns: Semaphore;
  readonly #ended = new AbortController();
  #inUse = 0;
  #lastUsed: number;

  constructor({ info, link, recorder, entry, clock }: {
    readonly info: SessionInfo;
    readonly link: SessionLink;
    readonly recorder?: Recorder | undefined;
    readonly entry: Omit<AuditEntry, "outcome">;
    readonly clock: Clock;
  }) {
    this.#info = info;
    this.#link = link;
    this.recorder = recorder;
    this.#entry = entry;
    this.#clock = clock;
    this.openedAt = clock.now();
    this.#lastUsed = this.openedAt;
    this.#turns = new Semaphore(info.mode === "exec" ? MAX_COMMANDS_AT_ONCE : 1);
  }

  get info(): SessionInfo {
    return this.#info;
  }

  get link(): SessionLink {
    return this.#link;
  }

  get entry(): Omit<AuditEntry, "outcome"> {
    const { serial } = this.#info;
    return { ...this.#entry, ...(serial === undefined ? {} : { serial }) };
  }

  get isBusy(): boolean {
    return this.#inUse > 0;
  }

  get lastUsed(): number {
    return this.#lastUsed;
  }

  async end(): Promise<void> {
    const text = `session ${quoteText(this.#info.id)} has ended`;
    this.#ended.abort(new AppError("upstream_failure", text));
    const links = [this.#link, ...this.#replaced.splice(0), ...this.#own];
    await Promise.all(links.map((link) => link.close().catch(() => {})));
  }

  /** Replaces the connection and ends its commands. Concurrent commands share one renewal. */
  async renew(connect: (ended: AbortSignal) => Promise<Renewal>): Promise<void> {
    this.#renewing ??= this.#replace(connect).finally(() => this.#renewing = undefined);
    await this.#renewing;
  }

  async #replace(connect: (ended: AbortSignal) => Promise<Renewal>): Promise<void> {
    const { signal } = this.#ended;
    const { link, serial, bastionSerials, elevationPrefix, shim } = await connect(signal);
    if (signal.aborted) {
      await link.close();
      throw signal.reason;
    }
    this.#become(link, { serial, elevationPrefix, shim }, bastionSerials);
  }

  /** Keeps the serials of a command for the kill switch. The session's connection, whose certificate allows more, closes when idle. */
  keepOwn({ serial, bastionSerials }: Pick<Renewal, "serial" | "bastionSerials">): void {
    const none = { serial: undefined, elevationPrefix: "", shim: undefined };
    this.#become(NO_LINK, none, [...bastionSerials, serial]);
  }

  /** Runs a command on its own connection, which is closed afterwards, or with the session. */
  async runOwn<T>(link: SessionLink, run: () => Promise<T>): Promise<T> {
    this.#own.add(link);
    try {
      return await run();
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

  /**
   * Runs a step after the steps before it. The session counts as busy from the call on, and the end of the
   * session aborts the step.
   */
  async use<T>(signal: AbortSignal, step: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const either = AbortSignal.any([signal, this.#ended.signal]);
    this.#inUse += 1;
    this.#lastUsed = this.#clock.now();
    try {
      using _turn = await this.#turns.enter(either, {
        maxWaiting: MAX_COMMANDS_WAITING,
        full: `too many waiting commands in this session (limit: ${MAX_COMMANDS_WAITING})`,
      });
      return await step(either);
    } finally {
      this.#inUse -= 1;
      this.#lastUsed = this.#clock.now();
      if (!this.isBusy) { for (const link of this.#replaced.splice(0)) link.close().catch(() => {}); }
    }
  }
}
