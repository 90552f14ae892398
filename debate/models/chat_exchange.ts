/**
 * The one way by which the client library reaches a provider. It decides what leaves this process: the library's
 * own headers, which tell about this machine and say another program's name, stay here.
 *
 * @module
 */
import type { CallScope } from "./call_scope.ts";
import { ModelError } from "./model.ts";

/** The access of one provider, per HTTP request. */
export interface TokenSource {
  /**
   * The token to send.
   *
   * @throws {ModelError} when there is none; its message continues "Model … gave no reply: "
   */
  token(signal: AbortSignal): Promise<string>;
  /** Told that the provider has refused a token. Gives whether there may be a better one now. */
  refused(token: string): boolean;
  /** What an operator does about a refused token, as the end of a sentence. */
  readonly remedy: string;
}

/** A provider, as requests see it. */
export interface ChatEndpoint {
  readonly tokens: TokenSource;
  /** Beside the usual ones. */
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: typeof fetch;
}

/** What a request went out with. */
export interface SentWith {
  token?: string;
}

/** The `fetch` of one attempt. */
export function exchangeFor(endpoint: ChatEndpoint, scope: CallScope, sent: SentWith): typeof fetch {
  const { tokens } = endpoint;
  return async (input, init = {}) => {
    const token = await scope.wait(tokens.token(scope.signal));
    sent.token = token;
    const isStream = typeof init.body === "string" && /"stream":true/.test(init.body);
    const headers = {
      ...endpoint.headers,
      accept: isStream ? "text/event-stream" : "application/json",
      "content-type": "application/json",
      authorization: `Bearer ${token}`,
    };
    // A redirect would take token and prompts to wherever it points.
    const response = await endpoint.fetch(input, { ...init, headers, redirect: "manual" });
    if (isStream && response.ok && /^(?:application\/json|text\/html)\b/i.test(contentType(response))) {
      await response.body?.cancel();
      throw new ModelError("bad_reply", "the provider does not stream");
    }
    if (response.body === null) return response;
    const { status, headers: answered } = response;
    return new Response(scope.watch(response.body), { status, headers: answered });
  };
}

function contentType(response: Response): string {
  return response.headers.get("content-type") ?? "";
}
