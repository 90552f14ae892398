import { digestOf } from "./digest.ts";

/** What shells and people take for space. `\s` would also split at a no-break space, which no shell does. */
const WORD = /[^ \t\n\v\f\r]+/;

/**
 * What of a command is compared with earlier ones: its first word, as it stands. Empty for an empty command,
 * that of a session that is opened or of a hop on the way.
 */
export function fingerprintOf(command: string): string {
  return WORD.exec(command)?.[0] ?? "";
}

const PLAIN = /^[\w./-]{1,64}$/;

/**
 * How a host or a fingerprint is remembered: an ordinary name as it is, all else as its digest. So the memory
 * for one is bounded, and what may be a secret (`TOKEN=… deploy`) is not kept for as long as the subject is.
 */
export function rememberedName(text: string): string {
  return PLAIN.test(text) ? text : `sha256:${digestOf(text)}`;
}
