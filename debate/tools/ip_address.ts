/**
 * What an IP address is good for. Made from the special-purpose registries of IANA (RFC 6890).
 *
 * @module
 */
import { isIPv4, isIPv6 } from "node:net";

/** The kinds of address. Only `public` ones are other people's servers. */
export type AddressKind =
  | "public"
  | "metadata"
  | "loopback"
  | "private"
  | "carrier"
  | "link-local"
  | "multicast"
  | "reserved";

/** An address as a number. */
export interface Address {
  readonly bits: 32 | 128;
  readonly value: bigint;
}

/** The addresses that share their first bits. */
export interface Network extends Address {
  readonly prefix: number;
}

/** Reads an address; one with a zone is none. An IPv4 address within an IPv6 one is read as IPv4. */
export function parseAddress(text: string): Address | undefined {
  if (isIPv4(text)) {
    return {
      bits: 32,
      value: text.split(".").reduce((sum, part) => sum << 8n | BigInt(part), 0n),
    };
  }
  if (!isIPv6(text) || text.includes("%")) return undefined;
  const value = parseIpv6(text);
  return unwrap(value) ?? { bits: 128, value };
}

/** Reads `address/prefix`, or an address alone. */
export function parseNetwork(text: string): Network | undefined {
  const [, base, length] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const address = base === undefined ? undefined : parseAddress(base);
  if (address === undefined) return undefined;
  const prefix = length === undefined ? address.bits : Number(length);
  return prefix <= address.bits ? { ...address, prefix } : undefined;
}

/** Whether an address lies in a network. */
export function isInside(address: Address, { bits, value, prefix }: Network): boolean {
  const rest = BigInt(bits - prefix);
  return address.bits === bits && address.value >> rest === value >> rest;
}

/** What an address is. */
export function classify(address: Address): AddressKind {
  const found = SPECIAL.find(({ network }) => isInside(address, network));
  if (found !== undefined) return found.kind;
  // Of IPv6, only 2000::/3 is given out.
  return address.bits === 32 || address.value >> 125n === 1n ? "public" : "reserved";
}

function parseIpv6(text: string): bigint {
  // The last 32 bits may be written as IPv4.
  const hex = text.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_match, ...parts: string[]) => {
    const [a = 0, b = 0, c = 0, d = 0] = parts.slice(0, 4).map(Number);
    return `${(a << 8 | b).toString(16)}:${(c << 8 | d).toString(16)}`;
  });
  const [before = "", after] = hex.split("::");
  const groups = (part: string) => part === "" ? [] : part.split(":");
  const first = groups(before);
  const last = groups(after ?? "");
  const zeros = Array.from({ length: 8 - first.length - last.length }, () => "0");
  return [...first, ...zeros, ...last].reduce((sum, group) => sum << 16n | BigInt(`0x${group}`), 0n);
}

/** IPv4-mapped, and NAT64 (RFC 6052): what is reached is the IPv4 address. */
function unwrap(value: bigint): Address | undefined {
  const isWrapped = value >> 32n === 0xffffn || value >> 32n === 0x64ff9bn << 64n;
  return isWrapped ? { bits: 32, value: value & 0xffff_ffffn } : undefined;
}

const RANGES: readonly (readonly [network: string, kind: AddressKind])[] = [
  // Cloud metadata services: first, for they lie in networks of other kinds, or among public addresses.
  ["169.254.169.254", "metadata"],
  ["169.254.170.2", "metadata"],
  ["169.254.170.23", "metadata"],
  ["100.100.100.200", "metadata"],
  ["168.63.129.16", "metadata"],
  ["192.0.0.192", "metadata"],
  ["fd00:ec2::/32", "metadata"],
  ["fd20:ce::254", "metadata"],
  ["0.0.0.0/8", "reserved"],
  ["10.0.0.0/8", "private"],
  ["100.64.0.0/10", "carrier"],
  ["127.0.0.0/8", "loopback"],
  ["169.254.0.0/16", "link-local"],
  ["172.16.0.0/12", "private"],
  ["192.0.0.0/24", "reserved"],
  ["192.0.2.0/24", "reserved"],
  ["192.88.99.0/24", "reserved"],
  ["192.168.0.0/16", "private"],
  ["198.18.0.0/15", "reserved"],
  ["198.51.100.0/24", "reserved"],
  ["203.0.113.0/24", "reserved"],
  ["224.0.0.0/4", "multicast"],
  ["240.0.0.0/4", "reserved"],
  ["::1", "loopback"],
  ["fc00::/7", "private"],
  ["fe80::/10", "link-local"],
  ["ff00::/8", "multicast"],
  ["2001::/23", "reserved"],
  ["2001:db8::/32", "reserved"],
  ["2002::/16", "reserved"],
  ["3fff::/20", "reserved"],
];

const SPECIAL = RANGES.map(([text, kind]) => {
  const network = parseNetwork(text);
  if (network === undefined) throw new TypeError(`No network: ${text}`);
  return { network, kind };
});
