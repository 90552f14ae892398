import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { parseJson } from "@gateway/shared/json";
import type { ApiOutcome, ApiRequest } from "@gateway/shared/kubernetes";
import { cutText, shortenText } from "@gateway/shared/text";
import { type ClusterAction, FIELD_MANAGER, objectPath } from "@gateway/shared/policy";

/** How long an action may take, all of its requests together, in milliseconds. */
export const ACTION_MS = 30_000;

/** As much of what an API server says to a failure, or as a warning, as a text repeats, in characters. */
const MAX_DETAIL = 1000;
const MAX_WARNINGS = 20;

/** The part of a connection to an API server that is used here. */
export interface ApiConnection {
  request(request: ApiRequest): Promise<ApiOutcome>;
}

/** What the requests of one action have in common. */
export interface Asking {
  readonly connection: ApiConnection;
  readonly token: string;
  readonly clock: Clock;
  /** When the action has to be over, by the clock. */
  readonly endsAt: number;
  readonly signal: AbortSignal;
}

/** An answer of the API server that says that it has done what was asked. */
interface Answer {
  readonly text: string;
  /** What the API server warns of, such as a field that it does not know. */
  readonly warnings: readonly string[];
}

/**
 * Sends a request.
 *
 * @returns `undefined` when the answer is larger than allowed
 * @throws {AppError} `upstream_failure` when the API server refuses, or there is no whole answer; `canceled`
 */
export async function ask(
  { connection, token, clock, endsAt, signal }: Asking,
  request: KubernetesRequest,
  { maxBytes, accept }: { readonly maxBytes: number; readonly accept?: string },
): Promise<Answer | undefined> {
  const { method, path, query, body } = request;
  const outcome = await connection.request({
    method,
    path: `${path}${query}`,
    token,
    ...(body === undefined ? {} : { body }),
    ...(accept === undefined ? {} : { accept }),
    timeoutMs: Math.max(1, endsAt - clock.now()),
    maxBytes,
    signal,
  });
  switch (outcome.kind) {
    case "answered":
      if (outcome.status < 200 || outcome.status >= 300) {
        throw failure(request, describeRefusal(outcome.status, outcome.text));
      }
      return { text: outcome.text, warnings: readWarnings(outcome.headers["warning"]) };
    case "too_large":
      return undefined;
    case "timed_out":
      throw failure(request, "request timed out");
    case "canceled":
      throw new AppError("canceled", failure(request, "request canceled").message);
    case "untrusted":
      throw failure(
        request,
        "the API server's certificate is not one of the cluster's CA (ca_cert of the cluster in the signer's config)",
        outcome.cause,
      );
    case "unreachable":
      throw failure(
        request,
        outcome.cause instanceof Deno.errors.NotCapable
          ? "the API server is not among those that this broker may connect to (api_servers in its config)"
          : "could not reach the API server",
        outcome.cause,
      );
    default:
      return outcome satisfies never;
  }
}

/** What to say of a request that came to nothing. */
export function failure(
  { method, path }: Pick<KubernetesRequest, "method" | "path">,
  what: string,
  cause?: unknown,
): AppError {
  return new AppError("upstream_failure", `k8s: ${method} ${path}: ${what}`, { cause });
}

/**
 * An answer as the JSON object that it has to be.
 *
 * @throws {AppError} `upstream_failure`
 */
export function readObject(
  request: Pick<KubernetesRequest, "method" | "path">,
  text: string,
): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw failure(request, "the answer is not JSON", cause);
  }
  if (isObject(value)) return value;
  throw failure(request, "the answer is not a JSON object");
}

/** Whether a value is an object of JSON, and no array. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function describeRefusal(status: number, text: string): string {
  if (status < 400) return `${status} redirects are not followed`;
  const said = shortenText(messageOf(text) ?? text.trim(), MAX_DETAIL);
  const hint = status === 401
    ? " (the token has ended or was taken back: call again, or ask who has frozen it)"
    : "";
  return `${status} ${said}${hint}`;
}

/** The message of a Status object. */
function messageOf(text: string): string | undefined {
  try {
    const status = parseJson(text);
    if (isObject(status) && typeof status["message"] === "string") return status["message"];
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  return undefined;
}

/** The texts of a `Warning` header (RFC 7234 section 5.5). */
function readWarnings(header = ""): readonly string[] {
  const texts = [...header.matchAll(/299 \S+ "((?:[^"\\]|\\.)*)"/g)];
  return texts.slice(0, MAX_WARNINGS).map(([, text = ""]) =>
    cutText(text.replaceAll(/\\(.)/g, "$1"), MAX_DETAIL)
  );
}

