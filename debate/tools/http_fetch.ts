/**
 * Each name is resolved once per hop, and the connection goes to an address that was checked. DNS rebinding
 * therefore has no effect.
 */
import { concatBytes } from "@gateway/shared/text";
import type * as z from "@zod/zod";
import { lookup } from "node:dns/promises";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP } from "node:net";
import { dropPartialWord, parseJson } from "../engine/graph/text.ts";
import type { Call, HttpAnswer, HttpPorts, HttpRequest, Outgoing } from "./define_tool.ts";
import { refuse } from "./run_program.ts";
import { isApprovable, mayResolve, PUBLIC_ONLY, vet } from "./net_guard.ts";

/** There was no response. The message is the reason of the system or of the certificate check. */
export class HttpExchangeError extends Error {
  override readonly name = "HttpExchangeError";
  /** Nothing was sent, so another address may be tried. */
  readonly isBeforeSending: boolean;

  constructor(message: string, isBeforeSending: boolean, cause?: unknown) {
    super(message, { cause });
    this.isBeforeSending = isBeforeSending;
  }
}

/** @param ca the trusted CAs as PEM; by default the built-in CAs */
export function createHttpPorts(ca: string | undefined): HttpPorts {
  return { exchange: (request) => exchange(request, ca), resolve: resolveName };
}

async function resolveName(host: string): Promise<readonly string[]> {
  try {
    return (await lookup(withoutBrackets(host), { all: true })).map(({ address }) => address);
  } catch {
    return [];
  }
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, "$1");
}

function exchange(
  { url, address, method, headers, body, maxBytes, signal }: HttpRequest,
  ca: string | undefined,
): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const isTls = url.protocol === "https:";
    const host = withoutBrackets(url.hostname);
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
      // Without this name, the certificate would have to be valid for the address.
      ...(isTls && isIP(host) === 0 ? { servername: host } : {}),
      ...(isTls && ca !== undefined ? { ca } : {}),
    });
    const end = (settle: () => void) => {
      signal.removeEventListener("abort", onAbort);
      request.destroy();
      settle();
    };
    const onAbort = () => end(() => reject(signal.reason));
    const fail = (cause: unknown, isBeforeSending: boolean) =>
      end(() => reject(new HttpExchangeError(describe(cause), isBeforeSending, cause)));
    signal.addEventListener("abort", onAbort, { once: true });
    request.on("error", (cause) => fail(cause, !isSent));
    request.on("socket", (socket) => socket.once(isTls ? "secureConnect" : "connect", () => isSent = true));
    request.on("response", (response) => {
      readAnswer(response, maxBytes).then(
        (answer) => end(() => resolve(answer)),
        (cause) => fail(cause, false),
      );
    });
    request.end(body);
  });
}

async function readAnswer(response: IncomingMessage, maxBytes: number): Promise<HttpAnswer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Uint8Array>) {
    chunks.push(chunk.subarray(0, maxBytes - size));
    size += chunk.length;
    if (size > maxBytes) break;
  }
  const { statusCode = 0, statusMessage = "" } = response;
  const headers = Object.entries(response.headers)
    .map(([name, value]) => [name, (Array.isArray(value) ? value[0] : value) ?? ""]);
  return {
    status: statusCode,
    statusText: statusMessage,
    headers: Object.fromEntries(headers),
    body: concatBytes(chunks),
    isCut: size > maxBytes,
  };
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

const MAX_REDIRECTS = 3;
const MAX_ADDRESSES = 4;
const USER_AGENT = "diagnosis-debate";
const LISTING = "The operator can allow the host in HTTP_ALLOWED_HOSTS";

export function parseHttpUrl(text: string, base?: URL): URL {
  if (!URL.canParse(text, base)) refuse(`invalid URL ${JSON.stringify(text)}`);
  const url = new URL(text, base);
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    refuse(`only http: and https: URLs are allowed, not ${url.protocol}`);
  }
  if (url.username !== "" || url.password !== "") refuse("the URL must not contain credentials");
  return url;
}

