/**
 * The instances of a service that share one state: what one changes, all decide by before it is acknowledged.
 *
 * An instance looks at the database at least twice a second, and decides nothing while its last look is more than 2 s
 * old. So a change holds everywhere as soon as every other instance has said that it has seen it; and at the latest
 * {@linkcode SILENT_MS} after it was committed, because whoever has not seen it by then has long refused to decide.
 *
 * @module
 */
import { type Clock, type Elapsed, within } from "../clock.ts";
import { AppError, errorText } from "../errors.ts";
import type { ServiceLogger } from "../service/log.ts";
import { quoteText } from "../text.ts";
import type {
  Beat,
  Epochs,
  InstanceClock,
  InstanceIdentity,
  InstanceLink,
  News,
  OtherInstance,
  Shared,
} from "./postgres_link.ts";
import { enter, Freshness, MAX_AGE_MS, type Moment, Peers, Waiter } from "./freshness.ts";
import { Bell } from "./bell.ts";
import { type Reading, SharedClock } from "./shared_clock.ts";

/** What handlers ask of the group. */
export interface InstanceGroup {
  readonly isShared: boolean;
  /**
   * Call it before a decision, and again after the last wait before anything is released.
   *
   * @throws {AppError} `state_stale` while what is decided by may have been changed elsewhere
   */
  requireFresh(): void;
  /**
   * Resolves when what is committed now holds at every instance. Never rejects.
   *
   * @returns the names of the instances that did not confirm it: they decide nothing, but what they issued in their last
   * {@linkcode MAX_AGE_MS} is not known here
   */
  settled(): Promise<readonly string[]>;
  /** Resolves when what was committed before is decided by here, or can't be had now. Never rejects. */
  caughtUp(): Promise<void>;
  /** Why nothing is decided here; `undefined` when all is well. */
  readonly problem: string | undefined;
}

/** One instance with a state of its own. */
export const ALONE: InstanceGroup = {
  isShared: false,
  requireFresh: () => {},
  settled: () => Promise.resolve([]),
  caughtUp: () => Promise.resolve(),
  problem: undefined,
};

/** What a {@linkcode SharedGroup} works with. */
interface GroupOptions {
  readonly shared: Shared;
  /** What an instance is called: `signer`. */
  readonly what: string;
  readonly name: string;
  readonly version: string;
  /** Makes the id of a session. */
  readonly newSession: () => string;
  readonly clock: Clock;
  readonly elapsed: Elapsed;
  /** Told of what an operator should know. */
  readonly logger: ServiceLogger;
}

/**
 * Takes over what others have changed; gives the epochs of what it took over. What it has read it keeps only after
 * `confirm` resolves: a server that was replaced without knowing it has less than what is decided by already.
 */
type Refresh = (link: InstanceLink, confirm: () => Promise<void>) => Promise<Epochs>;

const BEAT_MS = 500;
const RETRY_MS = 100;
/** Longer than {@linkcode MAX_AGE_MS}: whoever was silent for so long refuses by itself. */
const SILENT_MS = MAX_AGE_MS + 500;
const LOOK_MS = 250;
/** In a row, while others change what is read. */
const MAX_LOOKS = 4;

/** The group over a shared state. */
export class SharedGroup implements InstanceGroup {
  readonly isShared = true;
  readonly #options: GroupOptions;
  readonly #time: SharedClock;
  readonly #freshness: Freshness;
  readonly #ending = new AbortController();
  readonly #waiters = new Set<Waiter>();
  readonly #behind = new Set<() => void>();
  readonly #peers = new Peers();
  #self: InstanceIdentity;
  #link: InstanceLink | undefined;
  #seen: Epochs;
  #refresh: Refresh | undefined;
  readonly #bell = new Bell();
  /** When the last look ended, by the time that nobody can set. */
  #lookedAt = -Infinity;
  #running: Promise<void> = Promise.resolve();
  #problem: string | undefined = "the state is not loaded yet";
  #isFailing = false;

  private constructor(
    options: GroupOptions,
    self: InstanceIdentity,
    link: InstanceLink,
    first: Beat & Pick<Reading, "asked" | "answered">,
  ) {
    this.#options = options;
    this.#freshness = new Freshness(options.clock, options.elapsed);
    const { clock, elapsed, logger } = options;
    this.#time = new SharedClock({ clock, elapsed, warn: (text) => logger.warn(text) });
    this.#time.heard({ ...first, shown: first.now });
    this.#self = self;
    this.#link = link;
    // What is loaded from here on has all certificates of before.
    this.#seen = { state: 0n, certificates: first.certificates };
  }

