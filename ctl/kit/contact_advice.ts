import { AppError } from "@gateway/shared/errors";
import type { ClientParameters } from "./client_config.ts";

/** Whom it was that did not answer. */
interface Contact {
  /** As messages name it: `control plane`. */
  readonly name: string;
  readonly parameters: Pick<ClientParameters, "url" | "ca">;
}

/**
 * What to do about a service that could not be contacted.
 *
 * @param failure what Node reports, an error with a `code`, or one that it caused
 * @returns undefined for what says nothing about the set-up
 */
export function adviseOnContact(failure: unknown, { name, parameters }: Contact): string | undefined {
  const { url, ca } = parameters;
  switch (codeOf(failure)) {
    case "ECONNREFUSED":
      return `nothing listens there: is the ${name} running, and is this its address?`;
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `no address is known for the name ${new URL(url).hostname}`;
    case "EHOSTUNREACH":
    case "ENETUNREACH":
    case "ETIMEDOUT":
      return "that address can't be reached from here";
    case "ERR_SSL_WRONG_VERSION_NUMBER":
      return `what listens there speaks no TLS: is this the address of the ${name}, not of its monitor?`;
    case "DEPTH_ZERO_SELF_SIGNED_CERT":
    case "SELF_SIGNED_CERT_IN_CHAIN":
    case "UNABLE_TO_GET_ISSUER_CERT_LOCALLY":
    case "UNABLE_TO_VERIFY_LEAF_SIGNATURE":
      return `the ${name}'s certificate was not signed by the CA in ${ca}`;
    case "ERR_TLS_CERT_ALTNAME_INVALID":
      return `the ${name}'s certificate is for other names than ${new URL(url).hostname}`;
    case "CERT_HAS_EXPIRED":
      return `the ${name}'s certificate has expired, or this machine's clock is wrong`;
    case "CERT_NOT_YET_VALID":
      return `the ${name}'s certificate is not valid yet, or this machine's clock is wrong`;
    default:
      return undefined;
  }
}

function codeOf(failure: unknown): unknown {
  let at = failure;
  while (at instanceof AppError) at = at.cause;
  return at instanceof Error && "code" in at ? at.code : undefined;
}
