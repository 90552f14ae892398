import { collectBytes } from "@gateway/shared/text";
import { type Clock, within } from "@gateway/shared/clock";
import { parseJson } from "../engine/graph/json_objects.ts";
import { ModelError } from "../engine/model.ts";

interface JsonExchange {
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Sent with POST. Without a form, the request is a GET. */
  readonly form?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

const TIMEOUT_MS = 10_000;
const MAX_BYTES = 4 * 1024 * 1024;

export const UNREACHABLE = "the provider cannot be reached, or the connection broke";

/** Sends a request and reads the answer. Redirects are not followed, since they would carry tokens along. */
export async function exchangeJson(
  { fetch, clock, url, headers, form, signal }: JsonExchange,
): Promise<{ readonly status: number; readonly body: unknown }> {
  const late = () => new ModelError("timeout", `the provider did not answer within ${TIMEOUT_MS / 1000} s`);
  const aborted = () => new ModelError("canceled", "the exchange with the provider was canceled");
  try {
    return await within({ clock, ms: TIMEOUT_MS, signal, late, aborted }, async (signal) => {
      const { status, body } = await fetch(url, {
        headers: { ...headers, accept: "application/json" },
        redirect: "manual",
        signal,
        ...(form === undefined ? {} : { method: "POST", body: new URLSearchParams(form) }),
      });
      const bytes = await collectBytes(body ?? ReadableStream.from([]), MAX_BYTES);
      if (bytes !== undefined) return { status, body: parseJson(new TextDecoder().decode(bytes)) };
      throw new ModelError("bad_reply", `the provider's answer is longer than ${MAX_BYTES} bytes`);
    });
  } catch (cause) {
    if (cause instanceof ModelError) throw cause;
    throw new ModelError("server", UNREACHABLE, { cause });
  }
}

/** The URL of a path below a base URL, which may end in a slash. */
export function below(baseUrl: string, path: string): string {
  return `${baseUrl.replace(/(?<!\/)\/+$/, "")}/${path}`;
}
