/**
 * The critical options and extensions inside a certificate (PROTOCOL.certkeys): pairs of name and data in the
 * order of their names. A value is a `string` inside the data; an option without a value has empty data.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { encodeOptions, flagOptions } from "@gateway/shared/ssh/certificate_options";
 *
 * assert.equal(encodeOptions(flagOptions(["permit-pty"])).length, 4 + 10 + 4);
 * ```
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { AppError } from "../errors.ts";
import { SshReader, SshWriter } from "./wire_format.ts";

/** Data by name. */
export type OptionData = ReadonlyMap<string, Uint8Array>;

/** Options that mean nothing without a value. sshd refuses a certificate where it is missing. */
const NEEDS_VALUE: readonly string[] = ["force-command", "source-address"];

const encoder = new TextEncoder();

/**
 * Data for options with values; `""` gives an option without one.
 *
 * @throws {AppError} `invalid_request` when a value has a NUL
 * @throws {TypeError} when an option that needs a value has none
 */
export function textOptions(options: Readonly<Record<string, string>>): OptionData {
  const data = new Map<string, Uint8Array>();
  for (const [name, value] of Object.entries(options)) {
    if (value === "" && NEEDS_VALUE.includes(name)) throw new TypeError(`Option ${name} needs a value`);
    if (value.includes("\0")) {
      throw new AppError("invalid_request", `Cannot make certificate: ${name} has a NUL`);
    }
    data.set(name, value === "" ? new Uint8Array(0) : new SshWriter().text(value).bytes());
  }
  return data;
}

/**
 * Data for options without values.
 *
 * @throws {TypeError} when one is named twice
 */
export function flagOptions(names: readonly string[]): OptionData {
  const data = new Map(names.map((name) => [name, new Uint8Array(0)]));
  if (data.size !== names.length) throw new TypeError("An extension is named twice");
  return data;
}

/** The inside of the field, in the order of the names. */
export function encodeOptions(options: OptionData): Uint8Array<ArrayBuffer> {
  const writer = new SshWriter();
  const sorted = [...options].map(([name, data]) => ({ name: encoder.encode(name), data }))
    .sort((a, b) => Buffer.compare(a.name, b.name));
  for (const { name, data } of sorted) writer.string(name).string(data);
  return writer.bytes();
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
