/**
 * HTTP Basic authentication (RFC 7617) with one pair of credentials.
 *
 * @module
 */
import { createHash, timingSafeEqual } from "node:crypto";

/** Whether the value of an `Authorization` header is right. */
export type CheckCredentials = (authorization: string | null) => boolean;

/** What an answer of status 401 asks for. */
export const CHALLENGE = 'Basic realm="debate", charset="UTF-8"';

/** Checks in a time that tells nothing about the credentials. */
export function createCheck(username: string, password: string): CheckCredentials {
  const expected = digest(new TextEncoder().encode(`${username}:${password}`));
  return (authorization) => {
    const [, encoded] = /^Basic +([A-Za-z0-9+/_=-]+) *$/i.exec(authorization ?? "") ?? [];
    const given = encoded === undefined ? undefined : decode(encoded);
    return timingSafeEqual(digest(given ?? new Uint8Array()), expected) && given !== undefined;
  };
}

function decode(encoded: string): Uint8Array | undefined {
  try {
    return Uint8Array.fromBase64(encoded);
  } catch {
    return undefined;
  }
}

function digest(bytes: Uint8Array): Uint8Array {
  return createHash("sha256").update(bytes).digest();
}
