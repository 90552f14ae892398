/**
 * Text that must not become a word of an audit record or a KeyId.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { isUnsafe } from "@gateway/shared/wire/unsafe_text";
 *
 * assert.equal(isUnsafe("alice"), false);
 * assert.equal(isUnsafe("x role=bastion"), true);
 * ```
 *
 * @module
 */

// deno-lint-ignore no-control-regex -- these characters are what is looked for
const UNSAFE = /[\u0000-\u0020\u007f-\u009f\u2028\u2029]/;

/** Whether a text can't stand as one word in an audit record or a KeyId: it would forge other fields there. */
export function isUnsafe(text: string): boolean {
  return UNSAFE.test(text);
}
