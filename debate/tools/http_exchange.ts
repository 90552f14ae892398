import { concatBytes } from "@gateway/shared/text";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { lookup } from "node:dns/promises";
import { isIP } from "node:net";

/** A request. */
export interface HttpRequest {
  /** Names host, port and path; a certificate must be for its host. */
  readonly url: URL;
  readonly address: string;
  readonly method: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** The most bytes of the answer's body; the rest is not read. */
  readonly maxBytes: number;
  readonly signal: AbortSignal;
}

/** An answer. */
export interface HttpAnswer {
  readonly status: number;
  readonly statusText: string;
  /** Names are in lower case; of a repeated header, the first one counts. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body as it arrived: a `content-encoding` is not decoded. */
  readonly body: Uint8Array;
  readonly isCut: boolean;
}

/** No answer: the name of the system's error, or what is wrong with the certificate. */
export class HttpExchangeError extends Error {
  override readonly name = "HttpExchangeError";
  /** Whether nothing has been sent yet, so that another address may be tried. */
  readonly isBeforeSending: boolean;

  constructor(message: string, options: { readonly isBeforeSending: boolean; readonly cause?: unknown }) {
    super(message, { cause: options.cause });
    this.isBeforeSending = options.isBeforeSending;
  }
}

export type HttpExchange = (request: HttpRequest) => Promise<HttpAnswer>;

/**
 * The addresses of a host, as resolved by the system; an IP address stands for itself. Empty when there are
 * none.
 */
export type Resolve = (host: string) => Promise<readonly string[]>;

export const systemResolve: Resolve = async (host) => {
  try {
    return (await lookup(host.replace(/^\[(.*)\]$/, "$1"), { all: true })).map(({ address }) => address);
  } catch {
    return [];
  }
};

/**
 * Creates exchanges over the network.
 *
 * @param ca the CAs to trust, PEM; by default the built-in ones
 */
export function createHttpExchange(ca: string | undefined): HttpExchange {
  return ({ url, address, method, headers, body, maxBytes, signal }) =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const isTls = url.protocol === "https:";
      const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
      let isSent = false;
      const request = (isTls ? requestHttps : requestHttp)({
        host: address,
        port: url.port === "" ? (isTls ? 443 : 80) : Number(url.port),
        path: url.pathname + url.search,
        method,
        headers: {
          ...headers,
          host: url.host,
          "accept-encoding": "identity",
          ...(body === undefined ? {} : { "content-length": String(new TextEncoder().encode(body).length) }),
        },
        setHost: false,
        agent: false,
        // Without the name, the certificate would have to be for the address.
        ...(isTls && isIP(host) === 0 ? { servername: host } : {}),
        ...(isTls && ca !== undefined ? { ca } : {}),
      });
      const onAbort = () => {
        request.destroy();
        reject(signal.reason);
      };
      const settle = () => signal.removeEventListener("abort", onAbort);
      signal.addEventListener("abort", onAbort, { once: true });
      request.on("error", (cause) => {
        settle();
        reject(new HttpExchangeError(describe(cause), { isBeforeSending: !isSent, cause }));
      });
      request.on("socket", (socket) => {
        socket.once(isTls ? "secureConnect" : "connect", () => isSent = true);
      });
      request.on("response", (response) => {
        readBody(response, maxBytes).then(
          ({ bytes, isCut }) => {
            settle();
            request.destroy();
            resolve({
              status: response.statusCode ?? 0,
              statusText: response.statusMessage ?? "",
              headers: firstOf(response.headers),
              body: bytes,
              isCut,
            });
          },
          (cause) => {
            settle();
            request.destroy();
            reject(new HttpExchangeError(describe(cause), { isBeforeSending: false, cause }));
          },
        );
      });
      request.end(body);
    });
}

async function readBody(response: IncomingMessage, maxBytes: number) {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Uint8Array>) {
    chunks.push(chunk.subarray(0, maxBytes - size));
    size += chunk.length;
    if (size > maxBytes) break;
  }
  return {
    bytes: concatBytes(chunks),
    isCut: size > maxBytes,
  };
}

function firstOf(headers: IncomingMessage["headers"]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, (Array.isArray(value) ? value[0] : value) ?? ""]),
  );
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection reset",
  EHOSTUNREACH: "no route to the host",
  ENETUNREACH: "no route to the network",
  ETIMEDOUT: "connecting timed out",
  EPIPE: "connection closed",
};

function describe(error: unknown): string {
  if (!(error instanceof Error)) return "connection failed";
  const { code } = error as Error & { readonly code?: unknown };
  return (typeof code === "string" ? REASONS[code] : undefined) ?? error.message;
}
