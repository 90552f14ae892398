/**
 * Shared state of instances, in memory.
 *
 * @module
 */
import type {
  Beat,
  Epochs,
  InstanceIdentity,
  InstanceLink,
  News,
  OtherInstance,
  Shared,
} from "../instances/postgres_link.ts";

/** Shared state of instances, in memory. A test can make it unavailable, or slow for one instance. */
export class MemoryShared {
  isDown = false;
  /** Beats wait for it, after they have read. */
  hold: Promise<void> | undefined;
  /** Answers to who has seen what wait for it, after they have been read. */
  holdLooks: Promise<void> | undefined;
  /** By instance: a promise that delays each request of the instance. */
  readonly heldNames = new Map<string, Promise<void>>();
  schema = 1;
  /** The clock of the database. */
  readClock: () => number = () => 0;
  epochs: Epochs = { state: 1n, certificates: 1n };
  readonly #instances = new Map<string, OtherInstance>();
  readonly #listeners = new Set<(news: News) => void>();
  /** How many looks there were, by the name of who looks. */
  readonly looks = new Map<string, number>();

  /** The names of those that are entered. */
  get names(): readonly string[] {
    return [...this.#instances.keys()].sort();
  }

  change(): void {
    this.epochs = { ...this.epochs, state: this.epochs.state + 1n };
    this.#ring("change");
  }

  /** As one instance has it, whose program knows a version of the tables. */
  of(name: string, schema: number): Shared {
    return {
      schema,
      connect: async (onNews) => {
        await this.#reach(name);
        this.#listeners.add(onNews);
        return this.#link(name, onNews);
      },
    };
  }

  #link(name: string, onNews: (news: News) => void): InstanceLink {
    return {
      server: "memory",
      beat: (self, seen) => this.#beat(self, seen),
      look: async (self) => {
        await this.#reach(self.name);
        const seen = { ...this.epochs, others: this.#othersOf(self) };
        await this.holdLooks;
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
      close: () => void this.#listeners.delete(onNews),
    };
  }

  async #beat(self: InstanceIdentity, seen: bigint): Promise<Beat> {
    await this.#reach(self.name);
    const own = this.#instances.get(self.name);
    const isMember = own?.session === self.session;
    if (isMember) this.#instances.set(self.name, { ...own, beat: own.beat + 1n, seen });
    const others = this.#othersOf(self);
    const beat = { ...this.epochs, isMember, schema: this.schema, now: this.readClock(), others };
    await this.hold;
    this.looks.set(self.name, (this.looks.get(self.name) ?? 0) + 1);
    if (isMember && own.seen !== seen) this.#ring("seen");
    return beat;
  }

  #othersOf(self: InstanceIdentity): readonly OtherInstance[] {
    return [...this.#instances.values()].filter(({ session }) => session !== self.session);
  }

  async #reach(name: string): Promise<void> {
    await this.heldNames.get(name);
    if (this.isDown) throw new Error("the database is down");
  }

  #ring(news: News): void {
    for (const listener of this.#listeners) listener(news);
  }
}
