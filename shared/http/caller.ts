/**
 * Who is calling: from the client certificate of a mutual TLS connection to a caller's name.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { callerFromCertificate } from "@gateway/shared/http/caller";
 *
 * assert.equal(callerFromCertificate(true, "broker-1"), "broker-1");
 * assert.equal(callerFromCertificate(false, "broker-1"), undefined);
 * ```
 *
 * @module
 */
import { hasUnseen } from "../characters.ts";

/** The verified common name of a client certificate: the caller's identity. */
export type CallerCn = string & { readonly __brand: "CallerCn" };

/**
 * The caller's name, or `undefined` when nobody is identified.
 *
 * @param authorized whether the TLS layer verified the certificate; without it a certificate proves nothing,
 * for Node hands out the subject of unverified ones too
 * @param commonName the subject's CN as `node:tls` gives it: a string, an array when the subject has several
 * (ambiguous, hence nobody), or `undefined`
 */
export function callerFromCertificate(authorized: boolean, commonName: unknown): CallerCn | undefined {
  if (!authorized || !isCallerCn(commonName)) return undefined;
  return commonName;
}

function isCallerCn(value: unknown): value is CallerCn {
  return typeof value === "string" && value !== "" && !hasUnseen(value);
}
