/**
 * Shared state of instances, in memory.
 *
 * @module
 */
import type {
  Epochs,
  Heartbeat,
  InstanceIdentity,
  InstanceLink,
  Notice,
  OtherInstance,
  Shared,
} from "../instances/postgres_link.ts";

/** Shared state of instances, in memory. A test can make it unavailable, or slow for one instance. */
export class MemoryShared {
  isDown = false;
  /** Delays heartbeats after they have read the state. */
  hold: Promise<void> | undefined;
  /** Delays results of `readGroup` after they have been read. */
  holdGroupReads: Promise<void> | undefined;
  /** A promise per instance that delays each of the instance's requests. */
  readonly heldNames = new Map<string, Promise<void>>();
  schema = 1;
  /** The clock of the database. */
  readClock: () => number = () => 0;
  epochs: Epochs = { state: 1n, certificates: 1n };
  readonly #instances = new Map<string, OtherInstance>();
  readonly #listeners = new Set<(notice: Notice) => void>();
  /** The number of heartbeats per instance. */
  readonly heartbeats = new Map<string, number>();

  /** The names of the registered instances. */
  get names(): readonly string[] {
    return [...this.#instances.keys()].sort();
  }

  change(): void {
    this.epochs = { ...this.epochs, state: this.epochs.state + 1n };
    this.#notify("change");
  }

  /** The state as one instance sees it. `schema` is the table version that the instance knows. */
  of(name: string, schema: number): Shared {
    return {
      schema,
      connect: async (onNotice) => {
        await this.#reach(name);
        this.#listeners.add(onNotice);
        return this.#link(name, onNotice);
      },
    };
  }

  #link(name: string, onNotice: (notice: Notice) => void): InstanceLink {
    return {
      server: "memory",
      heartbeat: (self, seen) => this.#heartbeat(self, seen),
      readGroup: async (self) => {
        await this.#reach(self.name);
        const seen = { ...this.epochs, others: this.#othersOf(self) };
        await this.holdGroupReads;
        return seen;
      },
      read: () => Promise.reject(new Error("not used")),
      enter: async (self) => {
        await this.#reach(name);
        if (this.#instances.has(self.name)) return false;
        this.#instances.set(self.name, { ...self, beat: 0n, seen: 0n });
        return true;
      },
      list: async () => {
        await this.#reach(name);
        return [...this.#instances.values()];
      },
      evict: async (silent) => {
        await this.#reach(name);
        const found = this.#instances.get(silent.name);
        if (found?.session === silent.session && found.beat === silent.beat) {
          this.#instances.delete(silent.name);
        }
      },
      close: () => void this.#listeners.delete(onNotice),
    };
  }

  async #heartbeat(self: InstanceIdentity, seen: bigint): Promise<Heartbeat> {
    await this.#reach(self.name);
    const own = this.#instances.get(self.name);
    const isMember = own?.session === self.session;
    if (isMember) this.#instances.set(self.name, { ...own, beat: own.beat + 1n, seen });
    const others = this.#othersOf(self);
    const heartbeat = { ...this.epochs, isMember, schema: this.schema, now: this.readClock(), others };
    await this.hold;
    this.heartbeats.set(self.name, (this.heartbeats.get(self.name) ?? 0) + 1);
    if (isMember && own.seen !== seen) this.#notify("seen");
    return heartbeat;
  }

  #othersOf(self: InstanceIdentity): readonly OtherInstance[] {
    return [...this.#instances.values()].filter(({ session }) => session !== self.session);
  }

  async #reach(name: string): Promise<void> {
    await this.heldNames.get(name);
    if (this.isDown) throw new Error("the database is down");
  }

  #notify(notice: Notice): void {
    for (const listener of this.#listeners) listener(notice);
  }
}
