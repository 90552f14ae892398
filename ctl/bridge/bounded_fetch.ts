import { AppError } from "@gateway/shared/errors";
import { withPlainKeys } from "@gateway/shared/json";

const MOST_BYTES = 4 * 1024 * 1024;

/** A `fetch` whose answers are read whole, up to 4 MiB, and can be parsed by `JSON.parse`; it follows no redirect. */
export function boundedFetch(fetch: typeof globalThis.fetch, signal: AbortSignal): typeof globalThis.fetch {
  return async (input, init) => {
    const signals = init?.signal ? [signal, init.signal] : [signal];
    const response = await fetch(input, { ...init, redirect: "error", signal: AbortSignal.any(signals) });
    const text = await readText(response.body);
    const { status, statusText, headers } = response;
    const isEmpty = status === 204 || status === 304;
    return new Response(isEmpty ? null : plain(text), { status, statusText, headers });
  };
}

/** What is no JSON stays as it is: whoever parses it says so. */
function plain(text: string): string {
  try {
    return withPlainKeys(text);
  } catch (error) {
    if (error instanceof SyntaxError) return text;
    throw error;
  }
}

async function readText(body: ReadableStream<Uint8Array> | null): Promise<string> {
  if (body === null) return "";
  const decoder = new TextDecoder();
  let text = "";
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > MOST_BYTES) {
      throw new AppError("upstream_failure", `the chat's answer is larger than ${MOST_BYTES} bytes`);
    }
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
