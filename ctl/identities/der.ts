import { concatBytes } from "@gateway/shared/text";
import ipaddr from "ipaddr.js";

/** The parts of DER (X.690) that a certificate bundle needs. */

function encodeDer(tag: number, ...contents: readonly Uint8Array[]): Uint8Array {
  const content = concatBytes(contents);
  return concatBytes([Uint8Array.of(tag, ...encodeLength(content.length)), content]);
}

export const sequence = (...elements: readonly Uint8Array[]) => encodeDer(0x30, ...elements);

/** SET OF, in the order of DER: by the elements' bytes. */
export const setOf = (...elements: readonly Uint8Array[]) =>
  encodeDer(0x31, ...elements.toSorted((left, right) => left.toHex() < right.toHex() ? -1 : 1));

export const octetString = (content: Uint8Array) => encodeDer(0x04, content);

/** INTEGER, not negative. */
export function integer(value: number): Uint8Array {
  const bytes = encodeUnsigned(value);
  return encodeDer(0x02, (bytes[0] ?? 0) < 0x80 ? bytes : concatBytes([Uint8Array.of(0), bytes]));
}

/** OBJECT IDENTIFIER, from `1.2.840.113549`. */
export function objectIdentifier(text: string): Uint8Array {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  return encodeDer(0x06, Uint8Array.from([first * 40 + second, ...rest].flatMap(encodeBase128)));
}

/** BMPString: UTF-16, big endian. */
export const bmpString = (text: string) => encodeDer(0x1e, encodeBmp(text));

/** The bytes of a BMPString. */
export function encodeBmp(text: string): Uint8Array {
  const units = Array.from({ length: text.length }, (_, index) => text.charCodeAt(index));
  return Uint8Array.from(units.flatMap((unit) => [unit >> 8, unit & 0xff]));
}

export const NULL: Uint8Array = Uint8Array.of(0x05, 0x00);

/** An EXPLICIT tag around a value. */
export const explicit = (number: number, value: Uint8Array) => encodeDer(0xa0 + number, value);

function encodeLength(length: number): readonly number[] {
  if (length < 0x80) return [length];
  const bytes = encodeUnsigned(length);
  return [0x80 | bytes.length, ...bytes];
}

function encodeUnsigned(value: number): Uint8Array {
  const hex = value.toString(16);
  return Uint8Array.fromHex(hex.length % 2 === 0 ? hex : `0${hex}`);
}

function encodeBase128(value: number): readonly number[] {
  const groups = [value & 0x7f];
  for (let rest = value >>> 7; rest > 0; rest >>>= 7) groups.unshift(0x80 | (rest & 0x7f));
  return groups;
}

/**
 * The names and addresses for which a CA can issue certificates (RFC 5280 section 4.2.1.10): a browser trusts it for no
 * other site. They include the loopback interface: localhost, 127.0.0.0/8 and ::1.
 */

const [DNS, IP, PERMITTED] = [0x82, 0x87, 0xa0];
const LOOPBACK_V4 = Uint8Array.of(127, 0, 0, 0, 0xff, 0, 0, 0);
const LOOPBACK_V6 = Uint8Array.from([...new Uint8Array(15), 1, ...new Uint8Array(16).fill(0xff)]);

/** The extension's value, with further names; a DNS name includes its subdomains. */
export function encodeNameConstraints(names: readonly string[]): Uint8Array {
  const dns = (name: string) => encodeDer(DNS, new TextEncoder().encode(name));
  const permitted = [
    dns("localhost"),
    encodeDer(IP, LOOPBACK_V4),
    encodeDer(IP, LOOPBACK_V6),
    ...names.map((name) => {
      const address = addressBytes(name);
      if (address === undefined) return dns(name.toLowerCase());
      return encodeDer(IP, address, new Uint8Array(address.length).fill(0xff));
    }),
  ];
  return sequence(encodeDer(PERMITTED, ...permitted.map((name) => sequence(name))));
}

/** Checks if a CA with such an extension can issue certificates for a name or an address. */
export function permits(extension: Uint8Array, name: string): boolean {
  const content = readAll(extension)[0]?.content ?? new Uint8Array();
  const subtrees = readAll(content).filter(({ tag }) => tag === PERMITTED)
    .flatMap(({ content }) => readAll(content)).flatMap(({ content }) => readAll(content).slice(0, 1));
  const valuesOf = (wanted: number) =>
    subtrees.filter(({ tag }) => tag === wanted).map(({ content }) => content);
  const address = addressBytes(name);
  if (address !== undefined) {
    const nets = valuesOf(IP);
    return nets.length === 0 || nets.some((net) => isInside(address, net));
  }
  const domains = valuesOf(DNS).map((bytes) => new TextDecoder().decode(bytes));
  const wanted = name.toLowerCase();
  return domains.length === 0 ||
    domains.some((domain) => wanted === domain || wanted.endsWith(`.${domain}`));
}

/** The values in a sequence of DER encodings. */
function readAll(der: Uint8Array) {
  const values: { readonly tag: number; readonly content: Uint8Array }[] = [];
  for (let at = 0; at < der.length;) {
    const [tag = 0, first = 0] = der.subarray(at);
    const size = first < 0x80 ? 0 : first & 0x7f;
    const length = size === 0
      ? first
      : der.subarray(at + 2, at + 2 + size).reduce((sum, byte) => sum * 256 + byte, 0);
    const start = at + 2 + size;
    at = start + length;
    if (at > der.length) throw new RangeError("a DER value is longer than its container");
    values.push({ tag, content: der.subarray(start, at) });
  }
  return values;
}

/** @param net an address and a mask */
function isInside(address: Uint8Array, net: Uint8Array): boolean {
  const size = address.length;
  if (net.length !== size * 2) return false;
  return address.every((byte, index) =>
    (byte & (net[size + index] ?? 0)) === ((net[index] ?? 0) & (net[size + index] ?? 0))
  );
}

function addressBytes(text: string): Uint8Array | undefined {
  return ipaddr.isValid(text) && /[.:]/.test(text)
    ? Uint8Array.from(ipaddr.parse(text).toByteArray())
    : undefined;
}
