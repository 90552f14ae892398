import { AppError, errorText } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { HostInfo } from "@gateway/shared/wire";
import type { AuditEntry } from "@gateway/shared/audit";
import { type Clock, every, within } from "@gateway/shared/clock";
import { audited, type Events } from "./records.ts";

/** One connection on the way to a host, the host itself included. */
export interface Hop {
  readonly name: string;
  readonly role: "bastion" | "target";
  readonly host: HostInfo;
}

/** In the order of dialling: the outermost bastion first, the target last. */
export type Route = readonly [Hop, ...Hop[]];

/**
 * The way to a host, along `jump` until a host is reached directly.
 *
 * @throws {AppError} `unknown_host` when the target or a bastion is not among the hosts, `invalid_config` when one has
 * no address or host key, or when the bastions lead in a circle
 */
export function buildRoute(hosts: Hosts, name: string): Route {
  const target = hosts.get(name);
  if (target === undefined) throw new AppError("unknown_host", `unknown host: ${quoteText(name)}`);
  requireConnectable(name, target);
  let route: Route = [{ name, role: "target", host: target }];
  const seen = new Set([name]);
  for (let jump = target.jump ?? ""; jump !== "";) {
    if (seen.has(jump)) throw new AppError("invalid_config", `bastion cycle at ${quoteText(jump)}`);
    seen.add(jump);
    const host = hosts.get(jump);
    if (host === undefined) throw new AppError("unknown_host", `unknown host in chain: ${quoteText(jump)}`);
    requireConnectable(jump, host);
    route = [{ name: jump, role: "bastion", host }, ...route];
    jump = host.jump ?? "";
  }
  return route;
}

function requireConnectable(name: string, { addr, host_key }: HostInfo): void {
  const missing = addr === "" ? "addr" : host_key === "" ? "host_key" : undefined;
  if (missing === undefined) return;
  throw new AppError("invalid_config", `cannot connect to host ${quoteText(name)}: it has no ${missing}`);
}

/** The hop of the host that was asked for. */
export function targetOf(route: Route): Hop {
  return route.at(-1) ?? route[0];
}

/** A text that changes when any hop leads elsewhere: another name, address, account, pinned key or bastion. */
export function routeSignature(route: Route): string {
  return JSON.stringify(
    route.map(({ name, host }) => [name, host.addr, host.user, host.host_key, host.jump ?? ""]),
  );
}

/** What it takes to know the hosts as they are now. */
export interface HostsPorts {
  readonly hosts: HostsView;
  readonly clock: Clock;
}

/**
 * Always asks again: a host that was removed must not be used once more.
 *
 * @throws {AppError} `denied` or `frozen` when this broker may not have the list, else `upstream_failure`
 */
export async function refreshHosts({ hosts, clock }: HostsPorts, signal: AbortSignal): Promise<Hosts> {
  try {
    // Nobody's signal ends the asking itself: others wait for the same answer.
    return await within({ clock, signal }, hosts.refresh());
  } catch (cause) {
    const text = `refreshing host list: ${errorText(cause)}`;
    if (cause instanceof AppError && (cause.code === "denied" || cause.code === "frozen")) {
      throw new AppError(cause.code, text, { cause });
    }
    throw new AppError("upstream_failure", `upstream failure: ${text}`, { cause });
  }
}

/**
 * The way to a host.
 *
 * @throws {AppError} `unknown_host`, or `denied` when its bastions lead nowhere
 */
export function routeTo(hosts: Hosts, name: string): Route {
  if (!hosts.has(name)) throw new AppError("unknown_host", `unknown host: ${quoteText(name)}`);
  try {
    return buildRoute(hosts, name);
  } catch (cause) {
    if (!(cause instanceof AppError)) throw cause;
    // The host is known: what its chain lacks is the operator's to mend, not a name to spell otherwise.
    throw new AppError("denied", cause.message, { cause });
  }
}

/** What it takes to find the way to a host, and to record that there is none. */
interface RoutePorts extends HostsPorts {
  readonly events: Events;
}

/** Of whom {@linkcode findRoute} is. */
interface RouteWish {
  readonly host: string;
  /** What the records of the request say, once the host is known with its address. */
  readonly describe: (host?: HostInfo) => Omit<AuditEntry, "outcome">;
  readonly signal: AbortSignal;
}

/**
 * The way to a host as the signer knows it now. Where there is none, that is on record.
 *
 * @throws {AppError} as {@linkcode refreshHosts} and {@linkcode routeTo} do
 */
export async function findRoute(
  ports: RoutePorts,
  { host: name, describe, signal }: RouteWish,
): Promise<Route> {
  const { events } = ports;
  const hosts = await audited(events, { entry: describe(), signal }, () => refreshHosts(ports, signal));
  try {
    return routeTo(hosts, name);
  } catch (error) {
    const host = hosts.get(name);
    const err = host === undefined ? "unknown host" : errorText(error);
    await events.bestEffort({ ...describe(host), outcome: "denied", err });
    throw error;
  }
}

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
