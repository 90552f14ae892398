import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { parseJson } from "@gateway/shared/json";
import type { ApiOutcome, ApiRequest } from "@gateway/shared/kubernetes";
import { type ClusterAction, FIELD_MANAGER, objectPath } from "@gateway/shared/policy";
import { cutText, shortenText } from "@gateway/shared/text";

/** The time limit for all requests of an action together, in milliseconds. */
export const ACTION_MS = 30_000;
export const DEFAULT_TAIL_LINES = 200;
/** The largest answer of the API server in general, and of its logs, in bytes. */
export const MAX_ANSWER_BYTES = { object: 4 << 20, logs: 512 << 10 } as const;
const MAX_DETAIL = 1000;
const MAX_WARNINGS = 20;

/** Narrows an action. Absent, empty and non-positive values have no effect. */
export interface ActionOptions {
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  readonly limit?: number | undefined;
  /** A list as a Table of the API server instead of JSON. */
  readonly asTable?: boolean | undefined;
  readonly container?: string | undefined;
  readonly tailLines?: number | undefined;
  readonly sinceSeconds?: number | undefined;
  /** The manifest of an apply, sent unchanged. */
  readonly manifest?: string | undefined;
  /** The fields of other managers that an apply may overwrite. */
  readonly forceFields?: readonly string[] | undefined;
}

export interface KubernetesRequest {
  readonly method: "GET" | "PATCH" | "DELETE";
  readonly path: string;
  /** The query string with its question mark, or empty. */
  readonly query: string;
  readonly body?: { readonly type: string; readonly bytes: Uint8Array };
}

/**
 * The request of an action, or of a page of a list.
 * @throws {AppError} `invalid_request` if the object needs a namespace
 */
export function requestFor(
  action: ClusterAction,
  options: ActionOptions,
  { maxBytes, limit, after }: {
    readonly maxBytes: number;
    readonly limit?: number;
    readonly after?: string | undefined;
  },
): KubernetesRequest {
  const path = pathOf(action);
  switch (action.verb) {
    case "get":
      return { method: "GET", path, query: "" };
    case "logs":
      return {
        method: "GET",
        path: `${path}/log`,
        query: queryOf({
          container: options.container,
          tailLines: positive(options.tailLines) ?? DEFAULT_TAIL_LINES,
          sinceSeconds: positive(options.sinceSeconds),
          // One byte more than the limit shows that there is more.
          limitBytes: maxBytes + 1,
        }),
      };
    case "delete":
      return { method: "DELETE", path, query: "" };
    case "apply": {
      const bytes = new TextEncoder().encode(options.manifest ?? "");
      const body = { type: "application/apply-patch+yaml", bytes };
      return { method: "PATCH", path, query: queryOf({ fieldManager: FIELD_MANAGER }), body };
    }
    case "list": {
      const { labelSelector, fieldSelector } = options;
      const query = queryOf({ labelSelector, fieldSelector, limit, continue: after });
      return { method: "GET", path, query };
    }
    default:
      return action.verb satisfies never;
  }
}

export function positive(number: number | undefined): number | undefined {
  return number !== undefined && number > 0 ? number : undefined;
}

/** @throws {AppError} `invalid_request` if the object needs a namespace */
export function pathOf(action: ClusterAction): string {
  const { verb, resource, namespace } = action;
  if (resource.namespaced && namespace === "" && verb !== "list") {
    throw new AppError("invalid_request", `k8s ${verb} of ${resource.resource} requires a namespace`);
  }
  return objectPath(action);
}

function queryOf(parameters: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(parameters)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([key, value]) => `${key}=${encodeURIComponent(String(value).toWellFormed())}`);
  return given.length === 0 ? "" : `?${given.join("&")}`;
}

export interface ApiConnection {
  request(request: ApiRequest): Promise<ApiOutcome>;
}

export interface ApiCall {
  readonly connection: ApiConnection;
  readonly token: string;
  readonly clock: Clock;
  readonly endsAt: number;
  readonly signal: AbortSignal;
}

/**
 * Sends a request.
 * @returns `undefined` if the answer is larger than allowed
 * @throws {AppError} `upstream_failure` if the API server rejects the request or there is no whole answer; `canceled`
 */
export async function send(
  { connection, token, clock, endsAt, signal }: ApiCall,
  request: KubernetesRequest,
  { maxBytes, accept }: { readonly maxBytes: number; readonly accept?: string },
): Promise<{ readonly text: string; readonly warnings: readonly string[] } | undefined> {
  const { method, path, query, body } = request;
  const outcome = await connection.request({
    ...{ method, path: `${path}${query}`, token, maxBytes, signal },
    ...(body !== undefined && { body }),
    ...(accept !== undefined && { accept }),
    timeoutMs: Math.max(1, endsAt - clock.now()),
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
        "the cluster's CA did not issue the API server's certificate (ca_cert of the cluster in the signer's config)",
        outcome.cause,
      );
    case "unreachable":
      throw failure(
        request,
        outcome.cause instanceof Deno.errors.NotCapable
          ? "this broker must not connect to the API server (api_servers in its config)"
          : "could not reach the API server",
        outcome.cause,
      );
    default:
      return outcome satisfies never;
  }
}

export function failure(
  { method, path }: Pick<KubernetesRequest, "method" | "path">,
  what: string,
  cause?: unknown,
): AppError {
  return new AppError("upstream_failure", `k8s: ${method} ${path}: ${what}`, { cause });
}

type JsonObject = Readonly<Record<string, unknown>>;

/** @throws {AppError} `upstream_failure` if the answer is not a JSON object */
export function readObject(request: Pick<KubernetesRequest, "method" | "path">, text: string): JsonObject {
  const value = readJson(text);
  if (isObject(value)) return value;
  throw failure(request, `the answer is not ${value === undefined ? "JSON" : "a JSON object"}`);
}

/** @returns `undefined` if the text is not JSON */
function readJson(text: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function describeRefusal(status: number, text: string): string {
  if (status < 400) return `${status} redirects are not followed`;
  const detail = shortenText(messageOf(text) ?? text.trim(), MAX_DETAIL);
  const hint = status === 401
    ? " (the token has expired or was revoked: call again, or ask an operator about a freeze)"
    : "";
  return `${status} ${detail}${hint}`;
}

function messageOf(text: string): string | undefined {
  const status = readJson(text);
  return isObject(status) && typeof status["message"] === "string" ? status["message"] : undefined;
}

/** The texts of a `Warning` header (RFC 7234 section 5.5). */
function readWarnings(header = ""): readonly string[] {
  const texts = [...header.matchAll(/299 \S+ "((?:[^"\\]|\\.)*)"/g)];
  return texts.slice(0, MAX_WARNINGS).map(([, text = ""]) =>
    cutText(text.replaceAll(/\\(.)/g, "$1"), MAX_DETAIL)
  );
}

export interface ActionResult {
  readonly output: string;
  readonly warnings: readonly string[];
}

export function tooLarge(
  { verb }: Pick<ClusterAction, "verb">,
  request: Pick<KubernetesRequest, "method" | "path">,
  maxBytes: number,
): AppError {
  return failure(request, `response exceeds ${maxBytes}-byte limit${NARROWER[verb]}`);
}

const NARROWER = {
  get: "",
  list: "; narrow it with namespace, label_selector, field_selector or limit",
  logs: "; narrow it with tail_lines, since_seconds or container",
  apply: "; the change may have been made",
  delete: "; the object may have been deleted",
} as const satisfies Record<ClusterAction["verb"], string>;
