import { type Clock, within } from "@gateway/shared/clock";
import { errorText } from "@gateway/shared/errors";
import { collectBytes, shortenText } from "@gateway/shared/text";
import { parseJson } from "../engine/graph/text.ts";
import { ModelError } from "../engine/ports.ts";

const TIMEOUT_MS = 10_000;
const MAX_BYTES = 4 * 1024 * 1024;

/** Why `fetch` got no answer, after a colon, if that is known. The error also contains the URL, which can be secret. */
export function reasonOf(error: unknown): string {
  const text = error instanceof Error ? errorText(error.cause) : "";
  const start = text.lastIndexOf("): ");
  return start < 0 ? "" : `: ${shortenText(text.slice(start + 3), 200)}`;
}

export const unreachable = (error: unknown): string =>
  `the provider cannot be reached, or the connection was lost${reasonOf(error)}`;

/**
 * Sends a request and reads the JSON of the answer. A request with a form is a POST. Redirects are not followed,
 * because they would send the token to another server.
 */
export async function exchangeJson(request: {
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly form?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}): Promise<{ readonly status: number; readonly body: unknown }> {
  const { clock, url, headers = {}, form, signal } = request;
  const late = () => new ModelError("timeout", `the provider did not answer within ${TIMEOUT_MS / 1000} s`);
  const aborted = () => new ModelError("canceled", "the exchange with the provider was canceled");
  try {
    return await within({ clock, ms: TIMEOUT_MS, signal, late, aborted }, async (signal) => {
      const { status, body } = await request.fetch(url, {
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
    throw new ModelError("server", unreachable(cause), { cause });
  }
}

type Query = Readonly<Record<string, string | undefined>>;

/** The URL of a path below a base URL, which may end in a slash. */
export function below(baseUrl: string, path: string, query: Query = {}): string {
  const url = new URL(`${baseUrl.replace(/(?<!\/)\/+$/, "")}/${path}`);
  for (const [name, value = ""] of Object.entries(query)) if (value !== "") url.searchParams.set(name, value);
  return url.href;
}

/**
 * The data of each event of a stream (HTML Living Standard, 9.2.6). `eventsource-parser` is not used, because it scans
 * an unfinished line again with each chunk, so an endless line takes quadratic time.
 */
export async function* eventsOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let data: string[] = [];
  for await (const line of linesOf(chunks)) {
    if (line === "" && data.length > 0) {
      yield data.join("\n");
      data = [];
    } else if (line.startsWith("data:")) data.push(line.slice(line.startsWith("data: ") ? 6 : 5));
  }
  if (data.length > 0) yield data.join("\n");
}

async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const unfinished: string[] = [];
  let endedInReturn = false;
  for await (const chunk of chunks) {
    const text = decoder.decode(chunk, { stream: true });
    if (text === "") continue;
    const lines = (endedInReturn ? text.replace(/^\n/, "") : text).split(/\r\n|[\r\n]/);
    endedInReturn = text.endsWith("\r");
    for (const line of lines.slice(0, -1)) yield unfinished.splice(0).join("") + line;
    unfinished.push(lines.at(-1) ?? "");
  }
  yield unfinished.join("") + decoder.decode();
}
