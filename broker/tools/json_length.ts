/** How many bytes a text takes as a JSON string, without its quotes. No lone surrogates, which would be escaped. */
export function jsonLength(text: string): number {
  let length = 0;
  for (let index = 0; index < text.length; index += 1) length += jsonCost(text.charCodeAt(index));
  return length;
}

/** The longest start of a text that takes no more than so many bytes as a JSON string. */
export function jsonStart(text: string, maxLength: number): string {
  let length = 0;
  let end = 0;
  while (end < text.length) {
    length += jsonCost(text.charCodeAt(end));
    if (length > maxLength) break;
    end += 1;
  }
  return text.slice(0, isLowSurrogate(text, end) ? end - 1 : end);
}

/** The longest end of a text that takes no more than so many bytes as a JSON string. */
export function jsonEnd(text: string, maxLength: number): string {
  let length = 0;
  let start = text.length;
  while (start > 0) {
    length += jsonCost(text.charCodeAt(start - 1));
    if (length > maxLength) break;
    start -= 1;
  }
  return text.slice(isLowSurrogate(text, start) ? start + 1 : start);
}

/** Of one UTF-16 unit; each half of a pair stands for half of its character. */
function jsonCost(unit: number): number {
  if (unit < 0x20) return SHORT_ESCAPES.has(unit) ? 2 : 6;
  if (unit < 0x80) return unit === 0x22 || unit === 0x5c ? 2 : 1;
  if (unit < 0x800) return 2;
  return unit >= 0xd800 && unit <= 0xdfff ? 2 : 3;
}

/** Backspace, tab, line feed, form feed, carriage return. */
const SHORT_ESCAPES: ReadonlySet<number> = new Set([0x08, 0x09, 0x0a, 0x0c, 0x0d]);

/** Whether a character would be cut in two there. */
function isLowSurrogate(text: string, index: number): boolean {
  const unit = text.charCodeAt(index);
  return index > 0 && unit >= 0xdc00 && unit <= 0xdfff;
}
