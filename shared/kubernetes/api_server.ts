// Requests to the API server of one cluster: with a bearer token, over TLS that trusts only the cluster's own
// CAs, bounded in time and size, without redirects and retries. Failures are described without addresses.
import * as z from "@zod/zod";
import { type Clock, within } from "../clock.ts";
import { AppError } from "../errors.ts";
import { AnswerTooLarge } from "../http/answer_parser.ts";
import { ClientConnections } from "../http/client_connections.ts";
import { checkCaCertificates } from "../http/tls_material.ts";
import { parseJson } from "../json.ts";
import { concatBytes, shortenText, visibleText } from "../text.ts";

/** One request. */
export interface ApiRequest {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Encoded, with its leading slash and its query. */
  readonly path: string;
  /** The bearer token: a secret, for this request alone. */
  readonly token: string;
  readonly body?: { readonly type: string; readonly bytes: Uint8Array };
  /** By default `application/json`. */
  readonly accept?: string;
  /** For the whole exchange. */
  readonly timeoutMs: number;
  /** The longest accepted answer. */
  readonly maxBytes: number;
  /** Ends the exchange, and closes its connection. */
  readonly signal?: AbortSignal | undefined;
}

/** The outcome of a request, without any address. */
export type ApiOutcome =
  | {
    readonly kind: "answered";
    readonly status: number;
    /** By lowercase name. */
    readonly headers: Readonly<Record<string, string>>;
    /** Invalid UTF-8 becomes U+FFFD, and the token of the request `[token]`. */
    readonly text: string;
  }
  | { readonly kind: "too_large" | "timed_out" | "canceled" }
  /** `untrusted`: a certificate of another CA or address. `unreachable`: no connection, or no whole answer. */
  | { readonly kind: "untrusted" | "unreachable"; readonly cause: unknown };

/** Shorter than the idle limits of API servers and their balancers. */
const IDLE_MS = 30_000;
// A line break in one of these would begin another header.
const TARGET = /^\/[\x21-\x7e]*$/;
const HEADER_VALUE = /^[\x20-\x7e]*$/;
const TOKEN = /^[\x21-\x7e]+$/;

/** A shorter token protects nothing, and may be a word of the answer. */
const MIN_TOKEN_LENGTH = 16;

const TIMED_OUT = new Error("timed out");
const CANCELED = new Error("canceled");

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The connections to one API server, over TLS 1.2 at least: some balancers support no newer version. */
export class ApiServer implements Disposable {
  readonly #prefix: string;
  readonly #authority: string;
  readonly #clock: Clock;
  readonly #connections: ClientConnections;

  /**
   * Connects with the first request.
   *
   * @throws {AppError} `invalid_config` if the URL is not `https:`, or a CA cannot be used
   */
  constructor({ url, ca, clock, maxConnections = 16 }: {
    /** `https://host:port`, optionally with a path prefix. */
    readonly url: string;
    /** The cluster's CAs, PEM. */
    readonly ca: string;
    readonly clock: Clock;
    readonly maxConnections?: number;
  }) {
    const parsed = URL.parse(url);
    if (parsed?.protocol !== "https:" || parsed.hostname === "") {
      throw new AppError("invalid_config", "Cannot use the API server's URL: expected https://…");
    }
    checkCaCertificates(ca);
    this.#prefix = parsed.pathname.replace(/(?<!\/)\/+$/, "");
    this.#authority = parsed.host;
    this.#clock = clock;
    this.#connections = new ClientConnections({
      host: parsed.hostname.replace(/^\[|\]$/g, ""),
      port: parsed.port === "" ? 443 : Number(parsed.port),
      ca,
      minVersion: "TLSv1.2",
      maxConnections,
      maxBytes: 0,
      idleMs: IDLE_MS,
    });
  }

  /** Sends a request and reads the whole answer. Error statuses and redirects are answers, too. */
  async request(request: ApiRequest): Promise<ApiOutcome> {
    const bytes = this.#encode(request);
    const { signal, timeoutMs: ms, maxBytes } = request;
    if (signal?.aborted) return { kind: "canceled" };
    const exchange = this.#connections.send(bytes, { maxBytes });
    const end = (reason: Error) => () => {
      exchange.end(reason);
      return reason;
    };
    const bound = { clock: this.#clock, ms, signal, late: end(TIMED_OUT), aborted: end(CANCELED) };
    try {
      const { status, headers, body } = await within(bound, exchange.answer);
      return { kind: "answered", status, headers, text: withoutToken(decoder.decode(body), request.token) };
    } catch (cause) {
      if (cause === TIMED_OUT) return { kind: "timed_out" };
      if (cause === CANCELED) return { kind: "canceled" };
      if (cause instanceof AnswerTooLarge) return { kind: "too_large" };
      const isAboutCertificate = cause instanceof Error && /certificate/i.test(cause.message);
      return { kind: isAboutCertificate ? "untrusted" : "unreachable", cause };
    }
  }

  /** Closes all connections. Pending requests fail. */
  close(): void {
    this.#connections.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #encode({ method, path, token, body, accept = "application/json" }: ApiRequest): Uint8Array {
    const target = this.#prefix + path;
    if (!TARGET.test(target)) throw new TypeError("not a request target");
    if (!TOKEN.test(token)) throw new TypeError("not a bearer token");
    if (!HEADER_VALUE.test(accept) || !HEADER_VALUE.test(body?.type ?? "")) {
      throw new TypeError("not a header");
    }
    const head = `${method} ${target} HTTP/1.1\r\nhost: ${this.#authority}\r\naccept: ${accept}\r\n` +
      `authorization: Bearer ${token}\r\n`;
    // TextEncoder is ten times as fast as Buffer's encoder for ASCII.
    if (body === undefined) return encoder.encode(`${head}\r\n`);
    return concatBytes([
      encoder.encode(`${head}content-type: ${body.type}\r\ncontent-length: ${body.bytes.length}\r\n\r\n`),
      body.bytes,
    ]);
  }
}

