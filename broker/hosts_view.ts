import { type Clock, every } from "@gateway/shared/clock";
import type { HostInfo, HostsResponse } from "@gateway/shared/wire/host";

/** The hosts by logical name. */
export type Hosts = ReadonlyMap<string, HostInfo>;

/** How the view keeps itself fresh between calls. */
export interface RefreshOptions {
  readonly clock: Clock;
  readonly seconds: number;
  readonly signal: AbortSignal;
  /** Told of a failed refresh; the last good view stays. */
  readonly onError: (error: unknown) => void;
}

/** The broker's view of the hosts: the last list that could be fetched. */
export class HostsView {
  readonly #fetch: () => Promise<HostsResponse>;
  #hosts: Hosts | undefined;
  #list: HostsResponse | undefined;
  #inFlight: Promise<Hosts> | undefined;
  #next: Promise<Hosts> | undefined;

  /** @param fetch gives the very list that it gave before where nothing has changed: it is not looked through again */
  constructor(fetch: () => Promise<HostsResponse>) {
    this.#fetch = fetch;
  }

  /** The view as it is, without asking; the first call waits for the first list. */
  current(): Promise<Hosts> {
    return this.#hosts === undefined ? this.refresh() : Promise.resolve(this.#hosts);
  }

  /**
   * Fetches the list. Calls that overlap share one fetch. Rejects with the fetch's error, and then the view
   * stays as it was: whoever needs a fresh one must stop there.
   */
  refresh(): Promise<Hosts> {
    this.#inFlight ??= this.#load().finally(() => this.#inFlight = undefined);
    return this.#inFlight;
  }

  /**
   * Like {@linkcode HostsView.refresh}, but a fetch that is under way is not good enough: it may have been answered
   * before what the caller knows of.
   */
  refreshAnew(): Promise<Hosts> {
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

  async #load(): Promise<Hosts> {
    const list = await this.#fetch();
    if (this.#hosts !== undefined && list === this.#list) return this.#hosts;
    // A map, because a host may be named like a member of every object.
    const hosts = new Map(Object.entries(list));
    this.#list = list;
    this.#hosts = hosts;
    return hosts;
  }
}
