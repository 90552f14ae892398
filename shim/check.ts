import { ENVELOPE_DOMAIN, MAX_ENVELOPE_TTL_SECONDS, signedBytesV1 } from "@gateway/shared/envelope";
import { parseStandardJson } from "@gateway/shared/json";

/** What an envelope of format v1 says, before anybody has asked whether it is true. */
interface OpenedEnvelope {
  readonly nonce: string;
  readonly host: string;
  readonly command: string;
  /** As it is written: decimal digits. */
  readonly expiry: string;
  readonly signature: Uint8Array<ArrayBuffer>;
}

/** Whether a signature of the bytes is of a pinned key. */
export type VerifySignature = (
  data: Uint8Array<ArrayBuffer>,
  signature: Uint8Array<ArrayBuffer>,
) => Promise<boolean>;

/** What is to be done about an envelope. */
type Check =
  | {
    /** To be run once its nonce is claimed. */
    readonly kind: "good";
    readonly nonce: string;
    readonly command: string;
  }
  | { readonly kind: "refused"; readonly reason: string };

/** What an envelope is checked against. */
interface CheckOptions {
  readonly host: string;
  readonly verify: VerifySignature;
  /** In milliseconds since the epoch. */
  readonly now: number;
}

// Each character can be read in one way only: what does not fit is found out in linear time.
const STRING = String.raw`"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"`;
/** The one way in which a signer writes it, so that no member can be there twice or mean two things. */
const ENVELOPE = new RegExp(
  String
    .raw`^\{"n":(${STRING}),"h":(${STRING}),"c":(${STRING}),"e":(0|[1-9]\d*),"s":"([A-Za-z0-9+/]{86}==)"\}$`,
);
const NONCE = /^[0-9a-f]{16,64}$/;
/** The name of a sealed host, as the signer's config allows it. */
const HOST = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** Whether an argument can be the name of a sealed host. */
export function isHostName(text: string): boolean {
  return HOST.test(text);
}

/** Takes an envelope apart; `undefined` when it is none. */
export function openEnvelope(wire: string): OpenedEnvelope | undefined {
  const text = decodeText(wire);
  const [, nonce, host, command, expiry, signature] = ENVELOPE.exec(text ?? "") ?? [];
  if (nonce === undefined || host === undefined || command === undefined) return undefined;
  if (expiry === undefined || signature === undefined) return undefined;
  const [nonceText, hostText, commandText] = [nonce, host, command].map(decodeString);
  if (nonceText === undefined || hostText === undefined || commandText === undefined) return undefined;
  return {
    nonce: nonceText,
    host: hostText,
    command: commandText,
    expiry,
    signature: Uint8Array.fromBase64(signature),
  };
}

/**
 * Checks an envelope, in the order of the specification: who signed it is said before anything that it holds. The
 * claim of its nonce is left to the caller.
 */
export async function checkEnvelope(wire: string, { host, verify, now }: CheckOptions): Promise<Check> {
  const envelope = openEnvelope(wire);
  if (envelope === undefined) {
    return refused("the envelope is malformed (is the broker too old to pass envelopes on?)");
  }
  const { nonce, command, expiry, signature } = envelope;
  if (!await verify(signedBytesV1(envelope, ENVELOPE_DOMAIN), signature)) {
    return refused("the signature is not of a pinned key");
  }
  if (envelope.host !== host) return refused("the envelope is for another host");
  if (nonce === "") return refused("the envelope has no nonce");
  if (command === "") return refused("the envelope has no command");
  // The kernel ends a program's argument there, a shell drops it: either way another command would run.
  if (command.includes("\0")) return refused("the command has a NUL");
  // Whole seconds, as they are signed: in the last one it is still good.
  const left = Number(expiry) - Math.floor(now / 1000);
  if (left < 0) return refused("the envelope has expired");
  if (left > MAX_ENVELOPE_TTL_SECONDS) {
    return refused("the envelope expires too far in the future: does a clock go wrong?");
  }
  if (!NONCE.test(nonce)) return refused("the nonce is malformed");
  return { kind: "good", nonce, command };
}

function refused(reason: string): Check {
  return { kind: "refused", reason };
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

/** What a string of JSON means; `undefined` when it is none, or not well formed and so could not have been signed. */
function decodeString(literal: string): string | undefined {
  try {
    const value = parseStandardJson(literal);
    return typeof value === "string" && value.isWellFormed() ? value : undefined;
  } catch {
    return undefined;
  }
}
