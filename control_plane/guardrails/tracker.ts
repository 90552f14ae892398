import { parseStandardJson } from "@gateway/shared/json";
import { digestOf } from "../approvals/approval.ts";
import type { ControlPlaneConfig } from "../config/config.ts";
import { type Member, SubjectTable } from "./subject_table.ts";

export interface BehaviorRequest {
  readonly subject: string;
  /** Empty: none. */
  readonly host: string;
  /** Empty: none, as for a session. */
  readonly command: string;
}

export interface TrackerLimits {
  /** 0 means no limit. */
  readonly rateLimitPerMin: number;
  readonly maxSubjects: number;
  readonly idleMs: number;
  /** The limit of hosts, and of commands, per subject. Beyond it nothing counts as new. */
  readonly maxDistinct: number;
}

/** The usual hosts and commands of a subject. */
export interface Baseline {
  readonly subject: string;
  /** Milliseconds of the tracker's time; in the store since the epoch. */
  readonly lastSeen: number;
  readonly hosts: readonly string[];
  readonly commands: readonly string[];
}

interface Habits {
  readonly hosts: Set<string>;
  readonly commands: Set<string>;
  /** The number of learned requests. Before the first one, nothing counts as new. */
  learned: number;
  readonly window: RateWindow | undefined;
}

/** After this many learned requests, a subject is established. */
const ESTABLISHED_AFTER = 3;

const WITHIN_RATE = { exceeded: false, retryAfterMs: 0 };

/**
 * The usual rate, hosts and commands of subjects. A request is compared when it arrives, and learned when the signer has
 * issued. All times are milliseconds that never go back.
 */
export class Tracker {
  readonly #limits: TrackerLimits;
  readonly #table: SubjectTable<Habits>;

  constructor(limits: TrackerLimits, onForget: (subject: string) => void) {
    this.#limits = limits;
    this.#table = new SubjectTable({ ...limits, onForget });
  }

  get size(): number {
    return this.#table.size;
  }

  /** Compares a request with its subject's habits, and counts it for the rate. */
  check(request: BehaviorRequest, now: number) {
    const { value: habits } = this.#see(request.subject, now);
    return {
      rate: habits.window?.record(now) ?? WITHIN_RATE,
      novelties: this.#novelties(request, habits),
    };
  }

  /** Adds a request to its subject's habits; false if it was there already. */
  learn(request: BehaviorRequest, now: number): boolean {
    const { value: habits } = this.#see(request.subject, now);
    const { hosts, commands } = habits;
    const before = hosts.size + commands.size;
    this.#add(hosts, request.host);
    this.#add(commands, fingerprintOf(request.command));
    habits.learned++;
    if (habits.learned === 1 || habits.learned >= ESTABLISHED_AFTER) {
      this.#table.promote(request.subject, now);
    }
    return habits.learned === 1 || hosts.size + commands.size > before;
  }

  /** Learns a request unless it is new: of the concurrent first requests of a subject, only one becomes its habit. */
  learnUsual(request: BehaviorRequest, now: number): boolean {
    const habits = this.#table.find(request.subject, now)?.value;
    if (habits !== undefined && this.#novelties(request, habits).length > 0) return false;
    return this.learn(request, now);
  }

  /** The baseline of a subject of which something was learned. */
  baseline(subject: string): Baseline | undefined {
    const member = this.#table.peek(subject);
    if (member === undefined || member.value.learned === 0) return undefined;
    const { lastSeen, value: { hosts, commands } } = member;
    return { subject, lastSeen, hosts: [...hosts], commands: [...commands] };
  }

  /** Restores stored baselines into an empty tracker. */
  restore(baselines: readonly Baseline[]): void {
    this.#table.restore(baselines.map((baseline) => {
      const { subject, lastSeen } = baseline;
      return { subject, broker: brokerOf(subject), lastSeen, value: this.#habits(baseline) };
    }));
  }

  /** Adopts the habits that another process has stored, unless something was learned here. */
  adopt(baseline: Omit<Baseline, "lastSeen">, now: number): void {
    const { value: habits } = this.#see(baseline.subject, now);
    if (habits.learned > 0) return;
    const { hosts, commands, learned } = this.#habits(baseline);
    for (const host of hosts) habits.hosts.add(host);
    for (const command of commands) habits.commands.add(command);
    habits.learned = learned;
    this.#table.promote(baseline.subject, now);
  }

  #see(subject: string, now: number): Member<Habits> {
    const member = this.#table.find(subject, now);
    if (member === undefined) return this.#table.admit(subject, brokerOf(subject), this.#habits(), now);
    this.#table.touch(subject, now);
    return member;
  }

  #habits(known?: Pick<Baseline, "hosts" | "commands">): Habits {
    const { rateLimitPerMin, maxDistinct } = this.#limits;
    return {
      hosts: new Set(known?.hosts.slice(0, maxDistinct)),
      commands: new Set(known?.commands.slice(0, maxDistinct)),
      learned: known === undefined ? 0 : ESTABLISHED_AFTER,
      window: rateLimitPerMin > 0 ? new RateWindow(rateLimitPerMin) : undefined,
    };
  }

  #novelties({ host, command }: BehaviorRequest, { hosts, commands, learned }: Habits): readonly string[] {
    if (learned === 0) return [];
    const fingerprint = fingerprintOf(command);
    return [
      ...this.#isNew(hosts, host) ? [novelty("new-host", host)] : [],
      ...this.#isNew(commands, fingerprint) ? [novelty("new-command", fingerprint)] : [],
    ];
  }

  #isNew(known: ReadonlySet<string>, name: string): boolean {
    return name !== "" && known.size < this.#limits.maxDistinct && !known.has(rememberedName(name));
  }

  #add(known: Set<string>, name: string): void {
    if (this.#isNew(known, name)) known.add(rememberedName(name));
  }
}

