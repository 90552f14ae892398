const REPLACEMENT = [0xef, 0xbf, 0xbd] as const;

/**
 * The output of a remote command as text: UTF-8, with one U+FFFD for each byte that is not part of a valid
 * sequence. (`TextDecoder` alone gives one for each broken sequence, so the text's length would say less about
 * what the host sent.) A byte order mark is kept.
 */
export function outputText(bytes: Uint8Array): string {
  let repaired: Uint8Array | undefined;
  let used = 0;
  let copied = 0;
  for (let at = 0; at < bytes.length;) {
    const length = sequenceLength(bytes, at);
    if (length > 0) {
      at += length;
      continue;
    }
    repaired ??= new Uint8Array(at + (bytes.length - at) * REPLACEMENT.length);
    repaired.set(bytes.subarray(copied, at), used);
    used += at - copied;
    repaired.set(REPLACEMENT, used);
    used += REPLACEMENT.length;
    at += 1;
    copied = at;
  }
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  if (repaired === undefined) return decoder.decode(bytes);
  repaired.set(bytes.subarray(copied), used);
  return decoder.decode(repaired.subarray(0, used + bytes.length - copied));
}

/** The length of the valid sequence that starts here (RFC 3629 section 4), 0 when there is none. */
function sequenceLength(bytes: Uint8Array, at: number): number {
  const first = byteAt(bytes, at);
  if (first < 0x80) return 1;
  const second = byteAt(bytes, at + 1);
  if (first >= 0xc2 && first <= 0xdf) return isTail(second) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const low = first === 0xe0 ? 0xa0 : 0x80;
    const high = first === 0xed ? 0x9f : 0xbf;
    return second >= low && second <= high && isTail(byteAt(bytes, at + 2)) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const low = first === 0xf0 ? 0x90 : 0x80;
    const high = first === 0xf4 ? 0x8f : 0xbf;
    const valid = second >= low && second <= high && isTail(byteAt(bytes, at + 2)) &&
      isTail(byteAt(bytes, at + 3));
    return valid ? 4 : 0;
  }
  return 0;
}

/** The byte there, or 0, which is not part of a longer sequence, past the end. */
function byteAt(bytes: Uint8Array, at: number): number {
  return bytes[at] ?? 0;
}

function isTail(byte: number): boolean {
  return byte >= 0x80 && byte <= 0xbf;
}
