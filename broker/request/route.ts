import type { AuditEntry } from "@gateway/shared/audit";
import { type Clock, every, within } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { HostInfo } from "@gateway/shared/wire";
import { audited, type Events } from "./records.ts";

interface Wait {
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** The hosts, or the clusters, by logical name: the last list that was fetched. */
export class Inventory<Info> {
  readonly #fetch: () => Promise<Readonly<Record<string, Info>>>;
  #known: ReadonlyMap<string, Info> | undefined;
  #list: Readonly<Record<string, Info>> | undefined;
  #inFlight: Promise<ReadonlyMap<string, Info>> | undefined;
  #next: Promise<ReadonlyMap<string, Info>> | undefined;

  /** @param fetch returns the same object if nothing has changed, so that the list is not parsed again */
  constructor(fetch: () => Promise<Readonly<Record<string, Info>>>) {
    this.#fetch = fetch;
  }

  current(): Promise<ReadonlyMap<string, Info>> {
    return this.#known === undefined ? this.refresh() : Promise.resolve(this.#known);
  }

  /** Fetches the list. Overlapping calls share one fetch. If the fetch fails, the last list stays. */
  refresh(): Promise<ReadonlyMap<string, Info>> {
    this.#inFlight ??= this.#load().finally(() => this.#inFlight = undefined);
    return this.#inFlight;
  }

  /** Like {@linkcode Inventory.refresh}, but does not use a fetch that started before the call. */
  refreshAgain(): Promise<ReadonlyMap<string, Info>> {
    if (this.#inFlight === undefined) return this.refresh();
    this.#next ??= this.#inFlight.catch(() => {}).then(() => {
      this.#next = undefined;
      return this.refresh();
    });
    return this.#next;
  }

  /**
   * Fetches the list for one request, because a removed host or cluster must not be used again.
   * @throws {AppError} `denied` or `frozen` if this broker may not read the list, else `upstream_failure`
   */
  async fresh(what: string, { clock, signal }: Wait): Promise<ReadonlyMap<string, Info>> {
    try {
      // Aborting the signal ends the wait and not the fetch, because other requests wait for the same answer.
      return await within({ clock, signal }, this.refresh());
    } catch (cause) {
      const text = `refreshing ${what}: ${errorText(cause)}`;
      if (cause instanceof AppError && (cause.code === "denied" || cause.code === "frozen")) {
        throw new AppError(cause.code, text, { cause });
      }
      throw new AppError("upstream_failure", `upstream failure: ${text}`, { cause });
    }
  }

  refreshEvery(
    { onError, ...options }: Wait & {
      readonly seconds: number;
      readonly onError: (error: unknown) => void;
    },
  ): Promise<void> {
    return every(options, () => this.refresh().then(() => {}, onError));
  }

  async #load(): Promise<ReadonlyMap<string, Info>> {
    const list = await this.#fetch();
    if (this.#known !== undefined && list === this.#list) return this.#known;
    // A map, because a host may have the name of a member of every object.
    this.#known = new Map(Object.entries(list));
    this.#list = list;
    return this.#known;
  }
}

export type Hosts = ReadonlyMap<string, HostInfo>;

export interface Hop {
  readonly name: string;
  readonly role: "bastion" | "target";
  readonly host: HostInfo;
}

/** The hops in the order of connecting: the outermost bastion first, the target last. */
export type Route = readonly [Hop, ...Hop[]];

/**
 * Builds the route to a host: follows `jump` up to a host that is connected directly.
 * @throws {AppError} `unknown_host`, or `denied` if the chain of a known host is broken, which only its
 * operator can fix
 */
export function buildRoute(hosts: Hosts, name: string): Route {
  const target = hosts.get(name);
  if (target === undefined) throw new AppError("unknown_host", `unknown host: ${quoteText(name)}`);
  let route: Route = [connectable({ name, role: "target", host: target })];
  const seen = new Set([name]);
  for (let jump = target.jump ?? ""; jump !== "";) {
    if (seen.has(jump)) throw new AppError("denied", `bastion cycle at ${quoteText(jump)}`);
    seen.add(jump);
    const host = hosts.get(jump);
    if (host === undefined) throw new AppError("denied", `unknown host in chain: ${quoteText(jump)}`);
    route = [connectable({ name: jump, role: "bastion", host }), ...route];
    jump = host.jump ?? "";
  }
  return route;
}

function connectable(hop: Hop): Hop {
  const { name, host: { addr, host_key } } = hop;
  const missing = addr === "" ? "addr" : host_key === "" ? "host_key" : undefined;
  if (missing === undefined) return hop;
  throw new AppError("denied", `cannot connect to host ${quoteText(name)}: it has no ${missing}`);
}

export function targetOf(route: Route): Hop {
  return route.at(-1) ?? route[0];
}

/** A text that changes if the name, address, account, pinned key or bastion of any hop changes. */
export function routeSignature(route: Route): string {
  return JSON.stringify(
    route.map(({ name, host }) => [name, host.addr, host.user, host.host_key, host.jump ?? ""]),
  );
}

/**
 * Finds the route to a host in the signer's current list. A failure is recorded.
 * @param describe the fields of the record; the host is absent until it is known
 * @throws {AppError} as {@linkcode Inventory.fresh} and {@linkcode buildRoute} do
 */
export async function findRoute(
  { hosts: inventory, events, clock }: {
    readonly hosts: Inventory<HostInfo>;
    readonly events: Events;
    readonly clock: Clock;
  },
  { host: name, describe, signal }: {
    readonly host: string;
    readonly describe: (host?: HostInfo) => Omit<AuditEntry, "outcome">;
    readonly signal: AbortSignal;
  },
): Promise<Route> {
  const list = () => inventory.fresh("host list", { clock, signal });
  const hosts = await audited(events, { entry: describe(), signal }, list);
  try {
    return buildRoute(hosts, name);
  } catch (error) {
    const host = hosts.get(name);
    const err = host === undefined ? "unknown host" : errorText(error);
    await events.bestEffort({ ...describe(host), outcome: "denied", err });
    throw error;
  }
}
