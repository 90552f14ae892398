/**
 * Tokens of end users: keys of the provider and verification.
 *
 * @module
 */

export {
  decideEndUser,
  type EndUserResult,
  type EndUserVerifier,
  loadEndUserVerifier,
  refuse,
  type VerifiedEndUser,
} from "./verifier.ts";
