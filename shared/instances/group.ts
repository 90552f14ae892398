/**
 * The instances of a service that share one state: all decide by a change before it is acknowledged.
 *
 * An instance looks at the database at least twice a second, and decides nothing if its last look is more than 2 s old.
 * So a change is in force everywhere as soon as every other instance has confirmed it, and at the latest
 * {@linkcode SILENT_MS} after its commit.
 *
 * @module
 */
import { type Clock, type Elapsed, within } from "../clock.ts";
import { AppError, configError, errorText, staleError } from "../errors.ts";
import type { ServiceLogger } from "../service/mod.ts";
import type { Metrics } from "../service/metrics.ts";
import { quoteText } from "../text.ts";
import { Bell, enter, Freshness, MAX_AGE_MS, Peers, SharedClock, Waiter } from "./freshness.ts";
import type {
  Beat,
  Epochs,
  InstanceIdentity,
  InstanceLink,
  News,
  OtherInstance,
  Shared,
} from "./postgres_link.ts";

/** The part of a group that handlers use. */
export interface InstanceGroup {
  readonly isShared: boolean;
  /**
   * Call it before a decision, and again after the last wait before anything is released.
   *
   * @throws {AppError} `state_stale` if another instance may have changed the state
   */
  requireFresh(): void;
  /**
   * Resolves when all changes committed so far are in force at every instance. Never rejects.
   *
   * @returns the names of instances without confirmation: they decide nothing, but certificates of their last
   * {@linkcode MAX_AGE_MS} are not known here
   */
  settled(): Promise<readonly string[]>;
  /** Resolves when this instance decides by all changes committed so far, or cannot read them. Never rejects. */
  caughtUp(): Promise<void>;
  /** Why this instance decides nothing. */
  readonly problem: string | undefined;
}

/** A single instance that shares no state. */
export const ALONE: InstanceGroup = {
  isShared: false,
  requireFresh: () => {},
  settled: () => Promise.resolve([]),
  caughtUp: () => Promise.resolve(),
  problem: undefined,
};

interface GroupOptions {
  readonly shared: Shared;
  /** The name of the service. */
  readonly what: string;
  readonly name: string;
  readonly version: string;
  readonly newSession: () => string;
  readonly clock: Clock;
  readonly elapsed: Elapsed;
  readonly logger: ServiceLogger;
}

/**
 * Reads changes of others and returns their epochs. It uses the result only after `confirm` resolves: a server that was
 * replaced without knowing it may have less than the current state.
 */
type Refresh = (link: InstanceLink, confirm: () => Promise<void>) => Promise<Epochs>;

const BEAT_MS = 500;
const RETRY_MS = 100;
/** An instance that is silent for longer decides nothing by itself. */
const SILENT_MS = MAX_AGE_MS + 500;
const LOOK_MS = 250;
/** The most looks in a row while others change the state. */
const MAX_LOOKS = 4;

