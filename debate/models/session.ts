import type { Clock } from "@gateway/shared/clock";
import * as z from "@zod/zod";
import type { TokenSource } from "./tokens.ts";
import { exchangeJson } from "./json_exchange.ts";
import { ModelError } from "../engine/model.ts";

/** What {@linkcode SessionTokens} needs. */
export interface SessionOptions {
  /** The URL that issues a session token for an access token; empty: the access token is used as it is. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The current access token; `undefined` if there is none. */
  accessToken(): Promise<string | undefined>;
  /** What an operator can do about a missing or refused access token, as the end of a sentence. */
  readonly remedy: string;
  readonly fetch: typeof fetch;
  readonly clock: Clock;
}

interface Session {
  readonly accessToken: string;
  readonly token: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

const MARGIN_MS = 60_000;

/** The lifetime of a session if the provider does not state one. */
const ASSUMED_MS = 1_500_000;

export class SessionTokens implements TokenSource {
  readonly remedy: string;
  readonly #options: SessionOptions;
  #session: Session | undefined;
  #pending: { readonly accessToken: string; readonly session: Promise<Session> } | undefined;

  constructor(options: SessionOptions) {
    this.remedy = options.remedy;
    this.#options = options;
  }

  async token(signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    return await this.#token();
  }

  async #token(): Promise<string> {
    const accessToken = await this.#options.accessToken();
    if (accessToken === undefined) {
      throw new ModelError("auth", `there is no access token; ${this.remedy}`);
    }
    if (this.#options.url === "") return accessToken;
    return (await this.#sessionFor(accessToken)).token;
  }

  refused(token: string): boolean {
    if (this.#session?.token !== token) return this.#session !== undefined;
    this.#session = undefined;
    return true;
  }

  /** Requests a session if there is none, and reports the outcome. */
  async status() {
    try {
      const isConfigured = await this.#options.accessToken() !== undefined;
      if (!isConfigured) return { ...NOTHING, problem: `There is no access token; ${this.remedy}` };
      await this.#token();
      const session = this.#session;
      const restMs = session === undefined ? undefined : session.expiresAt - this.#options.clock.now();
      return {
        isConfigured,
        isValid: true,
        expiresInSeconds: restMs === undefined ? undefined : Math.max(0, Math.floor(restMs / 1000)),
        problem: undefined,
      };
    } catch (error) {
      const problem = error instanceof ModelError ? error.message : "the stored token cannot be read";
      return { ...NOTHING, isConfigured: true, problem: `No session: ${problem}` };
    }
  }

  /** Concurrent callers share one exchange, which continues if one of them cancels. */
  #sessionFor(accessToken: string): Promise<Session> {
    const known = this.#session;
    const isGood = known?.accessToken === accessToken &&
      known.expiresAt - this.#options.clock.now() >= MARGIN_MS;
    if (known !== undefined && isGood) return Promise.resolve(known);
    if (this.#pending?.accessToken === accessToken) return this.#pending.session;
    const session = this.#open(accessToken);
    const pending = { accessToken, session };
    this.#pending = pending;
    const clear = () => {
      if (this.#pending === pending) this.#pending = undefined;
    };
    session.then((opened) => {
      if (this.#pending === pending) this.#session = opened;
      clear();
    }, clear);
    return session;
  }

  async #open(accessToken: string): Promise<Session> {
    const { fetch, clock, url } = this.#options;
    const headers = { ...this.#options.headers, authorization: `token ${accessToken}` };
    const { status, body } = await exchangeJson({ fetch, clock, url, headers });
    if (status === 401 || status === 403 || status === 404) {
      const text = `the provider refused a session for the access token (HTTP ${status}); ${this.remedy}`;
      throw new ModelError("auth", text);
    }
    const answer = sessionAnswer.safeParse(body).data;
    if (status !== 200 || answer === undefined) {
      throw new ModelError("server", `the provider did not issue a session (HTTP ${status})`);
    }
    const { token, expires_at } = answer;
    const endSeconds = Number(/(?:^|;)exp=(\d{1,12})(?:;|$)/.exec(token)?.[1] ?? expires_at);
    const expiresAt = Number.isNaN(endSeconds) ? clock.now() + ASSUMED_MS : endSeconds * 1000;
    return { accessToken, token, expiresAt };
  }
}

const NOTHING = {
  isConfigured: false,
  isValid: false,
  expiresInSeconds: undefined,
  problem: undefined,
};

const sessionAnswer = z.looseObject({
  // A text that could break a header is not accepted as a token.
  token: z.string().regex(/^[\x21-\x7e]{1,16384}$/),
  expires_at: z.int().positive().optional().catch(undefined),
});

/** The start of a token, by which its owner recognises it; empty for a short token. */
export function tokenPreview(token: string): string {
  return token.length < 20 ? "…" : `${token.slice(0, 4)}…`;
}
