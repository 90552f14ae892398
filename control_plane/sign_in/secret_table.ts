import type { Random } from "@gateway/shared/clock";
import { digestOf, type MonotonicTime } from "../approvals/approval.ts";

const ID_BYTES = 32;

interface Entry<T> {
  readonly value: T;
  readonly endsAt: number;
}

interface SecretTableOptions {
  readonly random: Random;
  readonly time: Pick<MonotonicTime, "now">;
  readonly lifeSeconds: number;
  readonly maxEntries: number;
}

/**
 * Values by secret IDs, with a lifetime. The table holds only hashes of the IDs: neither a memory dump nor the time of a
 * comparison reveals an ID. If the table is full, the oldest entry ends, so that entries of others cannot block it.
 */
export class SecretTable<T> {
  readonly #options: SecretTableOptions;
  /** By hash of the ID, the oldest first. */
  readonly #entries = new Map<string, Entry<T>>();

  constructor(options: SecretTableOptions) {
    this.#options = options;
  }

  /** Adds a value. @returns its new ID: 43 characters for cookies */
  add(value: T): string {
    const { random, time, lifeSeconds, maxEntries } = this.#options;
    const now = time.now();
    this.drop((_, { endsAt }) => endsAt <= now);
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined && this.#entries.size >= maxEntries) this.#entries.delete(oldest);
    const id = random.bytes(ID_BYTES).toBase64({ alphabet: "base64url", omitPadding: true });
    this.#entries.set(digestOf(id), { value, endsAt: now + lifeSeconds * 1000 });
    return id;
  }

  find(id: string): T | undefined {
    const entry = this.#entries.get(digestOf(id));
    return entry !== undefined && this.#options.time.now() < entry.endsAt ? entry.value : undefined;
  }

  /** Removes an entry. @returns its value; `undefined` if it is unknown or over */
  take(id: string): T | undefined {
    const value = this.find(id);
    this.#entries.delete(digestOf(id));
    return value;
  }

  /** Removes entries. @returns their values */
  drop(isOver: (value: T, entry: Entry<T>) => boolean): readonly T[] {
    const over = [...this.#entries].filter(([, entry]) => isOver(entry.value, entry));
    for (const [key] of over) this.#entries.delete(key);
    return over.map(([, { value }]) => value);
  }
}
