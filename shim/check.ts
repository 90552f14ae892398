import { ENVELOPE_DOMAIN, MAX_ENVELOPE_TTL_SECONDS, signedBytesV1 } from "@gateway/shared/envelope";
import { parseStandardJson } from "@gateway/shared/json";

/** A rejection, with a reason for the broker and the operator. */
export class Refusal extends Error {}

// Each character can be read in one way only, so a text that does not match is rejected in linear time.
const STRING = String.raw`"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"`;
/**
 * The only accepted form of an envelope, exactly as a signer writes it. No member can appear twice or have
 * two meanings.
 */
const ENVELOPE = new RegExp(
  String
    .raw`^\{"n":(${STRING}),"h":(${STRING}),"c":(${STRING}),"e":(0|[1-9]\d*),"s":"([A-Za-z0-9+/]{86}==)"\}$`,
);
const NONCE = /^[0-9a-f]{16,64}$/;
/** The name of a sealed host, as the signer's config allows it. */
const HOST = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
export const MALFORMED = "the envelope is malformed (is the broker too old to pass envelopes on?)";

export function isHostName(text: string): boolean {
  return HOST.test(text);
}

/** Reads an envelope of format v1 without checking its signature. `undefined`: the text is not an envelope. */
export function openEnvelope(wire: string) {
  const [, ...fields] = ENVELOPE.exec(decodeText(wire) ?? "") ?? [];
  const [nonce, host, command] = fields.slice(0, 3).map(decodeString);
  const [expiry, signature] = fields.slice(3);
  if (nonce === undefined || host === undefined || command === undefined) return undefined;
  if (expiry === undefined || signature === undefined) return undefined;
  // The expiry stays a text of decimal digits, because the signature covers these digits.
  return { nonce, host, command, expiry, signature: Uint8Array.fromBase64(signature) };
}

/**
 * Checks an envelope in the order of the specification: a wrong signature is reported before any content. The caller
 * must claim the nonce.
 * @param options `verify` reports whether a pinned key signed the bytes; `now` is in milliseconds since the epoch
 * @throws {Refusal}
 */
export async function checkEnvelope(
  wire: string,
  { host, verify, now }: {
    readonly host: string;
    readonly verify: (data: Uint8Array<ArrayBuffer>, signature: Uint8Array<ArrayBuffer>) => Promise<boolean>;
    readonly now: number;
  },
): Promise<{ readonly nonce: string; readonly command: string }> {
  const envelope = openEnvelope(wire);
  if (envelope === undefined) throw new Refusal(MALFORMED);
  const { nonce, command, expiry, signature } = envelope;
  if (!await verify(signedBytesV1(envelope, ENVELOPE_DOMAIN), signature)) {
    throw new Refusal("the signature is not of a pinned key");
  }
  // The signature covers the expiry in whole seconds. The envelope is still valid in its last second.
  const left = Number(expiry) - Math.floor(now / 1000);
  const faults: readonly (readonly [boolean, string])[] = [
    [envelope.host !== host, "the envelope is for another host"],
    [nonce === "", "the envelope has no nonce"],
    [command === "", "the envelope has no command"],
    // The kernel truncates an argument at a NUL, and a shell drops the NUL, so another command would run.
    [command.includes("\0"), "the command has a NUL"],
    [left < 0, "the envelope has expired"],
    [
      left > MAX_ENVELOPE_TTL_SECONDS,
      "the envelope expires too far in the future: does a clock go wrong?",
    ],
    [!NONCE.test(nonce), "the nonce is malformed"],
  ];
  for (const [isFault, reason] of faults) if (isFault) throw new Refusal(reason);
  return { nonce, command };
}

function decodeText(wire: string): string | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(wire)) return undefined;
  try {
    const bytes = Uint8Array.fromBase64(wire, { alphabet: "base64url" });
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Decodes a JSON string. `undefined` for other texts, and for ill-formed text, which cannot have been signed. */
function decodeString(literal: string): string | undefined {
  try {
    const value = parseStandardJson(literal);
    return typeof value === "string" && value.isWellFormed() ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Parses a key file: standard base64 of a 32-byte Ed25519 key a line, empty lines and `#` comments. One bad line makes
 * the whole file unusable, so that an operator notices a mistake in a rotation.
 * @throws {Refusal}
 */
export function parsePinnedKeys(text: string, path: string): readonly Uint8Array<ArrayBuffer>[] {
  const keys = text.split("\n").flatMap((line, index) => {
    const word = line.trim();
    if (word === "" || word.startsWith("#")) return [];
    // fromBase64() skips spaces, which could join two keys on a line.
    if (/^[A-Za-z0-9+/]{43}=$/.test(word)) return [Uint8Array.fromBase64(word)];
    throw new Refusal(`line ${index + 1} of ${path} is not a key of the signer`);
  });
  if (keys.length === 0) throw new Refusal(`no key in ${path}`);
  return keys;
}
