/**
 * Entity tags (RFC 9110 section 8.8.3): an answer that the client still has is not sent again.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { entityTagOf, namesEntityTag } from "@gateway/shared/http";
 *
 * const tag = entityTagOf('{"web01":{}}');
 * assert.equal(namesEntityTag(`W/"other", ${tag}`, tag), true);
 * assert.equal(namesEntityTag(tag, entityTagOf("{}")), false);
 * ```
 *
 * @module
 */
import { createHash } from "node:crypto";

// Without tabs and what is beyond ASCII, both allowed in a list: what is passed on is a plain header value.
const TAG = /^"[\x21\x23-\x7e]{1,128}"$/;
const LIST = /^(?:\*|(?:W\/)?"[\x21\x23-\x7e]*"(?: *, *(?:W\/)?"[\x21\x23-\x7e]*")*)$/;
const MEMBERS = /"[\x21\x23-\x7e]*"/g;

/** The tag of exactly this text, quotes included: the SHA-256 of its UTF-8, so that no two texts share one. */
export function entityTagOf(text: string): string {
  return `"${createHash("sha256").update(text).digest("base64url")}"`;
}

/** Whether a header's value is one tag that stands for exact bytes, and short enough to be kept. */
export function isStrongEntityTag(value: string | undefined): value is string {
  return value !== undefined && TAG.test(value);
}

/** The value of an `If-None-Match` header as it can be passed on; `undefined` for one that can't be understood. */
export function readIfNoneMatch(value: string | null): string | undefined {
  return value !== null && LIST.test(value) ? value : undefined;
}

/** Whether a client that sent this `If-None-Match` has what the tag stands for. */
export function namesEntityTag(ifNoneMatch: string | null, tag: string): boolean {
  const list = readIfNoneMatch(ifNoneMatch);
  if (list === undefined) return false;
  return list === "*" || list.match(MEMBERS)?.includes(tag) === true;
}
