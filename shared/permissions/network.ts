/**
 * Networks of configs in the syntax of `--allow-net`: what a process may connect to without knowing each address.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { isInNetwork, isNetwork } from "@gateway/shared/permissions/network";
 *
 * assert.equal(isNetwork("10.0.0.0/8:22"), true);
 * assert.equal(isInNetwork("10.1.2.3:22", "10.0.0.0/8:22"), true);
 * assert.equal(isInNetwork("db.prod.example:22", "*.prod.example:22"), true);
 * ```
 *
 * @module
 */
import { BlockList, isIPv4 } from "node:net";
import { addressPermissions } from "./address.ts";

const RANGE = /^(?<base>[\d.]+)\/(?<bits>\d{1,2}):(?<port>\d{1,5})$/;
const NAMES = /^\*(?<suffix>(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)+):(?<port>\d{1,5})$/;
const ADDRESS = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):(?<port>\d{1,5})$/;
const MAX_PORT = 65_535;

/** What {@linkcode isNetwork} takes, for messages. */
export const NETWORK_FORMS =
  "10.0.0.0/8:22, *.example.com:22 or host:port (the runtime knows no IPv6 ranges)";

/**
 * Whether a text is a network with a port: IPv4 addresses in CIDR form, all names below a domain, or one address. A
 * name and the address that it stands for are two things: the process asks for what the host list says.
 */
export function isNetwork(text: string): boolean {
  const port = Number((RANGE.exec(text) ?? NAMES.exec(text) ?? ADDRESS.exec(text))?.groups?.["port"]);
  if (!(port >= 1 && port <= MAX_PORT)) return false;
  const { base, bits } = RANGE.exec(text)?.groups ?? {};
  return base === undefined || (isIPv4(base) && Number(bits) <= 32);
}

/**
 * Whether a host's `addr` lies in a network. What is no address or no network lies in none.
 *
 * @param addr `host:port`; the port is 22 when it is left out
 */
export function isInNetwork(addr: string, network: string): boolean {
  const [wanted = ""] = tryAddress(addr);
  const [, hostname = "", port = ""] = /^(.*):(\d+)$/s.exec(wanted) ?? [];
  const range = RANGE.exec(network)?.groups;
  if (range !== undefined) {
    return range["port"] === port && isNetwork(network) && isIPv4(hostname) && isInRange(hostname, range);
  }
  const names = NAMES.exec(network)?.groups;
  if (names === undefined) return wanted.toLowerCase() === network.toLowerCase();
  return names["port"] === port && hostname.toLowerCase().endsWith((names["suffix"] ?? "").toLowerCase()) &&
    !isIPv4(hostname);
}

function isInRange(address: string, { base = "", bits = "" }: Readonly<Record<string, string | undefined>>) {
  const list = new BlockList();
  list.addSubnet(base, Number(bits), "ipv4");
  return list.check(address, "ipv4");
}

function tryAddress(addr: string): readonly string[] {
  try {
    return addressPermissions(addr);
  } catch {
    return [];
  }
}
