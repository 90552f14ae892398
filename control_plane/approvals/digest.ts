import { createHash } from "node:crypto";

/**
 * 43 characters that stand for a text of any length, and for no other. Lone surrogates count: they are
 * escaped first, where encoding them as UTF-8 would make them all one.
 */
export function digestOf(text: string): string {
  return createHash("sha256").update(JSON.stringify(text)).digest("base64url");
}

/** SHA-256 of a text as UTF-8, 64 lowercase hex digits, as other programs compute it. */
export function sha256Of(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