export interface ActionResult {
  /** A JSON document, or the text of a log. */
  readonly output: string;
  /** What whoever asked should know beside it. */
  readonly warnings: readonly string[];
}

/** An answer that does not fit, and what to ask for instead. */
export function tooLarge(
  { verb }: Pick<ClusterAction, "verb">,
  request: Pick<KubernetesRequest, "method" | "path">,
  maxBytes: number,
): AppError {
  return failure(request, `response exceeds ${maxBytes}-byte limit${NARROWER[verb]}`);
}

/** How many bytes a text takes as UTF-8. */
export function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

const NARROWER = {
  get: "",
  list: "; narrow it with namespace, label_selector, field_selector or limit",
  logs: "; narrow it with tail_lines, since_seconds or container",
  apply: "; the change may have been made all the same",
  delete: "; it may have been deleted all the same",
} as const satisfies Record<ClusterAction["verb"], string>;

/** How many lines of a log there are where nobody says. */
export const DEFAULT_TAIL_LINES = 200;

/** The largest answer of the API server in general, and of its logs, in bytes. */
export const MAX_ANSWER_BYTES = { object: 4 << 20, logs: 512 << 10 } as const;

/** What narrows an action; what is absent or `""` or not positive does not count. */
export interface ActionOptions {
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** The most items of a list in all. */
  readonly limit?: number | undefined;
  /** Of a list: the Table of the API server in place of JSON. */
  readonly asTable?: boolean | undefined;
  readonly container?: string | undefined;
  readonly tailLines?: number | undefined;
  readonly sinceSeconds?: number | undefined;
  /** Of an apply: sent as it is. */
  readonly manifest?: string | undefined;
  /** Of an apply: the fields that it may take over from other managers. */
  readonly forceFields?: readonly string[] | undefined;
}

/** What a page of a list asks for beside its selectors. */
interface Page {
  readonly limit: number;
  /** Where the page before has ended. */
  readonly after: string | undefined;
}

/** A request to the API server, without token and limits. */
export interface KubernetesRequest {
  readonly method: "GET" | "PATCH" | "DELETE";
  readonly path: string;
  /** Begins with its question mark, or is empty. */
  readonly query: string;
  readonly body?: { readonly type: string; readonly bytes: Uint8Array };
}

/**
 * The request of an action, other than of a list.
 *
 * @throws {AppError} `invalid_request` where an object can't be without a namespace
 */
export function requestFor(
  action: ClusterAction,
  options: ActionOptions,
  maxBytes: number,
): KubernetesRequest {
  const path = pathOf(action);
  switch (action.verb) {
    case "get":
      return { method: "GET", path, query: "" };
    case "logs":
      return {
        method: "GET",
        path: `${path}/log`,
        query: queryOf([
          ["container", options.container],
          ["tailLines", positive(options.tailLines) ?? DEFAULT_TAIL_LINES],
          ["sinceSeconds", positive(options.sinceSeconds)],
          // One more than is taken: that there is more is seen, and nothing beyond that is sent.
          ["limitBytes", maxBytes + 1],
        ]),
      };
    case "delete":
      return { method: "DELETE", path, query: "" };
    case "apply":
      return {
        method: "PATCH",
        path,
        query: queryOf([["fieldManager", FIELD_MANAGER]]),
        body: {
          type: "application/apply-patch+yaml",
          bytes: new TextEncoder().encode(options.manifest ?? ""),
        },
      };
    case "list":
      throw new TypeError("A list has pages");
    default:
      return action.verb satisfies never;
  }
}

/** The request for one page of a list. */
export function pageRequest(
  action: ClusterAction,
  { labelSelector, fieldSelector }: ActionOptions,
  { limit, after }: Page,
): KubernetesRequest {
  return {
    method: "GET",
    path: pathOf(action),
    query: queryOf([
      ["labelSelector", labelSelector],
      ["fieldSelector", fieldSelector],
      ["limit", limit],
      ["continue", after],
    ]),
  };
}

export function positive(number: number | undefined): number | undefined {
  return number !== undefined && number > 0 ? number : undefined;
}

/** @throws {AppError} `invalid_request` for an object without the namespace that it has to be in */
export function pathOf(action: ClusterAction): string {
  const { verb, resource, namespace } = action;
  if (resource.namespaced && namespace === "" && verb !== "list") {
    throw new AppError("invalid_request", `k8s ${verb} of ${resource.resource} requires a namespace`);
  }
  return objectPath(action);
}

function queryOf(parts: readonly (readonly [key: string, value: string | number | undefined])[]): string {
  const given = parts.filter(([, value]) => value !== undefined && value !== "");
  if (given.length === 0) return "";
  return `?${
    given.map(([key, value]) => `${key}=${encodeURIComponent(String(value).toWellFormed())}`).join("&")
  }`;
}
