/**
 * The critical options and extensions inside a certificate (PROTOCOL.certkeys): pairs of name and data in the
 * order of their names. A value is a `string` inside the data; an option without a value has empty data.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { writeFlagOptions } from "./certificate_options.ts";
 * import { SshWriter } from "@gateway/shared/ssh/wire_format";
 *
 * const writer = new SshWriter();
 * writeFlagOptions(writer, ["permit-pty"]);
 * assert.equal(writer.bytes().length, 4 + 10 + 4);
 * ```
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { AppError } from "../errors.ts";
import { SshReader, type SshWriter } from "./wire_format.ts";

/** Data by name. */
export type OptionData = ReadonlyMap<string, Uint8Array>;

/** Options that mean nothing without a value. sshd refuses a certificate where it is missing. */
const NEEDS_VALUE: readonly string[] = ["force-command", "source-address"];

const ASCII = /^[\x20-\x7e]*$/;
const encoder = new TextEncoder();

/**
 * Writes options with values, in the order of their names; `""` gives an option without one.
 *
 * @throws {AppError} `invalid_request` when a value has a NUL
 * @throws {TypeError} when an option that needs a value has none
 */
export function writeTextOptions(writer: SshWriter, options: Readonly<Record<string, string>>): void {
  for (const name of inOrder(Object.keys(options))) {
    const value = options[name] ?? "";
    if (value === "" && NEEDS_VALUE.includes(name)) throw new TypeError(`Option ${name} needs a value`);
    if (value.includes("\0")) {
      throw new AppError("invalid_request", `Cannot make certificate: ${name} has a NUL`);
    }
    writer.text(name).nested((data) => value === "" ? data : data.text(value));
  }
}

/**
 * Writes options without values, in the order of their names.
 *
 * @throws {TypeError} when one is named twice
 */
export function writeFlagOptions(writer: SshWriter, names: readonly string[]): void {
  if (new Set(names).size !== names.length) throw new TypeError("An extension is named twice");
  for (const name of inOrder(names)) writer.text(name).text("");
}

/** Names in the order of their bytes. */
function inOrder(names: readonly string[]): readonly string[] {
  return names.every((name, index) => index === 0 || compareBytes(names[index - 1] ?? "", name) <= 0)
    ? names
    : names.toSorted(compareBytes);
}

function compareBytes(a: string, b: string): number {
  // Of ASCII alone, the order of the units is that of the bytes.
  if (!ASCII.test(a) || !ASCII.test(b)) return Buffer.compare(encoder.encode(a), encoder.encode(b));
  return a === b ? 0 : a < b ? -1 : 1;
}

/** Options that were read: the raw data, and a reading of it as values. */
export interface DecodedOptions {
  readonly data: OptionData;
  /**
   * The values; `""` for an option without one.
   *
   * @throws {AppError} `invalid_request` when data is not exactly one text
   */
  texts(): Readonly<Record<string, string>>;
}

/**
 * Reads the inside of the field.
 *
 * @throws {AppError} `invalid_request` when it is malformed, an option is doubled or out of order
 */
export function decodeOptions(reader: SshReader): DecodedOptions {
  const data = new Map<string, Uint8Array>();
  let previous: Uint8Array | undefined;
  while (!reader.done) {
    const name = reader.text();
    const bytes = encoder.encode(name);
    if (previous !== undefined && Buffer.compare(previous, bytes) >= 0) {
      throw new AppError("invalid_request", "Cannot read certificate: options doubled or out of order");
    }
    previous = bytes;
    data.set(name, reader.string());
  }
  return {
    data,
    texts: () => Object.fromEntries([...data].map(([name, bytes]) => [name, readValue(name, bytes)])),
  };
}

function readValue(name: string, data: Uint8Array): string {
  const reader = new SshReader(data);
  const value = data.length === 0 ? "" : reader.text();
  reader.end();
  if (value.includes("\0") || (value === "" && NEEDS_VALUE.includes(name))) {
    throw new AppError(
      "invalid_request",
      `Cannot read certificate: malformed value of ${JSON.stringify(name)}`,
    );
  }
  return value;
}
