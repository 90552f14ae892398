import { parseJson } from "../engine/graph/json_objects.ts";
import { withoutCutWord } from "../engine/graph/text.ts";
import { refuse } from "./define_tool.ts";
import { fetchConfigured, type HttpPorts } from "./http_fetch.ts";

interface Backend {
  readonly what: string;
  readonly setting: string;
  /** Its base URL, which may contain credentials; empty if it is not set. */
  readonly baseUrl: string;
}

interface BackendRequest {
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** The server that the model names; refused unless it is the configured one. */
  readonly requestedUrl: string;
  readonly signal: AbortSignal;
}

const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const MAX_SHOWN_ERROR = 500;

export async function askBackend(
  backend: Backend,
  { path, query = {}, body, requestedUrl, signal }: BackendRequest,
  ports: HttpPorts,
): Promise<unknown> {
  const base = configuredUrl(backend, requestedUrl);
  const url = new URL(base);
  url.username = "";
  url.password = "";
  url.hash = "";
  url.pathname = base.pathname.replace(/(?<!\/)\/+$/, "") + path;
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const answer = await fetchConfigured(url, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      accept: "application/json",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...credentialsOf(base),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    maxBytes: MAX_ANSWER_BYTES,
    signal,
  }, ports);
  if (answer.isCut) {
    refuse(`The answer of ${backend.what} is larger than ${MAX_ANSWER_BYTES} bytes: ask for less`);
  }
  const encoding = answer.headers["content-encoding"] ?? "identity";
  if (encoding !== "identity") refuse(`${backend.what} compressed its answer although not asked to`);
  const text = new TextDecoder().decode(answer.body);
  if (answer.status < 200 || answer.status > 299) {
    refuse(`${backend.what} answered ${answer.status}: ${firstWords(text)}`);
  }
  return parseJson(text) ?? refuse(`${backend.what} answered with something other than JSON`);
}

function firstWords(text: string): string {
  return text.length <= MAX_SHOWN_ERROR ? text : withoutCutWord(text.slice(0, MAX_SHOWN_ERROR));
}

function configuredUrl({ what, setting, baseUrl }: Backend, requestedUrl: string): URL {
  if (baseUrl === "") refuse(`${what} is not configured: the operator has to set ${setting}`);
  const base = new URL(baseUrl);
  if (requestedUrl !== "" && !isSame(requestedUrl, base)) {
    refuse(`Only the configured server can be asked: leave base_url out`);
  }
  return base;
}

function isSame(requested: string, base: URL): boolean {
  if (!URL.canParse(requested)) return false;
  const { origin, pathname } = new URL(requested);
  return origin === base.origin &&
    pathname.replace(/(?<!\/)\/+$/, "") === base.pathname.replace(/(?<!\/)\/+$/, "");
}

function credentialsOf({ username, password }: URL): Readonly<Record<string, string>> {
  if (username === "" && password === "") return {};
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { authorization: `Basic ${new TextEncoder().encode(pair).toBase64()}` };
}
