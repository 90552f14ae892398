import { digestOf } from "../approvals/approval.ts";
import { type Member, SubjectTable } from "./subject_table.ts";
import { parseStandardJson } from "@gateway/shared/json";
import type { ControlPlaneConfig } from "../config/config.ts";

export interface BehaviorRequest {
  readonly subject: string;
  /** Empty: none. */
  readonly host: string;
  /** Empty: none, as when a session is opened. */
  readonly command: string;
}

/** The bounds of a {@linkcode Tracker}. */
export interface TrackerLimits {
  /** 0 means no limit. */
  readonly rateLimitPerMin: number;
  readonly maxSubjects: number;
  readonly idleMs: number;
  /** Of hosts, and of commands, for each subject; from then on nothing is new. */
  readonly maxDistinct: number;
}

/** What is unusual about a request; nothing, when both are as usual. */
export interface Finding {
  readonly rate: RateFinding;
  readonly novelties: readonly string[];
}

/** What is remembered of a subject, and for how long it has been so. */
export interface Baseline {
  readonly subject: string;
  /** In milliseconds: on the tracker's time, or in the store since the epoch. */
  readonly lastSeen: number;
  readonly hosts: readonly string[];
  readonly commands: readonly string[];
}

interface Habits {
  readonly hosts: Set<string>;
  readonly commands: Set<string>;
  /** Requests that were learned; until the first there is nothing to compare with. */
  learned: number;
  readonly window: RateWindow | undefined;
}

/** So many requests have to be learned of a subject before its place is its own. */
const ESTABLISHED_AFTER = 3;

const WITHIN_RATE: RateFinding = { exceeded: false, retryAfterMs: 0 };

/**
 * What subjects usually do: how often, on which hosts, with which commands. Hosts and commands are independent
 * of each other. A request is compared when it arrives and learned, if at all, when it was issued; as long as
 * nothing of a subject was learned, nothing it does is new. All times are milliseconds that never go back.
 */
export class Tracker {
  readonly #limits: TrackerLimits;
  readonly #table: SubjectTable<Habits>;

  constructor(limits: TrackerLimits, onForget: (subject: string) => void) {
    this.#limits = limits;
    this.#table = new SubjectTable({ maxSubjects: limits.maxSubjects, idleMs: limits.idleMs, onForget });
  }

  get size(): number {
    return this.#table.size;
  }

  /** Compares a request with what its subject usually does, and counts it towards the rate. */
  check(request: BehaviorRequest, now: number): Finding {
    const { value: habits } = this.#see(request.subject, now);
    return {
      rate: habits.window?.record(now) ?? WITHIN_RATE,
      novelties: this.#novelties(request, habits),
    };
  }

  /** Adds a request to what its subject usually does; false when it was there already. */
  learn(request: BehaviorRequest, now: number): boolean {
    const { value: habits } = this.#see(request.subject, now);
    const before = this.#weight(habits);
    this.#add(habits.hosts, request.host);
    this.#add(habits.commands, fingerprintOf(request.command));
    habits.learned++;
    if (habits.learned === 1 || habits.learned >= ESTABLISHED_AFTER) {
      this.#table.promote(request.subject, now);
    }
    return habits.learned === 1 || this.#weight(habits) > before;
  }

