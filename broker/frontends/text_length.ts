/** What a value costs beside its characters: a member, an element. */
const OVERHEAD = 16;

/**
 * How many characters a JSON value has, roughly: those of its strings and names, and some for all else. As JSON
 * text it has more where characters have to be escaped, at most six times as many. Writing it to find out
 * would cost more memory than what is counted.
 */
export function textLength(value: unknown): number {
  if (typeof value === "string") return value.length + OVERHEAD;
  if (typeof value !== "object" || value === null) return OVERHEAD;
  let length = OVERHEAD;
  for (const [name, member] of Object.entries(value)) length += name.length + textLength(member);
  return length;
}