  /**
   * Enters the group. Load the state after that, and {@linkcode start} then.
   *
   * @throws {AppError} `invalid_config` when a live instance has the name, or the database can't be used
   */
  static async join(options: GroupOptions): Promise<SharedGroup> {
    let hear: (news: News) => void = () => {};
    let link: InstanceLink | undefined;
    try {
      link = await options.shared.connect((news) => hear(news));
      const self = { name: options.name, session: options.newSession() };
      await enter({ ...options, silentMs: SILENT_MS }, link, self);
      const here = new Freshness(options.clock, options.elapsed);
      const asked = here.now();
      const first = await link.beat(self, 0n);
      const group = new SharedGroup(options, self, link, { ...first, asked, answered: here.now() });
      hear = (news) => group.#heed(news);
      return group;
    } catch (error) {
      link?.close();
      if (error instanceof AppError) throw error;
      throw new AppError("invalid_config", `Cannot use state_db: ${errorText(error)}`, { cause: error });
    }
  }

  /** What times that instances compare are of. */
  get clock(): InstanceClock {
    return this.#time;
  }

  /** What the state had when it was last taken over. */
  get seen(): Epochs {
    return this.#seen;
  }

  /** Takes over what others change, from here on; resolves when that was done once. */
  async start(refresh: Refresh): Promise<void> {
    this.#refresh = refresh;
    await this.#tick();
    this.#running = this.#run();
  }

