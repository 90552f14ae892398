/**
 * The instances of a service that share one state. A change is acknowledged only when all instances enforce it.
 *
 * An instance polls the database at least twice a second. If its last poll is more than 2 s old, it makes no decisions.
 * Therefore a change is in force everywhere as soon as every other instance has confirmed it, and at the latest
 * {@linkcode SILENT_MS} after its commit.
 *
 * @module
 */
import { type Clock, type Elapsed, within } from "../clock.ts";
import { AppError, configError, errorText, staleError } from "../errors.ts";
import type { ServiceLogger } from "../service/mod.ts";
import type { Metrics } from "../service/metrics.ts";
import { quoteText } from "../text.ts";
import { Confirmation, enter, Freshness, Liveness, MAX_AGE_MS, PollTimer, SharedClock } from "./freshness.ts";
import type {
  Epochs,
  Heartbeat,
  InstanceIdentity,
  InstanceLink,
  Notice,
  OtherInstance,
  Shared,
} from "./postgres_link.ts";

/** The functions of a group that request handlers use. */
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
   * @returns the names of instances without confirmation: they make no decisions, but this instance may not
   * know the certificates that they issued in their last {@linkcode MAX_AGE_MS}
   */
  settled(): Promise<readonly string[]>;
  /** Resolves when this instance has read all changes committed so far, or cannot read them. Never rejects. */
  caughtUp(): Promise<void>;
  /** The reason why this instance makes no decisions; `undefined` if it does. */
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
 * Reads changes of others and returns their epochs. It uses the result only after `confirm` resolves, because a database
 * server that was replaced without noticing may have an old state.
 */
type Refresh = (link: InstanceLink, confirm: () => Promise<void>) => Promise<Epochs>;

const HEARTBEAT_MS = 500;
const RETRY_MS = 100;
/** An instance without a heartbeat for longer makes no decisions. */
const SILENT_MS = MAX_AGE_MS + 500;
const CHECK_MS = 250;
/** The maximum number of consecutive polls while others change the state. */
const MAX_POLLS = 4;

/** The group of an instance with a shared state. */
export class SharedGroup implements InstanceGroup {
  readonly isShared = true;
  readonly #options: GroupOptions;
  readonly #time: SharedClock;
  readonly #freshness: Freshness;
  readonly #ending = new AbortController();
  readonly #waiters = new Set<Confirmation>();
  readonly #behind = new Set<() => void>();
  readonly #others = new Liveness();
  #self: InstanceIdentity;
  #link: InstanceLink | undefined;
  #seen: Epochs = { state: 0n, certificates: 0n };
  #refresh: Refresh | undefined;
  readonly #pollTimer = new PollTimer();
  /** The end of the last poll, by a monotonic clock. */
  #polledAt = -Infinity;
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
   * Enters the group. Load the state next, and then call {@linkcode start}.
   *
   * @throws {AppError} `invalid_config` if a live instance has the name, or the database cannot be used
   */
  static async join(options: GroupOptions): Promise<SharedGroup> {
    let onNotice: (notice: Notice) => void = () => {};
    let link: InstanceLink | undefined;
    try {
      link = await options.shared.connect((notice) => onNotice(notice));
      const self = { name: options.name, session: options.newSession() };
      await enter({ ...options, silentMs: SILENT_MS }, link, self);
      const group = new SharedGroup(options, self, link);
      // Read the count first: state that is loaded later contains all certificates up to now.
      const { certificates } = await group.#heartbeat(link, 0n);
      group.#seen = { state: 0n, certificates };
      onNotice = (notice) => group.#onNotice(notice);
      return group;
    } catch (error) {
      link?.close();
      if (error instanceof AppError) throw error;
      throw configError(`Cannot use state_db: ${errorText(error)}`, error);
    }
  }

  async #heartbeat(link: InstanceLink, seen: bigint): Promise<Heartbeat> {
    const asked = this.#freshness.now();
    const heartbeat = await link.heartbeat(this.#self, seen);
    this.#time.addReading(heartbeat.now, asked, this.#freshness.now());
    return heartbeat;
  }

  /** The clock for times that instances compare. */
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
    if (off !== undefined) throw staleError(`This ${this.#options.what} makes no decisions: ${off}`);
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
      "Age of the state in use; above 2 the instance makes no decisions",
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
      () => [this.#self.name, ...this.#others.names].map((instance) => one({ instance })),
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
    const waiter = new Confirmation();
    this.#waiters.add(waiter);
    this.#pollTimer.trigger();
    await within({ clock, ms: SILENT_MS }, waiter.done).catch(() => {});
    this.#waiters.delete(waiter);
    // A timer may fire early, in particular after the clock was set.
    while (!this.#ending.signal.aborted && !waiter.isSettled && elapsed() - since < SILENT_MS) {
      await clock.sleep(CHECK_MS);
    }
    return waiter.silent;
  }