/** Follows redirects. The result contains the last URL. */
export async function fetchGuarded(start: URL, outgoing: Outgoing, call: Call) {
  let url = start;
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    // An approval is for one host. Its server may redirect from http: to https:.
    const isApproved = call.isApproved && url.host === start.host && isApprovable(url.hostname, call.allowed);
    const allowed = isApproved ? PUBLIC_ONLY : call.allowed;
    // A lookup of an unlisted name could already send data to the name servers of an attacker.
    if (!mayResolve(url.hostname, allowed)) refuse(`${url.host} is not allowed. ${LISTING}`);
    const addresses = await resolveHost(url, call);
    const refused = vet(url.hostname, addresses, allowed);
    if (refused !== undefined) {
      refuse(`${url.host} is not allowed: ${refused.address} is ${refused.addressKind}. ${LISTING}`);
    }
    const answer = await exchangeWithAny(url, addresses, outgoing, call);
    const location = answer.headers["location"];
    if (![301, 302, 303, 307, 308].includes(answer.status) || location === undefined) {
      return { ...answer, url };
    }
    url = parseHttpUrl(location, url);
  }
  return refuse(`more than ${MAX_REDIRECTS} redirects`);
}

async function resolveHost({ hostname }: URL, { ports }: Call): Promise<readonly string[]> {
  const addresses = await ports.http.resolve(hostname);
  return addresses.length > 0 ? addresses : refuse(`host ${hostname} does not resolve to an address`);
}

async function exchangeWithAny(
  url: URL,
  addresses: readonly string[],
  outgoing: Outgoing,
  { ports, signal }: Call,
): Promise<HttpAnswer> {
  const headers = { "user-agent": USER_AGENT, ...outgoing.headers };
  let failure: HttpExchangeError | undefined;
  for (const address of addresses.slice(0, MAX_ADDRESSES)) {
    try {
      return await ports.http.exchange({ ...outgoing, url, address, headers, signal });
    } catch (error) {
      if (!(error instanceof HttpExchangeError)) throw error;
      failure = error;
      if (!error.isBeforeSending) break;
    }
  }
  return refuse(`${url.host} does not respond: ${failure?.message}`);
}

const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const MAX_SHOWN_ERROR = 500;

/** Requests JSON from a server that the operator configured, at any address. A redirect is not followed. */
export async function askBackend<T>(
  what: "Prometheus" | "Loki" | "Elasticsearch",
  schema: z.ZodType<T>,
  { path, query = {}, body }: {
    readonly path: string;
    readonly query?: Readonly<Record<string, string>>;
    readonly body?: unknown;
  },
  call: Call,
): Promise<T> {
  const setting = `${what.toUpperCase() as Uppercase<typeof what>}_URL` as const;
  const baseUrl = call.settings[setting];
  if (baseUrl === "") refuse(`${what} is not configured: the operator has to set ${setting}`);
  const base = new URL(baseUrl);
  const url = new URL(base.origin + base.pathname.replace(/(?<!\/)\/+$/, "") + path + base.search);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const answer = await exchangeWithConfigured(what, url, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      accept: "application/json",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...credentialsOf(base),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  }, call);
  const text = new TextDecoder().decode(answer.body);
  if (answer.status < 200 || answer.status > 299) {
    const shown = text.length <= MAX_SHOWN_ERROR ? text : dropPartialWord(text.slice(0, MAX_SHOWN_ERROR));
    refuse(`${what} responded ${answer.status}: ${shown}`);
  }
  const json = parseJson(text) ?? refuse(`the response of ${what} is not JSON`);
  return schema.safeParse(json).data ?? refuse(`the response of ${what} has an unknown form`);
}

/** Connects to a server that the operator configured, at any address. A redirect is not followed. */
export async function exchangeWithConfigured(
  what: string,
  url: URL,
  outgoing: Omit<Outgoing, "maxBytes">,
  call: Call,
): Promise<HttpAnswer> {
  const request = { ...outgoing, maxBytes: MAX_ANSWER_BYTES };
  const answer = await exchangeWithAny(url, await resolveHost(url, call), request, call);
  if (answer.isCut) {
    refuse(`the response of ${what} is larger than ${MAX_ANSWER_BYTES} bytes: narrow the query`);
  }
  const encoding = answer.headers["content-encoding"] ?? "identity";
  if (encoding !== "identity") refuse(`${what} sent a compressed response without a request for it`);
  return answer;
}

function credentialsOf({ username, password }: URL): Readonly<Record<string, string>> {
  if (username === "" && password === "") return {};
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { authorization: `Basic ${new TextEncoder().encode(pair).toBase64()}` };
}
