import { z } from "@zod/zod";

/** The part of an HTTP client that is used here. */
export interface SignerClient {
  request(options: SignerRequest): Promise<SignerReply>;
}

/** One request to the signer. */
export interface SignerRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

/** The signer's reply. */
export interface SignerReply {
  readonly status: number;
  /** The parsed JSON, undefined when it is none. */
  readonly body: unknown;
  readonly text: string;
}

const problem = z.object({ detail: z.string() });

/** As much of a reply as an error text repeats, in characters. */
const MAX_DETAIL = 1000;

/** The text for people: of a problem document its `detail`, of anything else the trimmed body. */
export function detailOf(reply: SignerReply): string {
  const result = problem.safeParse(reply.body);
  const text = result.success ? result.data.detail : reply.text.trim();
  return text.length > MAX_DETAIL ? `${text.slice(0, MAX_DETAIL)}…` : text;
}
