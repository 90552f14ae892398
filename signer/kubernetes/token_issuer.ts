import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { stringifyJson } from "@gateway/shared/json";
import type { ServiceLogger } from "@gateway/shared/service";
import { quoteText } from "@gateway/shared/text";
import {
  type ApiAnswer,
  type BoundSecret,
  type ClusterApi,
  type IssuedToken,
  readToken,
  tokenPath,
  tokenRequest,
  type TokenWish,
} from "@gateway/shared/kubernetes";
import type { TokenLeases } from "../live/token_leases.ts";

const MAX_ANSWER_BYTES = 4 << 20;

/** What an {@linkcode ApiTokenIssuer} works with. */
interface TokenIssuerOptions {
  readonly api: ClusterApi;
  readonly leases: TokenLeases;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
}

/** Makes tokens by asking the clusters' API servers. */
export class ApiTokenIssuer {
  readonly #options: TokenIssuerOptions;

  constructor(options: TokenIssuerOptions) {
    this.#options = options;
  }

  /** @throws {AppError} `denied` where the API server refuses, `upstream_failure` if it does not answer */
  async issue(wish: TokenWish): Promise<IssuedToken> {
    const { account, cluster } = wish;
    const doing = `minting token for ${account.namespace}/${account.serviceAccount} on ${
      quoteText(cluster.name)
    }`;
    const deadline = this.#options.clock.now() + wish.waitMs;
    try {
      return readToken(await this.#request(wish, doing, deadline), doing);
    } catch (error) {
      // The caller is told no address and no path.
      if (error instanceof AppError && error.cause !== undefined) {
        this.#options.logger.warn(error.message, { error: error.cause });
      }
      throw error;
    }
  }

  async #request(wish: TokenWish, doing: string, deadline: number): Promise<ApiAnswer> {
    if (wish.cluster.leaseNamespace === "") return await this.#ask(wish, deadline);
    const { leases } = this.#options;
    const bound = await leases.ensure(wish, doing, { deadline });
    const answer = await this.#ask(wish, deadline, bound);
    // Somebody has removed the Secret; or there is no such account, which the second answer says again.
    if (answer.kind !== "answered" || (answer.status !== 404 && answer.status !== 409)) return answer;
    return await this.#ask(wish, deadline, await leases.ensure(wish, doing, { deadline, not: bound }));
  }

  #ask({ cluster, ca, account }: TokenWish, deadline: number, bound?: BoundSecret): Promise<ApiAnswer> {
    return this.#options.api.request({ cluster, ca }, {
      method: "POST",
      path: tokenPath(account),
      body: {
        type: "application/json",
        bytes: new TextEncoder().encode(stringifyJson(tokenRequest(cluster.tokenTtlSeconds, bound))),
      },
      timeoutMs: Math.max(1, deadline - this.#options.clock.now()),
      maxBytes: MAX_ANSWER_BYTES,
    });
  }
}
