/**
 * How well a subject is known: nothing was issued to it yet, something was, it has come back. A place in a
 * higher standing is not to be had by a flood of new names.
 */
export const STANDINGS = ["unproven", "proven", "established"] as const;
/** One of {@linkcode STANDINGS}. */
export type Standing = (typeof STANDINGS)[number];

export interface Member<T> {
  readonly subject: string;
  readonly broker: string;
  readonly standing: Standing;
  /** In milliseconds. */
  readonly lastSeen: number;
  readonly value: T;
}

/** What a table holds, and who is told when it lets go. */
interface SubjectTableOptions {
  /** The most subjects at a time, at least 1. */
  readonly maxSubjects: number;
  /** A subject not seen for longer is forgotten. */
  readonly idleMs: number;
  readonly onForget: (subject: string) => void;
}

/** An established subject that was seen within this time makes no room for another one of its broker. */
const QUIET_MS = 3_600_000;

/** How often idle subjects are looked for that nobody asks about. */
const SWEEP_MS = 60_000;

type Own<T> = { -readonly [K in keyof Member<T>]: Member<T>[K] };

/** The subjects of one broker by standing, in each the least recently seen first. */
type Shelf<T> = Readonly<Record<Standing, Set<Own<T>>>>;

/**
 * Subjects in bounded memory. All room is used, but a part of it can't be taken by the better known: a sixteenth
 * is always left to the unproven, as much again to the proven. When there is no room left, a subject that enters
 * a standing takes the place of one of the same standing, never of a higher one:
 *
 * - of its own broker, once that has its share (the standing's room divided by the brokers): the one not seen
 *   for the longest time, and of the established only one not seen for an hour. If there is none, the subject
 *   stays where it is;
 * - of the broker that has the most, while its own has less than its share.
 *
 * So a broker that makes up end users pushes out its own, and of others at most what they hold beyond their
 * share. `now` never goes back.
 */
export class SubjectTable<T> {
  readonly #options: SubjectTableOptions;
  readonly #room: Readonly<Record<Standing, number>>;
  readonly #members = new Map<string, Own<T>>();
  readonly #shelves = new Map<string, Shelf<T>>();
  readonly #counts: Record<Standing, number> = { unproven: 0, proven: 0, established: 0 };
  #sweptAt = -Infinity;

  constructor(options: SubjectTableOptions) {
    this.#options = options;
    const reserve = Math.max(1, Math.floor(options.maxSubjects / 16));
    this.#room = roomOf(options.maxSubjects, reserve);
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

  /** The subject as it is held, however long ago it was seen. */
  peek(subject: string): Member<T> | undefined {
    return this.#members.get(subject);
  }

  /** Notes that a subject was seen. */
  touch(subject: string, now: number): void {
    const member = this.#members.get(subject);
    if (member === undefined) return;
    const shelf = this.#shelfOf(member.broker)[member.standing];
    shelf.delete(member);
    member.lastSeen = now;
    shelf.add(member);
  }

  /** Takes in a subject that is not there, as unproven. */
  admit(subject: string, broker: string, value: T, now: number): Member<T> {
    if (this.#members.size >= this.#options.maxSubjects) {
      const victim = this.#victim("unproven", broker);
      // The room of the unproven is never nothing, and the others keep out of it.
      if (victim !== undefined) this.#forget(victim);
    }
    return this.#insert({ subject, broker, standing: "unproven", lastSeen: now, value });
  }

  /** Raises the standing of a subject that is seen now by one, if there is room or room can be made. */
  promote(subject: string, now: number): void {
    this.touch(subject, now);
    const member = this.#members.get(subject);
    if (member === undefined || member.standing === "established") return;
    const next = member.standing === "unproven" ? "proven" : "established";
    if (this.#held(next) >= this.#limit(next)) {
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

  /** Takes in subjects of an earlier time. Those seen last have the best standing; what has no room is forgotten. */
  restore(members: readonly Omit<Member<T>, "standing">[]): void {
    const kept = members.toSorted((a, b) => a.lastSeen - b.lastSeen);
    const surplus = kept.splice(0, Math.max(0, kept.length - this.#options.maxSubjects));
    for (const { subject } of surplus) this.#options.onForget(subject);
    kept.forEach((member, index) => {
      const later = kept.length - 1 - index;
      const standing = later < this.#limit("established")
        ? "established"
        : later < this.#limit("proven")
        ? "proven"
        : "unproven";
      this.#insert({ ...member, standing });
    });
  }

  /** How many subjects have this standing or a higher one. */
  #held(standing: Standing): number {
    return STANDINGS.slice(STANDINGS.indexOf(standing)).reduce((sum, each) => sum + this.#counts[each], 0);
  }

  #limit(standing: Standing): number {
    return STANDINGS.slice(STANDINGS.indexOf(standing)).reduce((sum, each) => sum + this.#room[each], 0);
  }

  #victim(standing: Standing, broker: string): Own<T> | undefined {
    const brokers = this.#shelves.size + (this.#shelves.has(broker) ? 0 : 1);
    const share = Math.max(1, Math.floor(this.#room[standing] / brokers));
    const own = this.#shelves.get(broker)?.[standing];
    if (own !== undefined && own.size >= share) return firstOf(own);
    let largest: Set<Own<T>> | undefined;
    for (const { [standing]: shelf } of this.#shelves.values()) {
      if (shelf.size > (largest?.size ?? 0)) largest = shelf;
    }
    return largest === undefined ? undefined : firstOf(largest);
  }

  #insert(member: Own<T>): Member<T> {
    this.#members.set(member.subject, member);
    this.#shelfOf(member.broker)[member.standing].add(member);
    this.#counts[member.standing]++;
    return member;
  }

  #remove(member: Own<T>): void {
    this.#members.delete(member.subject);
    const shelf = this.#shelfOf(member.broker);
    shelf[member.standing].delete(member);
    this.#counts[member.standing]--;
    if (STANDINGS.every((standing) => shelf[standing].size === 0)) this.#shelves.delete(member.broker);
  }

  #forget(member: Own<T>): void {
    this.#remove(member);
    this.#options.onForget(member.subject);
  }

  #shelfOf(broker: string): Shelf<T> {
    let shelf = this.#shelves.get(broker);
    if (shelf === undefined) {
      shelf = { unproven: new Set(), proven: new Set(), established: new Set() };
      this.#shelves.set(broker, shelf);
    }
    return shelf;
  }

  #isIdle(member: Own<T>, now: number): boolean {
    return now - member.lastSeen > this.#options.idleMs;
  }

  #sweep(now: number): void {
    if (now - this.#sweptAt < SWEEP_MS) return;
    this.#sweptAt = now;
    for (const shelf of this.#shelves.values()) {
      for (const standing of STANDINGS) {
        for (const member of shelf[standing]) {
          if (!this.#isIdle(member, now)) break;
          this.#forget(member);
        }
      }
    }
  }
}

/** The room of each standing; that of the higher ones is open to the lower while it is free. */
function roomOf(maxSubjects: number, reserve: number): Readonly<Record<Standing, number>> {
  const unproven = Math.min(maxSubjects, reserve);
  const proven = Math.min(maxSubjects - unproven, reserve);
  return { unproven, proven, established: maxSubjects - unproven - proven };
}

function firstOf<T>(set: ReadonlySet<T>): T | undefined {
  return set.values().next().value;
}
