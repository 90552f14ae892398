import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { HostInfo } from "@gateway/shared/wire";
import type { Hosts } from "./inventory.ts";

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