/** A balancer may repeat the request, and answers go to agents, errors and logs. */
function withoutToken(text: string, token: string): string {
  return token.length < MIN_TOKEN_LENGTH ? text : text.replaceAll(token, "[token]");
}

/** The outcome of a request with a credential from a file. */
export type ApiAnswer =
  | ApiOutcome
  /** The file is unreadable or holds no token. The cause names the file, for the operator alone. */
  | { readonly kind: "no_credential"; readonly cause: unknown };

const status = z.object({ kind: z.literal("Status"), message: z.string() });

const fieldConflicts = z.object({
  details: z.object({
    causes: z.array(z.object({ reason: z.literal("FieldManagerConflict"), field: z.string() })),
  }),
});

const MAX_MESSAGE_LENGTH = 400;
const ADDRESS =
  /\bhttps?:\/\/[^\s"']+|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\[[0-9a-f.]*:[0-9a-f:.]*\](?::\d+)?/gi;

const PROBLEMS = {
  no_credential: "the signer can't read its token_file",
  timed_out: "the API server did not answer in time",
  too_large: "the API server's answer is too large",
  unreachable: "could not reach the API server",
  untrusted: "the API server's certificate does not come from ca_cert",
  canceled: "canceled",
} as const;

/** A failure for the caller and the audit log. `doing` is the text before a colon. */
export function faultOf(answer: ApiAnswer, doing: string): AppError {
  if (answer.kind !== "answered") {
    const cause = "cause" in answer ? answer.cause : undefined;
    const code = answer.kind === "canceled" ? "canceled" : "upstream_failure";
    return new AppError(code, `${doing}: ${PROBLEMS[answer.kind]}`, { cause });
  }
  const { status, text } = answer;
  if (status === 401) {
    return new AppError("denied", `${doing}: the API server refuses the credential in token_file; renew it`);
  }
  const message = readMessage(text);
  // 408 and 429 are about the moment, and not about the request.
  const isRefusal = status >= 400 && status < 500 && status !== 408 && status !== 429;
  return new AppError(
    isRefusal ? "denied" : "upstream_failure",
    `${doing}: ${status}${message === "" ? "" : ` ${message}`}`,
  );
}

/** The fields of other managers that an apply would change, such as `.spec.replicas`; empty for other answers. */
export function readConflicts(text: string): readonly string[] {
  try {
    return fieldConflicts.parse(parseJson(text)).details.causes.map(({ field }) => field);
  } catch {
    return [];
  }
}

/** The message of an API server in a failure; empty if it is unreadable, such as the page of a balancer. */
export function readMessage(text: string): string {
  try {
    const { message } = status.parse(parseJson(text));
    return shortenText(visibleText(message.replace(ADDRESS, "[address]")), MAX_MESSAGE_LENGTH);
  } catch {
    return "";
  }
}
