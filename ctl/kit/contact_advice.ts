import { AppError } from "@gateway/shared/errors";

/**
 * The fix for a service that could not be contacted.
 *
 * @param failure an error of Node with a `code`, or an error that it caused
 * @param name the service as messages name it: `control plane`
 * @returns undefined for an error with another cause
 */
export function adviseOnContact(
  failure: unknown,
  { name, url, ca }: Readonly<Record<"name" | "url" | "ca", string>>,
): string | undefined {
  let at = failure;
  while (at instanceof AppError) at = at.cause;
  const code = at instanceof Error && "code" in at ? at.code : undefined;
  const hostname = URL.parse(url)?.hostname ?? url;
  const isUnreachable = "this address cannot be reached from this machine";
  const isOther = `the ${name}'s certificate was not signed by the CA in ${ca}`;
  const advice: Readonly<Record<string, string>> = {
    ECONNREFUSED: `nothing listens at this address: start the ${name}, or correct the address`,
    ENOTFOUND: `cannot resolve the name ${hostname}`,
    EAI_AGAIN: `cannot resolve the name ${hostname}`,
    EHOSTUNREACH: isUnreachable,
    ENETUNREACH: isUnreachable,
    ETIMEDOUT: isUnreachable,
    ERR_SSL_WRONG_VERSION_NUMBER:
      `the server at this address does not use TLS: is this the address of the ${name}, not of its monitor?`,
    DEPTH_ZERO_SELF_SIGNED_CERT: isOther,
    SELF_SIGNED_CERT_IN_CHAIN: isOther,
    UNABLE_TO_GET_ISSUER_CERT_LOCALLY: isOther,
    UNABLE_TO_VERIFY_LEAF_SIGNATURE: isOther,
    ERR_TLS_CERT_ALTNAME_INVALID: `the ${name}'s certificate is not for the name ${hostname}`,
    CERT_HAS_EXPIRED: `the ${name}'s certificate has expired, or this machine's clock is wrong`,
    CERT_NOT_YET_VALID: `the ${name}'s certificate is not valid yet, or this machine's clock is wrong`,
  };
  return typeof code === "string" && Object.hasOwn(advice, code) ? advice[code] : undefined;
}
