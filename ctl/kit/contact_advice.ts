import { AppError } from "@gateway/shared/errors";
import type { ClientParameters } from "./client_config.ts";

/**
 * The fix for a service that could not be contacted.
 *
 * @param failure an error of Node with a `code`, or an error that it caused
 * @param name the service as messages name it: `control plane`
 * @returns undefined for an error that has nothing to do with the deployment
 */
export function adviseOnContact(
  failure: unknown,
  { name, parameters: { url, ca } }: {
    readonly name: string;
    readonly parameters: Pick<ClientParameters, "url" | "ca">;
  },
): string | undefined {
  let at = failure;
  while (at instanceof AppError) at = at.cause;
  const code = at instanceof Error && "code" in at ? at.code : undefined;
  const hostname = URL.parse(url)?.hostname ?? url;
  const isUnreachable = "that address can't be reached from here";
  const isOther = `the ${name}'s certificate was not signed by the CA in ${ca}`;
  const advice: Readonly<Record<string, string>> = {
    ECONNREFUSED: `nothing listens there: is the ${name} running, and is this its address?`,
    ENOTFOUND: `no address is known for the name ${hostname}`,
    EAI_AGAIN: `no address is known for the name ${hostname}`,
    EHOSTUNREACH: isUnreachable,
    ENETUNREACH: isUnreachable,
    ETIMEDOUT: isUnreachable,
    ERR_SSL_WRONG_VERSION_NUMBER:
      `what listens there speaks no TLS: is this the address of the ${name}, not of its monitor?`,
    DEPTH_ZERO_SELF_SIGNED_CERT: isOther,
    SELF_SIGNED_CERT_IN_CHAIN: isOther,
    UNABLE_TO_GET_ISSUER_CERT_LOCALLY: isOther,
    UNABLE_TO_VERIFY_LEAF_SIGNATURE: isOther,
    ERR_TLS_CERT_ALTNAME_INVALID: `the ${name}'s certificate is for other names than ${hostname}`,
    CERT_HAS_EXPIRED: `the ${name}'s certificate has expired, or this machine's clock is wrong`,
    CERT_NOT_YET_VALID: `the ${name}'s certificate is not valid yet, or this machine's clock is wrong`,
  };
  return typeof code === "string" && Object.hasOwn(advice, code) ? advice[code] : undefined;
}