  /**
   * As {@linkcode Tracker.learn}, but only what is not new. Of requests that are in flight together before
   * anything of their subject is known, one becomes what the subject usually does, and not all of them.
   */
  learnUsual(request: BehaviorRequest, now: number): boolean {
    const habits = this.#table.find(request.subject, now)?.value;
    if (habits !== undefined && this.#novelties(request, habits).length > 0) return false;
    return this.learn(request, now);
  }

  /** What is remembered of a subject; nothing, as long as nothing was learned. */
  baseline(subject: string): Baseline | undefined {
    const member = this.#table.peek(subject);
    if (member === undefined || member.value.learned === 0) return undefined;
    const { lastSeen, value: { hosts, commands } } = member;
    return { subject, lastSeen, hosts: [...hosts], commands: [...commands] };
  }

  /** Takes in baselines of an earlier time; only into an empty tracker. */
  restore(baselines: readonly Baseline[]): void {
    const { maxDistinct } = this.#limits;
    this.#table.restore(baselines.map(({ subject, lastSeen, hosts, commands }) => ({
      subject,
      broker: brokerOf(subject),
      lastSeen,
      value: this.#habits({
        hosts: hosts.slice(0, maxDistinct),
        commands: commands.slice(0, maxDistinct),
        learned: ESTABLISHED_AFTER,
      }),
    })));
  }

  /** Takes in what another process has learned of a subject, unless something was learned of it here. */
  adopt({ subject, hosts, commands }: Omit<Baseline, "lastSeen">, now: number): void {
    const { value: habits } = this.#see(subject, now);
    if (habits.learned > 0) return;
    for (const host of hosts.slice(0, this.#limits.maxDistinct)) habits.hosts.add(host);
    for (const command of commands.slice(0, this.#limits.maxDistinct)) habits.commands.add(command);
    habits.learned = ESTABLISHED_AFTER;
    this.#table.promote(subject, now);
  }

  #see(subject: string, now: number): Member<Habits> {
    const member = this.#table.find(subject, now);
    if (member === undefined) {
      const habits = this.#habits({ hosts: [], commands: [], learned: 0 });
      return this.#table.admit(subject, brokerOf(subject), habits, now);
    }
    this.#table.touch(subject, now);
    return member;
  }

  #habits(known: Pick<Baseline, "hosts" | "commands"> & Pick<Habits, "learned">): Habits {
    const limit = this.#limits.rateLimitPerMin;
    return {
      hosts: new Set(known.hosts),
      commands: new Set(known.commands),
      learned: known.learned,
      window: limit > 0 ? new RateWindow(limit) : undefined,
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

  #weight({ hosts, commands }: Habits): number {
    return hosts.size + commands.size;
  }
}

/** How much of a name an anomaly shows, in code points: enough for a human to see what it is. */
const SHOWN = 256;

/** A host, or the first word of a command, that a subject has not used before: `new-host:web01`. */
export function novelty(kind: "new-host" | "new-command", name: string): string {
  // Cut before it is split: of a word of 60 KiB only the start is looked at.
  const points = [...name.slice(0, 2 * SHOWN + 2)];
  const shown = points.length > SHOWN ? `${points.slice(0, SHOWN).join("")}…` : name;
  return `${kind}:${shown.toWellFormed()}`;
}

/** What shells and people take for space. `\s` would also split at a no-break space, which no shell does. */
const WORD = /[^ \t\n\v\f\r]+/;

/**
 * What of a command is compared with earlier ones: its first word, as it stands. Empty for an empty command,
 * that of a session that is opened or of a hop on the way.
 */
export function fingerprintOf(command: string): string {
  return WORD.exec(command)?.[0] ?? "";
}

const PLAIN = /^[\w./-]{1,64}$/;

/**
 * How a host or a fingerprint is remembered: an ordinary name as it is, all else as its digest. So the memory
 * for one is bounded, and what may be a secret (`TOKEN=… deploy`) is not kept for as long as the subject is.
 */
export function rememberedName(text: string): string {
  return PLAIN.test(text) ? text : `sha256:${digestOf(text)}`;
}

/** How far back requests count, in milliseconds. */
export const WINDOW_MS = 60_000;

/** Up to this limit requests are counted to the millisecond. */
const FINE_LIMIT = 600;

/** Above it, in steps: a request then counts for up to this much longer than the window. */
const COARSE_MS = WINDOW_MS / FINE_LIMIT;

/** What one more request means for the rate. */
export interface RateFinding {
  readonly exceeded: boolean;
  /** When exceeded: how long until a request can pass again, if none is made until then. Else 0. */
  readonly retryAfterMs: number;
}

/**
 * The requests of the last minute. Refused ones count as well, so that hammering does not help; a request that
 * is a minute old does not. Whatever the rate and the limit, it holds at most 602 moments: what lies further
 * back than the newest `limit` requests can't change an answer any more.
 */
export class RateWindow {
  readonly #limit: number;
  readonly #stepMs: number;
  /** Ascending, and beside each how many requests were made then. */
  readonly #times: number[] = [];
  readonly #counts: number[] = [];
  #total = 0;

  /** The limit is a positive number of requests in a minute. */
  constructor(limit: number) {
    this.#limit = limit;
    this.#stepMs = limit <= FINE_LIMIT ? 1 : COARSE_MS;
  }

  get size(): number {
    return this.#times.length;
  }

  /** Counts a request made now, in milliseconds; `now` never goes back. */
  record(now: number): RateFinding {
    while ((this.#times[0] ?? Infinity) <= now - WINDOW_MS) this.#dropOldest();
    const time = Math.ceil(now / this.#stepMs) * this.#stepMs;
    if (this.#times.at(-1) !== time) {
      this.#times.push(time);
      this.#counts.push(0);
    }
    this.#counts.push((this.#counts.pop() ?? 0) + 1);
    this.#total++;
    const exceeded = this.#total > this.#limit;
    while (this.#total - (this.#counts[0] ?? 0) >= this.#limit) this.#dropOldest();
    // Without the oldest moment fewer than the limit are left.
    return { exceeded, retryAfterMs: exceeded ? (this.#times[0] ?? now) + WINDOW_MS - now : 0 };
  }

  #dropOldest(): void {
    this.#times.shift();
    this.#total -= this.#counts.shift() ?? 0;
  }
}

/** Who a request is counted for. */
interface SubjectIdentity {
  /** The broker: the CN of its certificate. */
  readonly caller: string;
  /** The person it acts for, as the broker says; empty: none. */
  readonly endUser: string;
  /** Whether the broker's word about its end users counts. */
  readonly trusted: boolean;
}

/** A longer end user is kept as its digest, so that a subject's key stays small. */
const LONGEST_END_USER = 256;

/**
 * The key of a subject: the broker, or a person behind a broker that is trusted to say who. A broker that is
 * not can't escape its own history by making up end users. Different identities never have the same key: it
 * is JSON, `["broker"]`, `["broker","alice"]` or `["broker",{"sha256":"…"}]`.
 */
export function subjectOf({ caller, endUser, trusted }: SubjectIdentity): string {
  if (!trusted || endUser === "") return JSON.stringify([caller]);
  const person = endUser.length > LONGEST_END_USER ? { sha256: digestOf(endUser) } : endUser;
  return JSON.stringify([caller, person]);
}

/** The broker in a subject's key; a key that {@linkcode subjectOf} has not made is a broker of its own. */
export function brokerOf(subject: string): string {
  try {
    const parts: unknown = parseStandardJson(subject);
    if (Array.isArray(parts) && typeof parts[0] === "string") return parts[0];
  } catch {
    // Not ours.
  }
  return subject;
}

/** Who wants what, as the guardrails see it. */
interface Behavior {
  readonly subject: string;
  readonly host: string;
  readonly command: string;
}

/** A broker's word about its end user makes a subject of its own only when the broker is trusted. */
export function behaviorOf(
  { trusted_forwarders }: Pick<ControlPlaneConfig, "trusted_forwarders">,
  { caller, request }: {
    readonly caller: string;
    readonly request: { readonly end_user: string; readonly host: string; readonly command: string };
  },
): Behavior {
  const trusted = trusted_forwarders.includes(caller);
  return {
    subject: subjectOf({ caller, endUser: request.end_user, trusted }),
    host: request.host,
    command: request.command,
  };
}