/** The group of an instance with a shared state. */
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
  #seen: Epochs = { state: 0n, certificates: 0n };
  #refresh: Refresh | undefined;
  readonly #bell = new Bell();
  /** The end of the last look, by a time that cannot be set. */
  #lookedAt = -Infinity;
  #running: Promise<void> = Promise.resolve();
  #problem: string | undefined = "the state is not loaded yet";
  #isFailing = false;

  private constructor(options: GroupOptions, self: InstanceIdentity, link: InstanceLink) {
    const { clock, elapsed, logger } = options;
    this.#options = options;
    this.#freshness = new Freshness(clock, elapsed);
    this.#time = new SharedClock(clock, elapsed, (text) => logger.warn(text));
    this.#self = self;
    this.#link = link;
  }

  /**
   * Enters the group. Load the state next, and call {@linkcode start} then.
   *
   * @throws {AppError} `invalid_config` if a live instance has the name, or the database cannot be used
   */
  static async join(options: GroupOptions): Promise<SharedGroup> {
    let hear: (news: News) => void = () => {};
    let link: InstanceLink | undefined;
    try {
      link = await options.shared.connect((news) => hear(news));
      const self = { name: options.name, session: options.newSession() };
      await enter({ ...options, silentMs: SILENT_MS }, link, self);
      const group = new SharedGroup(options, self, link);
      // The state that is loaded after this has all certificates of before.
      const { certificates } = await group.#beat(link, 0n);
      group.#seen = { state: 0n, certificates };
      hear = (news) => group.#heed(news);
      return group;
    } catch (error) {
      link?.close();
      if (error instanceof AppError) throw error;
      throw configError(`Cannot use state_db: ${errorText(error)}`, error);
    }
  }

  async #beat(link: InstanceLink, seen: bigint): Promise<Beat> {
    const asked = this.#freshness.now();
    const beat = await link.beat(this.#self, seen);
    this.#time.heard(beat.now, asked, this.#freshness.now());
    return beat;
  }

  /** For times that instances compare. */
  get clock(): Clock & { readonly offset: number } {
    return this.#time;
  }

  /** The epochs of the state in use. */
  get seen(): Epochs {
    return this.#seen;
  }

  /** Begins to read the changes of others. Resolves after the first time. */
  async start(refresh: Refresh): Promise<void> {
    this.#refresh = refresh;
    await this.#tick();
    this.#running = this.#run();
  }

  requireFresh(): void {
    const off = this.#time.problem;
    if (off !== undefined) throw staleError(`This ${this.#options.what} does not decide: ${off}`);
    if (this.#freshness.isFresh) return;
    throw staleError(`This ${this.#options.what} may have missed changes of other instances`);
  }

  get problem(): string | undefined {
    if (this.#time.problem !== undefined) return this.#time.problem;
    if (this.#freshness.isFresh) return undefined;
    return `its state is too old: ${this.#problem ?? "the state database does not answer in time"}`;
  }

  get name(): string {
    return this.#self.name;
  }

  /** Adds the metrics of the group, which `broker-ctl status` reads. */
  addMetrics(metrics: Metrics): void {
    const one = (labels: Readonly<Record<string, string>>) => ({ labels, value: 1 });
    metrics.gauge(
      "state_clock_offset_seconds",
      "Lead of this machine's clock over the database",
      () => this.#time.offset / 1000,
    );
    metrics.gauge(
      "state_age_seconds",
      "Age of the state in use; above 2 the instance decides nothing",
      () => this.#freshness.age / 1000,
    );
    metrics.gauges(
      "state_instance_info",
      "Always 1; name of this instance",
      ["instance"],
      () => [one({ instance: this.#self.name })],
    );
    metrics.gauges(
      "state_member_info",
      "Always 1; live instances, as this instance sees them",
      ["instance"],
      () => [this.#self.name, ...this.#peers.names].map((instance) => one({ instance })),
    );
    metrics.gauges(
      "state_database_info",
      "Always 1; database server in use, absent without a connection",
      ["server", "role"],
      () => this.#link === undefined ? [] : [one({ server: this.#link.server, role: "primary" })],
    );
  }

  async settled(): Promise<readonly string[]> {
    const { clock, elapsed } = this.#options;
    const since = elapsed();
    const waiter = new Waiter();
    this.#waiters.add(waiter);
    this.#bell.ring();
    await within({ clock, ms: SILENT_MS }, waiter.done).catch(() => {});
    this.#waiters.delete(waiter);
    // A timer may be early, in particular if the clock was set.
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

  /** Stops to read changes. The state becomes too old to decide by. */
  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  /** Leaves the group. The instance must have stored its certificates, and must decide nothing after this. */
  async leave(): Promise<void> {
    await this.stop();
    try {
      this.#link ??= await this.#options.shared.connect(() => {});
      const own = (await this.#link.list()).find(({ session }) => session === this.#self.session);
      if (own !== undefined) await this.#link.evict(own);
    } catch {
      // The others notice the silence.
    }
    this.#link?.close();
  }

  #heed(news: News): void {
    // Confirmations are useful only for those who wait already.
    if (news === "change" || this.#waiters.size > 0) this.#bell.heed(news);
  }

  async #run(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      const isDeaf = this.#link === undefined;
      // Without a connection there is no news, and waiters would cause a busy loop.
      const ms = isDeaf ? RETRY_MS : this.#untilLook;
      await this.#bell.pause(this.#options.clock, ms, signal, isDeaf);
      if (!signal.aborted) await this.#tick();
    }
  }

  get #untilLook(): number {
    return Math.max(0, BEAT_MS - (this.#options.elapsed() - this.#lookedAt));
  }

  async #tick(): Promise<void> {
    try {
      if (this.#link !== undefined && this.#bell.isOnlySeen && this.#untilLook > 0) {
        return await this.#ask(this.#link);
      }
      this.#link ??= await this.#reconnect();
      await this.#look(this.#link);
      this.#lookedAt = this.#options.elapsed();
      if (this.#isFailing) this.#options.logger.info("state database available again");
      this.#isFailing = false;
    } catch (error) {
      this.#link?.close();
      this.#link = undefined;
      if (!(error instanceof AppError && error.code === "conflict")) {
        this.#problem = "the state database is not available";
      }
      if (this.#isFailing || this.#ending.signal.aborted) return;
      this.#isFailing = true;
      this.#options.logger.error(
        "state database not available: this instance decides nothing until it answers",
        {
          error,
        },
      );
    }
  }

  /** Another server may have lost unacknowledged changes and reused their numbers, so everything is read again. */
  async #reconnect(): Promise<InstanceLink> {
    const link = await this.#options.shared.connect((news) => this.#heed(news));
    this.#seen = { ...this.#seen, state: 0n };
    return link;
  }

  /** Reads the confirmations of others. */
  async #ask(link: InstanceLink): Promise<void> {
    this.#bell.isSeen = false;
    // Without those that come meanwhile.
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
    /** When the state was read in this look. */
    let readAt: ReturnType<Freshness["now"]> | undefined;
    // After a notification, a certain member need not ask first whether there is a change.
    if (this.#bell.isChanged && this.#freshness.isFresh) {
      readAt = this.#freshness.now();
      await this.#takeOver(link);
    }
    for (let attempt = 0; attempt < MAX_LOOKS; attempt++) {
      const asked = this.#freshness.now();
      const told = this.#seen.state;
      this.#bell.isChanged = false;
      const beat = await this.#beat(link, told);
      if (beat.schema > this.#options.shared.schema) {
        this.#problem = "a newer version has migrated the state database; upgrade this instance";
        return;
      }
      if (!beat.isMember) {
        await this.#comeBack(link);
        readAt = undefined;
        continue;
      }
      const isCurrent = beat.state === this.#seen.state;
      // If others change it all the time, the state was current when it was read from a server that accepts commits.
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
      // There are always more certificates, so only waiters look again.
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
    if (!isMember) throw new Error("the others consider this instance gone");
    if (schema > this.#options.shared.schema) throw new Error("a newer version has migrated the tables");
  }

  /** Others considered this instance gone, and have changed the state without its confirmation. */
  async #comeBack(link: InstanceLink): Promise<void> {
    this.#self = { ...this.#self, session: this.#options.newSession() };
    this.#options.logger.warn("this instance was silent for too long and joins the group again");
    if (!await link.enter(this.#self, this.#options.version)) {
      this.#problem = `another ${this.#options.what} has the name ${quoteText(this.#self.name)}`;
      throw new AppError("conflict", this.#problem);
    }
    this.#seen = { ...this.#seen, state: 0n };
  }

  /** Evicts silent instances. One that beats at this moment stays. */
  async #observe(link: InstanceLink, others: readonly OtherInstance[]): Promise<void> {
    for (const other of this.#peers.silent(others, this.#options.elapsed(), SILENT_MS)) {
      await link.evict(other);
      this.#options.logger.warn("instance is silent, no longer waiting for its confirmations", {
        instance: other.name,
      });
      this.#bell.ring();
    }
  }
}
