/**
 * Access tokens from the settings.
 *
 * @module
 */
import type { TokenSource } from "./chat_exchange.ts";
import { ModelError } from "../engine/model.ts";
import { isToken } from "./token_file.ts";

/** The token of a variable, sent as it is. Empty: there is no token. */
export function fixedToken(variable: string, token: string): TokenSource {
  return {
    token: () => new Promise((resolve) => resolve(checkToken(variable, token))),
    refused: () => false,
    remedy: `check ${variable}`,
  };
}

/**
 * The token, if it is well-formed.
 *
 * @throws {ModelError} `auth`
 */
export function checkToken(variable: string, token: string): string {
  if (token === "") throw new ModelError("auth", `there is no access token; set ${variable}`);
  if (!isToken(token)) throw new ModelError("auth", `${variable} does not hold a valid token`);
  return token;
}
