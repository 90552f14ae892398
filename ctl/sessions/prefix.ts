import { quoteText } from "@gateway/shared/text";
import { notFound } from "../kit/output.ts";

/** The part of an ID that a table shows. */
export const SHOWN_DIGITS = 8;

/** The ID that equals a text, or the only one that begins with it. */
export function findByPrefix(ids: Iterable<string>, prefix: string, what: string): string {
  const found = [...new Set(ids)].filter((id) => id.startsWith(prefix));
  const [only] = found.includes(prefix) ? [prefix] : found;
  if (only !== undefined && (found.length === 1 || only === prefix)) return only;
  const has = found.length > 1 ? `${found.length} ${what}s have` : `no ${what} has`;
  throw notFound(`${has} the ID prefix ${quoteText(prefix)}`, undefined, `broker-ctl ${what} list --json`);
}
