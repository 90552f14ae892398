import { stringifyJson } from "@gateway/shared/json";
import { maskObject } from "@gateway/shared/kubernetes/secrets";
import type { ClusterAction } from "@gateway/shared/policy/kubernetes";
import { ask, type Asking, failure, isObject, readObject } from "./ask.ts";
import {
  type ActionOptions,
  type KubernetesRequest,
  MAX_ANSWER_BYTES,
  pageRequest,
  positive,
} from "./request.ts";
import { type ActionResult, byteLength, tooLarge } from "./result.ts";

/** How many items are asked for at a time. */
const PAGE_ITEMS = 100;

/** How a list is to be given. */
export interface ListWish extends Pick<ActionOptions, "labelSelector" | "fieldSelector" | "limit"> {
  /** The longest output, in bytes. */
  readonly maxBytes: number;
  /** Its items are Secrets, whose values are not for whoever asks. */
  readonly isMasked: boolean;
}

/** A page as the API server gave it. */
interface Page {
  readonly text: string;
  /** The list without its items, and without where it goes on. */
  readonly frame: Readonly<Record<string, unknown>>;
  readonly items: readonly unknown[];
  /** Where the next page begins; `undefined`: this is the last. */
  readonly next: string | undefined;
  /** How many items the API server says are still to come; 0: it does not say. */
  readonly toCome: number;
  readonly warnings: readonly string[];
}

/** Why items are left out. */
type Stop = "limit" | "size";

/**
 * Lists objects, page by page, as one list; that something is left out is said.
 *
 * @throws {AppError} `upstream_failure`, or `canceled`
 */
export async function list(asking: Asking, action: ClusterAction, wish: ListWish): Promise<ActionResult> {
  const most = positive(wish.limit) ?? Infinity;
  const warnings = new Set<string>();
  const shown: string[] = [];
  let frame: Page["frame"] | undefined;
  let room = wish.maxBytes;
  let pageItems = PAGE_ITEMS;
  let after: string | undefined;
  for (;;) {
    const limit = Math.min(pageItems, most - shown.length);
    const request = pageRequest(action, wish, { limit, after });
    const page = await askPage(asking, request);
    if (page === undefined) {
      if (limit === 1) throw tooLarge(action, request, wish.maxBytes);
      pageItems = Math.max(1, Math.floor(limit / 4));
      continue;
    }
    for (const warning of page.warnings) warnings.add(warning);
    if (frame === undefined) {
      if (isAllOf(page, most, wish)) return { output: page.text, warnings: [...warnings] };
      frame = page.frame;
      room -= byteLength(stringifyJson({ ...frame, items: [] }));
    }
    const { taken, stop } = take(page, { room, most: most - shown.length, isMasked: wish.isMasked });
    for (const item of taken) room -= byteLength(item) + 1;
    shown.push(...taken);
    if (stop !== undefined) {
      if (shown.length === 0) throw tooLarge(action, request, wish.maxBytes);
      const left = page.items.length - taken.length + page.toCome;
      warnings.add(describeStop(stop, { shown: shown.length, left, maxBytes: wish.maxBytes }));
    }
    if (stop !== undefined || page.next === undefined) {
      return { output: joinList(frame, shown), warnings: [...warnings] };
    }
    after = page.next;
  }
}

/** Whether one page is the whole list, to be given as it came. */
function isAllOf({ text, items, next }: Page, most: number, { maxBytes, isMasked }: ListWish): boolean {
  return next === undefined && items.length <= most && !isMasked && byteLength(text) <= maxBytes;
}

/** As many items of a page as there may be, each as JSON. */
function take(
  { items, next }: Page,
  { room, most, isMasked }: { readonly room: number; readonly most: number; readonly isMasked: boolean },
): { readonly taken: readonly string[]; readonly stop: Stop | undefined } {
  const taken: string[] = [];
  let left = room;
  for (const item of items) {
    if (taken.length >= most) return { taken, stop: "limit" };
    const text = stringifyJson(isMasked ? maskObject(item, { isSecret: true }) : item);
    left -= byteLength(text) + 1;
    if (left < 0) return { taken, stop: "size" };
    taken.push(text);
  }
  return { taken, stop: next !== undefined && taken.length >= most ? "limit" : undefined };
}

/** @returns `undefined` when it is larger than what is read of an answer */
async function askPage(asking: Asking, request: KubernetesRequest): Promise<Page | undefined> {
  const answer = await ask(asking, request, { maxBytes: MAX_ANSWER_BYTES.object });
  if (answer === undefined) return undefined;
  const { items, metadata, ...others } = readObject(request, answer.text);
  if (!Array.isArray(items)) throw failure(request, "the answer is not a list");
  const { continue: next, remainingItemCount: toCome, ...meta } = isObject(metadata) ? metadata : {};
  return {
    text: answer.text,
    frame: { ...others, metadata: meta },
    items,
    next: typeof next === "string" && next !== "" ? next : undefined,
    toCome: typeof toCome === "number" ? toCome : 0,
    warnings: answer.warnings,
  };
}

function joinList(frame: Page["frame"], items: readonly string[]): string {
  // The items are JSON already, and long.
  return `${stringifyJson(frame).slice(0, -1)},"items":[${items.join(",")}]}`;
}

function describeStop(
  stop: Stop,
  { shown, left, maxBytes }: { readonly shown: number; readonly left: number; readonly maxBytes: number },
): string {
  const more = left > 0 ? `${left} more remain` : "more remain";
  switch (stop) {
    case "limit":
      return `the list stops at the limit of ${shown}; ${more}`;
    case "size":
      return `the list stops after ${shown} items, at ${maxBytes} bytes; ${more}: ` +
        "narrow it with namespace, label_selector or field_selector";
    default:
      return stop satisfies never;
  }
}
