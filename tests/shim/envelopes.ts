/**
 * Envelopes that the signer would never create. The test key signs any content, even if it is invalid.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import {
  createEnvelopeKey,
  ENVELOPE_DOMAIN,
  ENVELOPE_NAMESPACES,
  type EnvelopeKey,
} from "@gateway/shared/envelope";
import { signSshsig } from "../../shared/ssh/keys.ts";

/** The fields of an envelope as text. */
export interface EnvelopeFields {
  readonly nonce: string;
  readonly host: string;
  readonly command: string;
  readonly expiry: string;
  /** Only in format v3; `none` when absent. */
  readonly stdin?: string;
}

/** The key whose seed is 32 times the same byte. */
export function envelopeKey(byte: number): EnvelopeKey {
  return createEnvelopeKey(new Uint8Array(32).fill(byte));
}

/** An envelope of format v2 around any message, or of format v3 without the prefix of v3. */
export function sealMessage(
  message: string | Buffer,
  key: EnvelopeKey,
  namespace: string = ENVELOPE_NAMESPACES.v2,
): string {
  const bytes = Buffer.from(message);
  const signature = Buffer.from(signSshsig(key.ssh, namespace, bytes));
  return `${bytes.toString("base64url")}.${signature.toString("base64url")}`;
}

export function sealV2({ nonce, host, expiry, command }: EnvelopeFields, key: EnvelopeKey): string {
  return sealMessage([nonce, host, expiry, command].join("\n"), key);
}

export function sealV3(
  { nonce, host, expiry, stdin = "none", command }: EnvelopeFields,
  key: EnvelopeKey,
): string {
  const message = [nonce, host, expiry, stdin, command].join("\n");
  return `v3.${sealMessage(message, key, ENVELOPE_NAMESPACES.v3)}`;
}

/** The members of the JSON of format v1 in order, each in its JSON notation. */
export function membersV1(
  fields: EnvelopeFields,
  key: EnvelopeKey,
  domain: string = ENVELOPE_DOMAIN,
): readonly (readonly [string, string])[] {
  const { nonce, host, command, expiry } = fields;
  const parts = [nonce, host, command, expiry].flatMap((part) => {
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(Buffer.byteLength(part)));
    return [length, Buffer.from(part)];
  });
  const signature = key.sign(Buffer.concat([Buffer.from(`${domain}\0`), ...parts])).toBase64();
  return [
    ["n", JSON.stringify(nonce)],
    ["h", JSON.stringify(host)],
    ["c", JSON.stringify(command)],
    ["e", expiry],
    ["s", JSON.stringify(signature)],
  ];
}

/** The wire form of any members, possibly in another order or repeated. */
export function sealMembers(members: readonly (readonly [string, string])[]): string {
  const json = `{${members.map(([name, value]) => `"${name}":${value}`).join(",")}}`;
  return Buffer.from(json).toString("base64url");
}

export function sealV1(fields: EnvelopeFields, key: EnvelopeKey, domain?: string): string {
  return sealMembers(membersV1(fields, key, domain));
}