/** The maximum length of a name in an anomaly, in code points. */
const SHOWN = 256;

/** A host, or the first word of a command, that a subject has not used before: `new-host:web01`. */
export function novelty(kind: "new-host" | "new-command", name: string): string {
  // Truncated before it is split, because a word may have 60 KiB.
  const points = [...name.slice(0, 2 * SHOWN + 2)];
  const shown = points.length > SHOWN ? `${points.slice(0, SHOWN).join("")}…` : name;
  return `${kind}:${shown.toWellFormed()}`;
}

/** Unlike `\s`, no shell splits words at a no-break space. */
const WORD = /[^ \t\n\v\f\r]+/;

/** The first word of a command; empty for a session or a bastion. */
export function fingerprintOf(command: string): string {
  return WORD.exec(command)?.[0] ?? "";
}

const PLAIN = /^[\w./-]{1,64}$/;

/** An ordinary name as it is, any other as its digest: memory is bounded, and a secret (`TOKEN=… deploy`) is not kept. */
export function rememberedName(text: string): string {
  return PLAIN.test(text) ? text : `sha256:${digestOf(text)}`;
}

export const WINDOW_MS = 60_000;
/** Up to this limit, requests are counted to the millisecond; above it in steps, which lengthen the window. */
const FINE_LIMIT = 600;
const COARSE_MS = WINDOW_MS / FINE_LIMIT;

/**
 * The requests of the last minute. Rejected requests count too, so that repeating them does not help. At most 602 moments
 * are kept, because moments before the newest `limit` requests cannot change an answer.
 */
export class RateWindow {
  readonly #limit: number;
  readonly #stepMs: number;
  /** Ascending. */
  readonly #moments: { readonly time: number; count: number }[] = [];
  #total = 0;

  /** @param limit a positive number of requests in a minute */
  constructor(limit: number) {
    this.#limit = limit;
    this.#stepMs = limit <= FINE_LIMIT ? 1 : COARSE_MS;
  }

  get size(): number {
    return this.#moments.length;
  }

  /**
   * Counts a request. @returns also the time until another request is allowed, if no request is made before
   */
  record(now: number): { readonly exceeded: boolean; readonly retryAfterMs: number } {
    this.#dropWhile(({ time }) => time <= now - WINDOW_MS);
    const time = Math.ceil(now / this.#stepMs) * this.#stepMs;
    const last = this.#moments.at(-1);
    if (last?.time === time) last.count++;
    else this.#moments.push({ time, count: 1 });
    this.#total++;
    const exceeded = this.#total > this.#limit;
    this.#dropWhile(({ count }) => this.#total - count >= this.#limit);
    const oldest = this.#moments[0]?.time ?? now;
    return { exceeded, retryAfterMs: exceeded ? oldest + WINDOW_MS - now : 0 };
  }

  #dropWhile(isOver: (moment: { readonly time: number; readonly count: number }) => boolean): void {
    for (let [first] = this.#moments; first !== undefined && isOver(first); [first] = this.#moments) {
      this.#moments.shift();
      this.#total -= first.count;
    }
  }
}

/** A longer name of an end user is kept as its digest. */
const LONGEST_END_USER = 256;

/**
 * The key of a subject, as JSON that differs for different identities: `["broker"]`, `["broker","alice"]` or
 * `["broker",{"sha256":"…"}]`. Only a trusted broker has end users, because another broker could escape its history by
 * inventing them.
 */
export function subjectOf(
  { caller, endUser, trusted }: {
    readonly caller: string;
    readonly endUser: string;
    readonly trusted: boolean;
  },
): string {
  if (!trusted || endUser === "") return JSON.stringify([caller]);
  const person = endUser.length > LONGEST_END_USER ? { sha256: digestOf(endUser) } : endUser;
  return JSON.stringify([caller, person]);
}

/** The broker of a subject. A key that {@linkcode subjectOf} has not made counts as its own broker. */
export function brokerOf(subject: string): string {
  try {
    const parts: unknown = parseStandardJson(subject);
    if (Array.isArray(parts) && typeof parts[0] === "string") return parts[0];
  } catch {
    // The text is not JSON.
  }
  return subject;
}

export function behaviorOf(
  { trusted_forwarders }: Pick<ControlPlaneConfig, "trusted_forwarders">,
  caller: string,
  { end_user: endUser, host, command }: {
    readonly end_user: string;
    readonly host: string;
    readonly command: string;
  },
): BehaviorRequest {
  const trusted = trusted_forwarders.includes(caller);
  return { subject: subjectOf({ caller, endUser, trusted }), host, command };
}