  async caughtUp(): Promise<void> {
    const caughtUp = Promise.withResolvers<void>();
    this.#behind.add(caughtUp.resolve);
    this.#pollTimer.trigger();
    await within({ clock: this.#options.clock, ms: SILENT_MS }, caughtUp.promise).catch(() => {});
    this.#behind.delete(caughtUp.resolve);
  }

  /** Stops reading changes. The state then becomes too old for decisions. */
  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  /** Leaves the group. The instance must have stored its certificates, and must make no decisions later. */
  async leave(): Promise<void> {
    await this.stop();
    try {
      this.#link ??= await this.#options.shared.connect(() => {});
      const own = (await this.#link.list()).find(({ session }) => session === this.#self.session);
      if (own !== undefined) await this.#link.evict(own);
    } catch {
      // Ignore the failure, because the others detect the missing heartbeats.
    }
    this.#link?.close();
  }

  #onNotice(notice: Notice): void {
    // A confirmation is useful only if somebody waits for it.
    if (notice === "change" || this.#waiters.size > 0) this.#pollTimer.notify(notice);
  }

  async #run(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      const isDisconnected = this.#link === undefined;
      // Without a connection there are no notices, and polling for waiters would be a busy loop.
      const ms = isDisconnected ? RETRY_MS : this.#msUntilPoll;
      await this.#pollTimer.wait(this.#options.clock, ms, signal, isDisconnected);
      if (!signal.aborted) await this.#tick();
    }
  }

  get #msUntilPoll(): number {
    return Math.max(0, HEARTBEAT_MS - (this.#options.elapsed() - this.#polledAt));
  }

  async #tick(): Promise<void> {
    try {
      if (this.#link !== undefined && this.#pollTimer.hasOnlyConfirmations && this.#msUntilPoll > 0) {
        return await this.#readConfirmations(this.#link);
      }
      this.#link ??= await this.#reconnect();
      await this.#poll(this.#link);
      this.#polledAt = this.#options.elapsed();
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
        "state database not available: this instance makes no decisions until it answers",
        {
          error,
        },
      );
    }
  }

  /**
   * Connects again. Another server may have lost unacknowledged changes and reused their numbers, so
   * everything is read again.
   */
  async #reconnect(): Promise<InstanceLink> {
    const link = await this.#options.shared.connect((notice) => this.#onNotice(notice));
    this.#seen = { ...this.#seen, state: 0n };
    return link;
  }

  /** Reads the confirmations of others. */
  async #readConfirmations(link: InstanceLink): Promise<void> {
    this.#pollTimer.hasConfirmations = false;
    // Take a copy, without waiters that are added in the meantime.
    const waiting = [...this.#waiters];
    const answer = await link.readGroup(this.#self);
    for (const waiter of waiting) {
      waiter.update(answer, this.#seen.certificates);
      if (waiter.wantsCertificates) this.#pollTimer.trigger();
    }
  }

  async #poll(link: InstanceLink): Promise<void> {
    this.#pollTimer.reset();
    const [waiting, behind] = [[...this.#waiters], [...this.#behind]];
    /** The moment when this poll read the state. */
    let readAt: ReturnType<Freshness["now"]> | undefined;
    // After a notice, a member with fresh state reads the change directly, without a heartbeat before.
    if (this.#pollTimer.isChanged && this.#freshness.isFresh) {
      readAt = this.#freshness.now();
      await this.#refreshState(link);
    }
    for (let attempt = 0; attempt < MAX_POLLS; attempt++) {
      const asked = this.#freshness.now();
      const confirmed = this.#seen.state;
      this.#pollTimer.isChanged = false;
      const heartbeat = await this.#heartbeat(link, confirmed);
      if (heartbeat.schema > this.#options.shared.schema) {
        this.#problem = "a newer version has migrated the state database; upgrade this instance";
        return;
      }
      if (!heartbeat.isMember) {
        await this.#rejoin(link);
        readAt = undefined;
        continue;
      }
      const isCurrent = heartbeat.state === this.#seen.state;
      // If others change the state continuously, it was current when it was read from a server that accepts
      // commits.
      const heldAt = isCurrent ? asked : readAt;
      if (heldAt !== undefined) {
        this.#freshness.heldAt(heldAt);
        this.#problem = undefined;
        for (const resolve of behind) resolve();
      }
      await this.#evictSilent(link, heartbeat.others);
      for (const waiter of waiting) waiter.update(heartbeat, this.#seen.certificates);
      if (isCurrent && heartbeat.certificates === this.#seen.certificates) return;
      readAt = this.#freshness.now();
      await this.#refreshState(link);
      // New certificates arrive continuously, so poll again only if somebody waits.
      if (isCurrent && this.#seen.state === heartbeat.state && waiting.length === 0) return;
    }
    this.#pollTimer.trigger();
  }

  async #refreshState(link: InstanceLink): Promise<void> {
    this.#pollTimer.isChanged = false;
    const confirmed = this.#seen.state;
    this.#seen = await this.#refresh?.(link, () => this.#confirm(link, confirmed)) ?? this.#seen;
  }

  async #confirm(link: InstanceLink, confirmed: bigint): Promise<void> {
    const { isMember, schema } = await link.heartbeat(this.#self, confirmed);
    if (!isMember) throw new Error("the others consider this instance gone");
    if (schema > this.#options.shared.schema) throw new Error("a newer version has migrated the tables");
  }

  /** Joins again after others evicted this instance and changed the state without its confirmation. */
  async #rejoin(link: InstanceLink): Promise<void> {
    this.#self = { ...this.#self, session: this.#options.newSession() };
    this.#options.logger.warn("this instance was silent for too long and joins the group again");
    if (!await link.enter(this.#self, this.#options.version)) {
      this.#problem = `another ${this.#options.what} has the name ${quoteText(this.#self.name)}`;
      throw new AppError("conflict", this.#problem);
    }
    this.#seen = { ...this.#seen, state: 0n };
  }

  /** Evicts silent instances, except an instance whose heartbeat arrives during the eviction. */
  async #evictSilent(link: InstanceLink, others: readonly OtherInstance[]): Promise<void> {
    for (const other of this.#others.findSilent(others, this.#options.elapsed(), SILENT_MS)) {
      await link.evict(other);
      this.#options.logger.warn("instance is silent, no longer waiting for its confirmations", {
        instance: other.name,
      });
      this.#pollTimer.trigger();
    }
  }
}
