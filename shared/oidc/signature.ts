/**
 * The signature of a token (RFC 7515).
 *
 * @module
 */
import { compactVerify, type CryptoKey, errors } from "@panva/jose";
import { AppError } from "../errors.ts";
import { refuse, type RefusedToken } from "./claims.ts";
import type { FindKey, KeySet } from "./key_set.ts";

/** A token whose signature is the issuer's. */
export interface SignedToken {
  readonly kind: "signed";
  /** The bytes that were signed. */
  readonly payload: Uint8Array;
}

/** With what a signature is checked. */
export interface SignatureCheck {
  readonly keys: KeySet;
  readonly algorithms: readonly string[];
  /** Whether the token says which key it was signed with. */
  readonly namesKey: boolean;
}

interface Refusal extends RefusedToken {
  /** Whether keys that the issuer has made meanwhile could change the answer. */
  readonly isKeyMissing: boolean;
}

/** Checks the signature of a token; looks for newer keys once when none of the known ones fits. */
export async function verifySignature(
  token: string,
  check: SignatureCheck,
): Promise<SignedToken | RefusedToken> {
  try {
    const result = await tryKeys(token, await check.keys.current(), check);
    if (result.kind === "signed" || !result.isKeyMissing) return result;
    const newer = await check.keys.newer();
    return newer === undefined ? result : await tryKeys(token, newer, check);
  } catch (error) {
    if (error instanceof AppError) return refuse(error.message);
    throw error;
  }
}

async function tryKeys(
  token: string,
  findKey: FindKey,
  check: SignatureCheck,
): Promise<SignedToken | Refusal> {
  const options = { algorithms: [...check.algorithms] };
  const attempt = async (key: FindKey | CryptoKey): Promise<SignedToken> => {
    const { payload } = typeof key === "function"
      ? await compactVerify(token, key, options)
      : await compactVerify(token, key, options);
    return { kind: "signed", payload };
  };
  let failure: unknown;
  try {
    return await attempt(findKey);
  } catch (error) {
    failure = error;
  }
  if (failure instanceof errors.JWKSMultipleMatchingKeys) {
    // A token that does not say which of several keys it was signed with.
    for await (const key of failure) {
      try {
        return await attempt(key);
      } catch (error) {
        failure = error;
      }
    }
  }
  return explain(failure, check.namesKey);
}

/** The messages of the library are not passed on: what they quote of the token is up to it. */
function explain(error: unknown, namesKey: boolean): Refusal {
  const refusal = (reason: string, isKeyMissing = false) => ({ ...refuse(reason), isKeyMissing });
  if (error instanceof errors.JOSEAlgNotAllowed) return refusal("signature algorithm not allowed");
  if (error instanceof errors.JWKSNoMatchingKey) return refusal("no key of the issuer fits the token", true);
  // A token that names its key was signed with that one or not at all.
  if (error instanceof errors.JWSSignatureVerificationFailed) {
    return refusal("signature does not verify", !namesKey);
  }
  if (error instanceof errors.JOSEError) return refusal("token malformed");
  // What is left is a key that the platform does not take: RSA that is too short, a point beside its curve.
  return refusal("the issuer's key cannot be used", true);
}
