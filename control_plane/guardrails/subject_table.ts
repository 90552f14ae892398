/**
 * How well a subject is known. `unproven`: nothing was issued to it yet. `proven`: something was issued.
 * `established`: it has returned several times.
 */
export const TRUST_LEVELS = ["unproven", "proven", "established"] as const;
export type TrustLevel = (typeof TRUST_LEVELS)[number];

export interface Member<T> {
  readonly subject: string;
  readonly broker: string;
  readonly standing: TrustLevel;
  /** Milliseconds. */
  readonly lastSeen: number;
  readonly value: T;
}

interface SubjectTableOptions {
  /** At least 1. */
  readonly maxSubjects: number;
  /** A subject that was not seen for longer is forgotten. */
  readonly idleMs: number;
  readonly onForget: (subject: string) => void;
}

/** An established subject that was seen within this time is not replaced by another subject of its broker. */
const QUIET_MS = 3_600_000;
const SWEEP_MS = 60_000;

type Own<T> = { -readonly [K in keyof Member<T>]: Member<T>[K] };

/** The subjects of one broker by standing, in each the least recently seen first. */
type BrokerSubjects<T> = Readonly<Record<TrustLevel, Set<Own<T>>>>;

/**
 * Subjects in bounded memory. A sixteenth of the room is reserved for the unproven, and a sixteenth for the proven. In a
 * full standing, a new subject replaces one of the same standing, never of a higher one:
 *
 * - one of the same broker, if that broker has its share (the standing's room divided by the brokers): the one not seen
 *   for the longest time, but no established one that was seen within the last hour;
 * - otherwise one of the broker that has the most.
 *
 * So a broker that invents end users replaces its own subjects, and at most the surplus of other brokers. `now`
 * never goes back.
 */
export class SubjectTable<T> {
  readonly #options: SubjectTableOptions;
  readonly #room: Readonly<Record<TrustLevel, number>>;
  readonly #members = new Map<string, Own<T>>();
  readonly #brokers = new Map<string, BrokerSubjects<T>>();
  readonly #counts: Record<TrustLevel, number> = { unproven: 0, proven: 0, established: 0 };
  #sweptAt = -Infinity;

  constructor(options: SubjectTableOptions) {
    this.#options = options;
    const { maxSubjects } = options;
    const reserve = Math.max(1, Math.floor(maxSubjects / 16));
    const unproven = Math.min(maxSubjects, reserve);
    const proven = Math.min(maxSubjects - unproven, reserve);
    this.#room = { unproven, proven, established: maxSubjects - unproven - proven };
  }

  get size(): number {
    return this.#members.size;
  }

  /** The subject, unless it is unknown or was idle for too long. */
  find(subject: string, now: number): Member<T> | undefined {
    this.#sweep(now);
    const member = this.#members.get(subject);
    if (member === undefined || !this.#isIdle(member, now)) return member;
    this.#forget(member);
    return undefined;
  }

  /** The subject, even if it is idle. */
  peek(subject: string): Member<T> | undefined {
    return this.#members.get(subject);
  }

  touch(subject: string, now: number): void {
    const member = this.#members.get(subject);
    if (member === undefined) return;
    const subjects = this.#subjectsOf(member.broker)[member.standing];
    subjects.delete(member);
    member.lastSeen = now;
    subjects.add(member);
  }

  /** Adds an unknown subject as unproven. */
  admit(subject: string, broker: string, value: T, now: number): Member<T> {
    if (this.#members.size >= this.#options.maxSubjects) {
      const victim = this.#victim("unproven", broker);
      if (victim !== undefined) this.#forget(victim);
    }
    return this.#insert({ subject, broker, standing: "unproven", lastSeen: now, value });
  }

  /** Raises the standing of a subject that is seen now, if there is room or another subject can be replaced. */
  promote(subject: string, now: number): void {
    this.touch(subject, now);
    const member = this.#members.get(subject);
    if (member === undefined || member.standing === "established") return;
    const next = member.standing === "unproven" ? "proven" : "established";
    if (this.#limit(next, this.#counts) >= this.#limit(next)) {
      const victim = this.#victim(next, member.broker);
      if (victim === undefined) return;
      const isSpared = next === "established" && victim.broker === member.broker &&
        now - victim.lastSeen < QUIET_MS;
      if (isSpared) return;
      this.#forget(victim);
    }
    this.#remove(member);
    this.#insert({ ...member, standing: next });
  }

  /**
   * Restores subjects. The most recently seen ones get the best standing, and those without room are
   * forgotten.
   */
  restore(members: readonly Omit<Member<T>, "standing">[]): void {
    const kept = members.toSorted((a, b) => a.lastSeen - b.lastSeen);
    const surplus = kept.splice(0, Math.max(0, kept.length - this.#options.maxSubjects));
    for (const { subject } of surplus) this.#options.onForget(subject);
    kept.forEach((member, index) => {
      const later = kept.length - 1 - index;
      const standing = TRUST_LEVELS.findLast((each) => later < this.#limit(each)) ?? "unproven";
      this.#insert({ ...member, standing });
    });
  }

  /** The room of a standing and the higher ones: their free room is open to lower standings. */
  #limit(standing: TrustLevel, numbers: Readonly<Record<TrustLevel, number>> = this.#room): number {
    return TRUST_LEVELS.slice(TRUST_LEVELS.indexOf(standing)).reduce((sum, each) => sum + numbers[each], 0);
  }

  #victim(standing: TrustLevel, broker: string): Own<T> | undefined {
    const brokers = this.#brokers.size + (this.#brokers.has(broker) ? 0 : 1);
    const share = Math.max(1, Math.floor(this.#room[standing] / brokers));
    const own = this.#brokers.get(broker)?.[standing];
    if (own !== undefined && own.size >= share) return firstOf(own);
    const candidates = [...this.#brokers.values()].map((subjects) => subjects[standing]);
    return firstOf(candidates.reduce((most, each) => each.size > most.size ? each : most, new Set<Own<T>>()));
  }

  #insert(member: Own<T>): Member<T> {
    this.#members.set(member.subject, member);
    this.#subjectsOf(member.broker)[member.standing].add(member);
    this.#counts[member.standing]++;
    return member;
  }

  #remove(member: Own<T>): void {
    this.#members.delete(member.subject);
    const subjects = this.#subjectsOf(member.broker);
    subjects[member.standing].delete(member);
    this.#counts[member.standing]--;
    if (TRUST_LEVELS.every((standing) => subjects[standing].size === 0)) this.#brokers.delete(member.broker);
  }

  #forget(member: Own<T>): void {
    this.#remove(member);
    this.#options.onForget(member.subject);
  }

  #subjectsOf(broker: string): BrokerSubjects<T> {
    let subjects = this.#brokers.get(broker);
    if (subjects === undefined) {
      subjects = { unproven: new Set(), proven: new Set(), established: new Set() };
      this.#brokers.set(broker, subjects);
    }
    return subjects;
  }

  #isIdle(member: Own<T>, now: number): boolean {
    return now - member.lastSeen > this.#options.idleMs;
  }

  #sweep(now: number): void {
    if (now - this.#sweptAt < SWEEP_MS) return;
    this.#sweptAt = now;
    for (const subjects of this.#brokers.values()) {
      for (const standing of TRUST_LEVELS) {
        for (const member of subjects[standing]) {
          if (!this.#isIdle(member, now)) break;
          this.#forget(member);
        }
      }
    }
  }
}

function firstOf<T>(set: ReadonlySet<T>): T | undefined {
  return set.values().next().value;
}
