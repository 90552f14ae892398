/** The key file as it is: its keys, or why it can't be used. */
type PinnedKeys =
  | {
    readonly kind: "keys";
    /** Ed25519 public keys of 32 bytes; at least one. */
    readonly keys: readonly Uint8Array<ArrayBuffer>[];
  }
  | { readonly kind: "unusable"; readonly reason: string };

const KEY_BYTES = 32;

/**
 * Parses a key file: standard base64 of 32 bytes a line, blank lines and `#` comments. One bad line makes the whole
 * file unusable, so that a mistake in a rotation is seen and not half in force.
 */
export function parsePinnedKeys(text: string, path: string): PinnedKeys {
  const keys: Uint8Array<ArrayBuffer>[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    const word = line.trim();
    if (word === "" || word.startsWith("#")) continue;
    const key = decodeKey(word);
    if (key === undefined) {
      return { kind: "unusable", reason: `line ${index + 1} of ${path} is not a key of the signer` };
    }
    keys.push(key);
  }
  return keys.length === 0 ? { kind: "unusable", reason: `no key in ${path}` } : { kind: "keys", keys };
}

function decodeKey(word: string): Uint8Array<ArrayBuffer> | undefined {
  // fromBase64() passes over blanks, which would let two keys on a line be one.
  if (!/^[A-Za-z0-9+/]{43}=$/.test(word)) return undefined;
  const key = Uint8Array.fromBase64(word);
  return key.length === KEY_BYTES ? key : undefined;
}