  requireFresh(): void {
    const off = this.#time.problem;
    if (off !== undefined) throw stale(`This ${this.#options.what} decides nothing: ${off}`);
    if (this.#freshness.isFresh) return;
    throw stale(`This ${this.#options.what} does not know at the moment what others have changed`);
  }

  get problem(): string | undefined {
    if (this.#time.problem !== undefined) return this.#time.problem;
    if (this.#freshness.isFresh) return undefined;
    return `what is decided by is too old: ${this.#problem ?? "the state database does not answer in time"}`;
  }

  get name(): string {
    return this.#self.name;
  }

  /** The names of all that live, this one's first. */
  get members(): readonly string[] {
    return [this.#self.name, ...this.#peers.names];
  }

  /** The database server in use; empty while there is none. */
  get server(): string {
    return this.#link?.server ?? "";
  }

  /** How old what is decided by is, in milliseconds. */
  get age(): number {
    return this.#freshness.age;
  }

  async settled(): Promise<readonly string[]> {
    const { clock, elapsed } = this.#options;
    const since = elapsed();
    const waiter = new Waiter();
    this.#waiters.add(waiter);
    this.#bell.ring();
    await within({ clock, ms: SILENT_MS }, waiter.done).catch(() => {});
    this.#waiters.delete(waiter);
    // A timer may be early, and time that was set would make it more so.
    while (!this.#ending.signal.aborted && !waiter.isSettled && elapsed() - since < SILENT_MS) {
      await clock.sleep(LOOK_MS);
    }
    return waiter.silent;
  }

  async caughtUp(): Promise<void> {
    const news = Promise.withResolvers<void>();
    this.#behind.add(news.resolve);
    this.#bell.ring();
    await within({ clock: this.#options.clock, ms: SILENT_MS }, news.promise).catch(() => {});
    this.#behind.delete(news.resolve);
  }

  /** Takes over nothing more: what is decided by grows old from here on. */
  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  /** Nobody waits for this instance any more. It must have stored what it has issued, and decide nothing after that. */
  async leave(): Promise<void> {
    await this.stop();
    try {
      this.#link ??= await this.#options.shared.connect(() => {});
      const own = (await this.#link.list()).find(({ session }) => session === this.#self.session);
      if (own !== undefined) await this.#link.evict(own);
    } catch {
      // The others notice by its silence.
    }
    this.#link?.close();
  }

  /** What another has seen is of use to those that wait for it alone; who begins to wait looks by itself. */
  #heed(news: News): void {
    if (news === "seen") {
      if (this.#waiters.size > 0) this.#bell.seen();
    } else this.#bell.change();
  }

  async #run(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      const isDeaf = this.#link === undefined;
      // Without a connection there is no news, and whoever waits would make this a busy loop.
      const ms = isDeaf ? RETRY_MS : this.#untilLook;
      await this.#bell.pause({ clock: this.#options.clock, ms, signal, isDeaf });
      if (!signal.aborted) await this.#tick();
    }
  }

  get #untilLook(): number {
    return Math.max(0, BEAT_MS - (this.#options.elapsed() - this.#lookedAt));
  }

  async #tick(): Promise<void> {
    try {
      if (this.#link !== undefined && this.#bell.isOnlySeen && this.#untilLook > 0) {
        await this.#ask(this.#link);
        return;
      }
      this.#link ??= await this.#reconnect();
      await this.#look(this.#link);
      this.#lookedAt = this.#options.elapsed();
      if (this.#isFailing) this.#options.logger.info("the state database answers again");
      this.#isFailing = false;
    } catch (error) {
      this.#link?.close();
      this.#link = undefined;
      if (!(error instanceof AppError && error.code === "conflict")) {
        this.#problem = "the state database can't be used";
      }
      if (this.#isFailing || this.#ending.signal.aborted) return;
      this.#isFailing = true;
      this.#options.logger.error("the state database can't be used: nothing is decided before it answers", {
        error,
      });
    }
  }

  /** Another server may have lost what was never acknowledged, and counted on from there: everything is read anew. */
  async #reconnect(): Promise<InstanceLink> {
    const link = await this.#options.shared.connect((news) => this.#heed(news));
    this.#seen = { ...this.#seen, state: 0n };
    return link;
  }

  /** Whether those that are waited for have seen it. */
  async #ask(link: InstanceLink): Promise<void> {
    this.#bell.isSeen = false;
    // Not those that come meanwhile.
    const waiting = [...this.#waiters];
    const answer = await link.look(this.#self);
    for (const waiter of waiting) {
      waiter.hear(answer, this.#seen.certificates);
      if (waiter.wantsCertificates) this.#bell.ring();
    }
  }

  async #look(link: InstanceLink): Promise<void> {
    this.#bell.answer();
    const [waiting, behind] = [[...this.#waiters], [...this.#behind]];
    /** When what is decided by was read, in this look. */
    let readAt: Moment | undefined;
    // Who was told of a change, and whom the others certainly count, need not ask first whether there is one.
    if (this.#bell.isChanged && this.#freshness.isFresh) {
      readAt = this.#freshness.now();
      await this.#takeOver(link);
    }
    for (let attempt = 0; attempt < MAX_LOOKS; attempt++) {
      const asked = this.#freshness.now();
      const told = this.#seen.state;
      this.#bell.isChanged = false;
      const beat = await link.beat(this.#self, told);
      this.#time.heard({ shown: beat.now, asked, answered: this.#freshness.now() });
      if (beat.schema > this.#options.shared.schema) {
        this.#problem = "a newer version has taken the state database over; upgrade this one";
        return;
      }
      if (!beat.isMember) {
        await this.#comeBack(link);
        readAt = undefined;
        continue;
      }
      const isCurrent = beat.state === this.#seen.state;
      // Others may change it all the time: what was read then held then, on a server that still takes commits.
      const heldAt = isCurrent ? asked : readAt;
      if (heldAt !== undefined) {
        this.#freshness.heldAt(heldAt);
        this.#problem = undefined;
        for (const tell of behind) tell();
      }
      await this.#observe(link, beat.others);
      for (const waiter of waiting) waiter.hear(beat, this.#seen.certificates);
      if (isCurrent && beat.certificates === this.#seen.certificates) return;
      readAt = this.#freshness.now();
      await this.#takeOver(link);
      // There are always more certificates: who waits for some looks again, and nobody else.
      if (isCurrent && this.#seen.state === beat.state && waiting.length === 0) return;
    }
    this.#bell.ring();
  }

  async #takeOver(link: InstanceLink): Promise<void> {
    this.#bell.isChanged = false;
    const told = this.#seen.state;
    this.#seen = await this.#refresh?.(link, () => this.#confirm(link, told)) ?? this.#seen;
  }

  async #confirm(link: InstanceLink, told: bigint): Promise<void> {
    const { isMember, schema } = await link.beat(this.#self, told);
    if (!isMember) throw new Error("the others take this instance for gone");
    if (schema > this.#options.shared.schema) throw new Error("a newer version has taken the tables over");
  }

  /** Silent for too long: others took this instance for gone, and have changed what it does not know. */
  async #comeBack(link: InstanceLink): Promise<void> {
    this.#self = { ...this.#self, session: this.#options.newSession() };
    this.#options.logger.warn("this instance was silent for too long and comes back");
    if (!await link.enter(this.#self, this.#options.version)) {
      this.#problem = `another ${this.#options.what} has the name ${quoteText(this.#self.name)}`;
      throw new AppError("conflict", this.#problem);
    }
    this.#seen = { ...this.#seen, state: 0n };
  }

  /** Takes off the list who has long been silent. One that beats at this moment stays. */
  async #observe(link: InstanceLink, others: readonly OtherInstance[]): Promise<void> {
    for (const other of this.#peers.silent(others, { now: this.#options.elapsed(), ms: SILENT_MS })) {
      await link.evict(other);
      this.#options.logger.warn("an instance is silent and no longer waited for", { instance: other.name });
      this.#bell.ring();
    }
  }
}

function stale(message: string): AppError {
  return new AppError("state_stale", message, { retryAfterSeconds: 1 });
}
