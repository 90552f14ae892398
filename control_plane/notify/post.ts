import { type Clock, within } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";

/** How one attempt to deliver a notification ended. */
export type Attempt =
  | { readonly kind: "sent" }
  | {
    readonly kind: "failed";
    /** For the log: without the address, whose path is often the receiver's secret. */
    readonly reason: string;
    readonly mayRetry: boolean;
  };

interface Post {
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  /** Checked by {@linkcode webhookTarget}. */
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal: AbortSignal;
}

const TIMEOUT_MS = 5000;
const MAX_ANSWER_BYTES = 4096;

/** Posts, follows no redirect, and never rejects. What is answered with 2xx counts as sent, whatever else comes. */
export async function postJson({ fetch, clock, url, headers, body, signal }: Post): Promise<Attempt> {
  let status: number | undefined;
  try {
    const late = () => new AppError("timeout", `no answer within ${TIMEOUT_MS / 1000} seconds`);
    await within({ clock, ms: TIMEOUT_MS, signal, late }, async (signal) => {
      const response = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body,
        redirect: "manual",
        signal,
      });
      status = response.status;
      await drain(response.body);
    });
  } catch (error) {
    if (status === undefined) return { kind: "failed", reason: describe(error), mayRetry: true };
  }
  return judge(status ?? 0);
}

function judge(status: number): Attempt {
  if (status >= 200 && status < 300) return { kind: "sent" };
  const reason = status >= 300 && status < 400
    ? `answered ${status}; redirects are not followed`
    : `answered ${status}`;
  return { kind: "failed", reason, mayRetry: status >= 500 || status === 429 };
}

/** So that the connection can serve again; an answer that does not end is cut off. */
async function drain(body: ReadableStream<Uint8Array> | null): Promise<void> {
  if (body === null) return;
  const reader = body.getReader();
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    length += value.length;
    if (length > MAX_ANSWER_BYTES) return await reader.cancel();
  }
}

/** The platform's texts hold the whole address; the part after the last colon is what went wrong. */
function describe(error: unknown): string {
  if (error instanceof AppError) return error.message;
  if (!(error instanceof Error)) return "connection failed";
  const { message } = error.cause instanceof Error ? error.cause : error;
  const detail = /: ([^:/]+)$/.exec(message)?.[1];
  return `connection failed: ${detail ?? error.name}`;
}
