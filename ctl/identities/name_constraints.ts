import ipaddr from "ipaddr.js";
import { encodeDer, implicit, sequence } from "./der.ts";

/**
 * Which names and addresses a CA may vouch for (RFC 5280 section 4.2.1.10): a browser that trusts it believes it about
 * no other site. Always those of the loopback interface: localhost, 127.0.0.0/8 and ::1.
 */

const [DNS, IP, PERMITTED] = [0x82, 0x87, 0xa0];
const LOOPBACK_V4 = Uint8Array.of(127, 0, 0, 0, 0xff, 0, 0, 0);
const LOOPBACK_V6 = Uint8Array.from([...new Uint8Array(15), 1, ...new Uint8Array(16).fill(0xff)]);

/** The extension's value, with further names; a DNS name stands for those below it as well. */
export function encodeNameConstraints(names: readonly string[]): Uint8Array {
  const permitted = [
    implicit(DNS & 0x1f, "localhost"),
    implicit(IP & 0x1f, LOOPBACK_V4),
    implicit(IP & 0x1f, LOOPBACK_V6),
    ...names.map((name) => {
      const address = addressBytes(name);
      if (address === undefined) return implicit(DNS & 0x1f, name.toLowerCase());
      const mask = new Uint8Array(address.length).fill(0xff);
      return implicit(IP & 0x1f, Uint8Array.from([...address, ...mask]));
    }),
  ];
  return sequence(encodeDer(PERMITTED, ...permitted.map((name) => sequence(name))));
}

/** Whether a CA with such an extension may vouch for a name or an address. */
export function permits(extension: Uint8Array, name: string): boolean {
  const subtrees = readAll(contentOf(extension)).filter(({ tag }) => tag === PERMITTED)
    .flatMap(({ content }) => readAll(content)).flatMap(({ content }) => readAll(content).slice(0, 1));
  const address = addressBytes(name);
  if (address !== undefined) {
    const nets = subtrees.filter(({ tag }) => tag === IP);
    return nets.length === 0 || nets.some(({ content }) => isInside(address, content));
  }
  const domains = subtrees.filter(({ tag }) => tag === DNS).map(({ content }) =>
    new TextDecoder().decode(content)
  );
  const wanted = name.toLowerCase();
  return domains.length === 0 ||
    domains.some((domain) => wanted === domain || wanted.endsWith(`.${domain}`));
}

interface Value {
  readonly tag: number;
  readonly content: Uint8Array;
}

function contentOf(der: Uint8Array): Uint8Array {
  return readAll(der)[0]?.content ?? new Uint8Array();
}

/** The values that follow each other. @throws {RangeError} for what is no DER */
function readAll(der: Uint8Array): readonly Value[] {
  const values: Value[] = [];
  for (let at = 0; at < der.length;) {
    const [tag = 0, first = 0] = der.subarray(at);
    const size = first < 0x80 ? 0 : first & 0x7f;
    const length = size === 0
      ? first
      : der.subarray(at + 2, at + 2 + size).reduce((sum, byte) => sum * 256 + byte, 0);
    const start = at + 2 + size;
    at = start + length;
    if (at > der.length) throw new RangeError("a value that is longer than what holds it");
    values.push({ tag, content: der.subarray(start, at) });
  }
  return values;
}

/** @param net an address and its mask */
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
