import type { ErrorReply } from "@gateway/shared/http";

/** The part of an HTTP client that is used here. */
export interface SignerClient {
  request(options: SignerRequest): Promise<SignerReply>;
}

export interface SignerRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

export interface SignerReply extends ErrorReply {
  /** By lowercase name. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
}
