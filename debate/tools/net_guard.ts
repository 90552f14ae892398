/**
 * A model that has read hostile text may request any URL, for example to send the text of a log to a server of an
 * attacker. All hosts are therefore rejected unless the operator has listed them.
 */
import { AppError } from "@gateway/shared/errors";
import ipaddr from "ipaddr.js";
import { isIP } from "node:net";

export interface AllowList {
  readonly hosts: ReadonlySet<string>;
  readonly networks: readonly Network[];
  /** Whether the list contains `public`. */
  readonly hasPublic: boolean;
}

/** The kinds of addresses to which a listed host name may resolve. The owner of its DNS zone can return any address. */
const BEHIND_NAMES: readonly AddressKind[] = ["public", "loopback", "private", "carrier"];

/**
 * Reads `HTTP_ALLOWED_HOSTS`. An entry is a host name, an address, a network as `address/prefix`, or `public` for all
 * addresses of the public Internet.
 */
export function compileAllowList(entries: readonly string[]): AllowList {
  const hosts = new Set<string>();
  const networks: Network[] = [];
  const problems: string[] = [];
  for (const entry of entries) {
    const network = parseNetwork(entry.replace(/^\[(.*)\]$/, "$1"));
    const host = normalizeHost(entry);
    if (network !== undefined) networks.push(network);
    else if (/^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?$/.test(host) && !/^[\d.]+$/.test(host)) {
      hosts.add(host);
    } else problems.push(`HTTP_ALLOWED_HOSTS: "${entry}" is not a host name, an address or a network`);
  }
  if (problems.length > 0) throw new AppError("invalid_config", problems.join("\n"));
  return { hosts, networks, hasPublic: hosts.delete("public") };
}

/** Whether a host may be allowed, depending on its addresses. */
export function mayResolve(host: string, { hosts, hasPublic }: AllowList): boolean {
  const isName = isIP(host.replace(/^\[(.*)\]$/, "$1")) === 0;
  return !isName || hasPublic || hosts.has(normalizeHost(host));
}

/** The list for a host that a person has approved: all addresses of the public Internet, and no others. */
export const PUBLIC_ONLY: AllowList = { hosts: new Set(), networks: [], hasPublic: true };

/**
 * Whether an approval can allow a host: a public address, or a name that may be public, that the list does not allow.
 * A name without a dot belongs to the own network.
 */
export function isApprovable(host: string, list: AllowList): boolean {
  const address = host.replace(/^\[(.*)\]$/, "$1");
  if (isIP(address) === 0) return !mayResolve(host, list) && normalizeHost(host).includes(".");
  return vet(host, [address], list)?.addressKind === "public";
}

/**
 * Returns the first rejected address and its kind, or `undefined` if all addresses are allowed.
 *
 * @param host as in the URL
 * @param addresses the results of its resolution; the connection goes to one of them
 */
export function vet(host: string, addresses: readonly string[], list: AllowList) {
  if (addresses.length === 0) return { address: "none", addressKind: "no" };
  const isListed = list.hosts.has(normalizeHost(host));
  for (const text of addresses) {
    const address = parseAddress(text);
    if (address === undefined) return { address: text, addressKind: "no" };
    const kind = classify(address);
    const inNetwork = list.networks.some((network) =>
      isInside(address, network) && (kind !== "metadata" || isSingle(network))
    );
    const isAllowed = (kind === "public" && list.hasPublic) || inNetwork ||
      (isListed && BEHIND_NAMES.includes(kind));
    if (!isAllowed) return { address: text, addressKind: kind };
  }
  return undefined;
}

function normalizeHost(host: string): string {
  return host.toLowerCase().replace(/\.$/, "");
}

/**
 * `ipaddr.js` knows IANA's special-purpose registries. A comparison of 200,000 addresses, including both ends of
 * every registered range, showed that only the additions below are missing.
 */

/** `public` addresses belong to servers on the Internet. */
type AddressKind = (typeof KINDS)[keyof typeof KINDS] | "metadata" | "reserved";

type Address = ipaddr.IPv4 | ipaddr.IPv6;

interface Network {
  readonly address: Address;
  readonly prefix: number;
}

/** Reads an address without a zone. An IPv4 address that is embedded in an IPv6 address is read as IPv4. */
export function parseAddress(text: string): Address | undefined {
  // The library also accepts `127.1` and `0x7f000001`, which only some resolvers understand.
  if (isIP(text) === 0 || text.includes("%")) return undefined;
  const address = ipaddr.parse(text);
  // With an IPv4-mapped or NAT64 address (RFC 6052), the connection reaches the IPv4 address.
  const isWrapped = ["ipv4Mapped", "rfc6052"].includes(address.range());
  return isWrapped ? new ipaddr.IPv4(address.toByteArray().slice(-4)) : address;
}

function parseNetwork(text: string): Network | undefined {
  const [, base = "", length] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const address = parseAddress(base);
  if (address === undefined) return undefined;
  const bits = bitsOf(address);
  const prefix = length === undefined ? bits : Number(length);
  return prefix <= bits ? { address, prefix } : undefined;
}

function isInside(address: Address, network: Network): boolean {
  // The types of the library cannot express that both are of the same kind.
  return address.kind() === network.address.kind() && address.match(network.address, network.prefix);
}

function isSingle({ address, prefix }: Network): boolean {
  return prefix === bitsOf(address);
}

function classify(address: Address): AddressKind {
  if (METADATA.some((network) => isInside(address, network))) return "metadata";
  const kinds: Readonly<Record<string, AddressKind>> = KINDS;
  const kind = kinds[address.range()] ?? "reserved";
  // Only 2000::/3 of IPv6 is allocated.
  return kind === "public" && address.kind() === "ipv6" && !isInside(address, GLOBAL) ? "reserved" : kind;
}

function bitsOf(address: Address): 32 | 128 {
  return address.kind() === "ipv4" ? 32 : 128;
}

/** Kinds by the library's names of ranges. All other ranges are reserved. */
const KINDS = {
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
} as const;

const GLOBAL = network("2000::/3");

/** Cloud metadata services. Their addresses are link-local, private, carrier or public. */
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
