/**
 * Small JSON exchanges with a provider other than model calls: session tokens, device flow, list of models.
 *
 * @module
 */
import { type Clock, within } from "@gateway/shared/clock";
import { parseStandardJson } from "@gateway/shared/json";
import { ModelError } from "../engine/model.ts";

/** What {@linkcode exchangeJson} needs. */
interface JsonExchange {
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Sent as a form with POST; if absent, the request is a GET. */
  readonly form?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

interface JsonAnswer {
  readonly status: number;
  /** `undefined` when it is not JSON. */
  readonly body: unknown;
}

const TIMEOUT_MS = 10_000;
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * Sends a request and reads the answer. Redirects are not followed, since they would carry tokens along.
 *
 * @throws {ModelError} `canceled`, `timeout` after 10 s, `server` when the provider cannot be reached,
 * `bad_reply` when the answer is too long
 */
export async function exchangeJson(exchange: JsonExchange): Promise<JsonAnswer> {
  const { fetch, clock, url, headers, form, signal } = exchange;
  const late = () => new ModelError("timeout", `the provider did not answer within ${TIMEOUT_MS / 1000} s`);
  const aborted = () => new ModelError("canceled", "the exchange with the provider was canceled");
  try {
    return await within({ clock, ms: TIMEOUT_MS, signal, late, aborted }, async (signal) => {
      const response = await fetch(url, {
        headers: { ...headers, accept: "application/json" },
        redirect: "manual",
        signal,
        ...(form === undefined ? {} : { method: "POST", body: new URLSearchParams(form) }),
      });
      return { status: response.status, body: parse(await readText(response)) };
    });
  } catch (cause) {
    if (cause instanceof ModelError) throw cause;
    throw new ModelError("server", "the provider cannot be reached, or the connection broke", { cause });
  }
}

async function readText(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    if (length > MAX_BYTES) {
      throw new ModelError("bad_reply", `the provider's answer is longer than ${MAX_BYTES} bytes`);
    }
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

function parse(text: string): unknown {
  try {
    return parseStandardJson(text);
  } catch {
    return undefined;
  }
}
