import type { AppError } from "@gateway/shared/errors";
import type { ClusterAction } from "@gateway/shared/policy";
import { failure } from "./ask.ts";
import type { KubernetesRequest } from "./request.ts";

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
