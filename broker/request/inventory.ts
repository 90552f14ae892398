import { type Clock, every } from "@gateway/shared/clock";
import type { HostInfo } from "@gateway/shared/wire";

/** How an inventory keeps itself fresh between calls. */
export interface RefreshOptions {
  readonly clock: Clock;
  readonly seconds: number;
  readonly signal: AbortSignal;
  /** Told of a failed refresh; the last good list stays. */
  readonly onError: (error: unknown) => void;
}

/** What the broker knows of hosts, or of clusters, by logical name: the last list that could be fetched. */
export class Inventory<Info> {
  readonly #fetch: () => Promise<Readonly<Record<string, Info>>>;
  #known: ReadonlyMap<string, Info> | undefined;
  #list: Readonly<Record<string, Info>> | undefined;
  #inFlight: Promise<ReadonlyMap<string, Info>> | undefined;
  #next: Promise<ReadonlyMap<string, Info>> | undefined;

  /** @param fetch gives the very list that it gave before where nothing has changed: it is not looked through again */
  constructor(fetch: () => Promise<Readonly<Record<string, Info>>>) {
    this.#fetch = fetch;
  }

  /** What is known, without asking; the first call waits for the first list. */
  current(): Promise<ReadonlyMap<string, Info>> {
    return this.#known === undefined ? this.refresh() : Promise.resolve(this.#known);
  }

  /**
   * Fetches the list. Calls that overlap share one fetch. Rejects with the fetch's error, and then what
   * is known stays as it was: whoever needs a fresh one must stop there.
   */
  refresh(): Promise<ReadonlyMap<string, Info>> {
    this.#inFlight ??= this.#load().finally(() => this.#inFlight = undefined);
    return this.#inFlight;
  }

  /**
   * Like {@linkcode Inventory.refresh}, but a fetch that is under way is not good enough: it may have been answered
   * before what the caller knows of.
   */
  refreshAnew(): Promise<ReadonlyMap<string, Info>> {
    if (this.#inFlight === undefined) return this.refresh();
    this.#next ??= this.#inFlight.catch(() => {}).then(() => {
      this.#next = undefined;
      return this.refresh();
    });
    return this.#next;
  }

  /** Refreshes again and again until the signal is aborted. */
  refreshEvery(options: RefreshOptions): Promise<void> {
    return every(options, async () => {
      try {
        await this.refresh();
      } catch (error) {
        options.onError(error);
      }
    });
  }

  async #load(): Promise<ReadonlyMap<string, Info>> {
    const list = await this.#fetch();
    if (this.#known !== undefined && list === this.#list) return this.#known;
    // A map, because something may be named like a member of every object.
    const known = new Map(Object.entries(list));
    this.#list = list;
    this.#known = known;
    return known;
  }
}

export type Hosts = ReadonlyMap<string, HostInfo>;

/** The broker's view of the hosts. */
export type HostsView = Inventory<HostInfo>;
