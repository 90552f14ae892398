import { concatBytes } from "@gateway/shared/text";

/** The part of DER (X.690) that a certificate bundle needs. */

export function encodeDer(tag: number, ...contents: readonly Uint8Array[]): Uint8Array {
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
