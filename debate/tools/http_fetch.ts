/**
 * Each name is resolved once per hop. The addresses are checked, and the connection goes to a checked
 * address: DNS rebinding has no effect.
 */
import { refuse } from "./define_tool.ts";
import { type HttpAnswer, type HttpExchange, HttpExchangeError, type Resolve } from "./http_exchange.ts";
import { type AllowList, vet } from "./net_guard.ts";

/** How requests are sent. */
export interface HttpPorts {
  readonly exchange: HttpExchange;
  readonly resolve: Resolve;
}

interface Outgoing {
  readonly method: "GET" | "POST";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly maxBytes: number;
  readonly signal: AbortSignal;
}

/** An answer, and the URL that it came from in the end. */
export interface FetchedAnswer extends HttpAnswer {
  readonly url: URL;
}

const MAX_REDIRECTS = 3;
const MAX_ADDRESSES = 4;
const USER_AGENT = "diagnosis-debate";

export function parseHttpUrl(text: string, base?: URL): URL {
  if (!URL.canParse(text, base)) refuse(`Not a URL: ${JSON.stringify(text)}`);
  const url = new URL(text, base);
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    refuse(`Only http: and https: are possible, not ${url.protocol}`);
  }
  if (url.username !== "" || url.password !== "") refuse("A URL must not contain credentials");
  return url;
}

export async function fetchGuarded(
  start: URL,
  outgoing: Outgoing,
  { ports, allowed }: { readonly ports: HttpPorts; readonly allowed: AllowList },
): Promise<FetchedAnswer> {
  let url = start;
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    const addresses = await resolveHost(url, ports.resolve);
    const verdict = vet(url.hostname, addresses, allowed);
    if (verdict.kind === "refused") {
      refuse(
        `${url.host} is not reachable for this tool: ${verdict.address} is ${verdict.addressKind}. ` +
          "The operator can allow it in HTTP_ALLOWED_HOSTS",
      );
    }
    const answer = await exchangeWithAny(url, addresses, outgoing, ports.exchange);
    const location = answer.headers["location"];
    if (![301, 302, 303, 307, 308].includes(answer.status) || location === undefined) {
      return { ...answer, url };
    }
    url = parseHttpUrl(location, url);
  }
  return refuse(`More than ${MAX_REDIRECTS} redirects`);
}

/**
 * Sends a request to a server that the operator configured, wherever it is. A redirect is an answer like any
 * other.
 */
export async function fetchConfigured(url: URL, outgoing: Outgoing, ports: HttpPorts): Promise<HttpAnswer> {
  return await exchangeWithAny(url, await resolveHost(url, ports.resolve), outgoing, ports.exchange);
}

async function resolveHost(url: URL, resolve: Resolve): Promise<readonly string[]> {
  const addresses = await resolve(url.hostname);
  if (addresses.length === 0) refuse(`The name ${url.hostname} does not resolve to an address`);
  return addresses;
}

async function exchangeWithAny(
  url: URL,
  addresses: readonly string[],
  { method, headers = {}, body, maxBytes, signal }: Outgoing,
  exchange: HttpExchange,
): Promise<HttpAnswer> {
  let failure: HttpExchangeError | undefined;
  for (const address of addresses.slice(0, MAX_ADDRESSES)) {
    try {
      return await exchange({
        url,
        address,
        method,
        headers: { "user-agent": USER_AGENT, ...headers },
        ...(body === undefined ? {} : { body }),
        maxBytes,
        signal,
      });
    } catch (error) {
      if (!(error instanceof HttpExchangeError)) throw error;
      failure = error;
      if (!error.isBeforeSending) break;
    }
  }
  return refuse(`${url.host} does not answer: ${failure?.message}`);
}
