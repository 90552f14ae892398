import { AppError } from "@gateway/shared/errors";
import { type ClusterAction, FIELD_MANAGER, objectPath } from "@gateway/shared/policy";

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
