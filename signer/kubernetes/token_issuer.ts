import { AppError } from "@gateway/shared/errors";
import { stringifyJson } from "@gateway/shared/json";
import type { ServiceLogger } from "@gateway/shared/log";
import { quoteText } from "@gateway/shared/quote";
import type { IssuedToken, TokenIssuer, TokenWish } from "../ports.ts";
import type { ClusterApi } from "./cluster_api.ts";
import { readToken, tokenPath, tokenRequest } from "./token_request.ts";

/** Less than what control planes and brokers wait for a signer: a token that nobody waits for any more is lost. */
export const MINT_MS = 8_000;
const MAX_ANSWER_BYTES = 4 << 20;

/** Makes tokens by asking the clusters' API servers. */
export class ApiTokenIssuer implements TokenIssuer {
  readonly #api: ClusterApi;
  readonly #logger: ServiceLogger;

  constructor({ api, logger }: { readonly api: ClusterApi; readonly logger: ServiceLogger }) {
    this.#api = api;
    this.#logger = logger;
  }

  async issue(wish: TokenWish): Promise<IssuedToken> {
    const { cluster, ca, account } = wish;
    const doing = `minting token for ${account.namespace}/${account.serviceAccount} on ${
      quoteText(cluster.name)
    }`;
    const answer = await this.#api.request({ cluster, ca }, {
      method: "POST",
      path: tokenPath(account),
      body: jsonBody(tokenRequest(cluster.tokenTtlSeconds)),
      timeoutMs: MINT_MS,
      maxBytes: MAX_ANSWER_BYTES,
    });
    try {
      return readToken(answer, doing);
    } catch (error) {
      // The caller is told no address and no path.
      if (error instanceof AppError && error.cause !== undefined) {
        this.#logger.warn(error.message, { error: error.cause });
      }
      throw error;
    }
  }
}

function jsonBody(value: unknown): { readonly type: string; readonly bytes: Uint8Array } {
  return { type: "application/json", bytes: new TextEncoder().encode(stringifyJson(value)) };
}
