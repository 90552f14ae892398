import { Buffer } from "node:buffer";
import type { Clock } from "@gateway/shared/clock";
import { stringifyJson } from "@gateway/shared/json";
import { maskObject, maskText, readConflicts } from "@gateway/shared/kubernetes";
import type { ClusterAction } from "@gateway/shared/policy";
import type { Redactor } from "@gateway/shared/redact";
import { visibleText } from "@gateway/shared/text";
import {
  ACTION_MS,
  type ActionOptions,
  type ActionResult,
  type ApiCall,
  failure,
  isObject,
  type KubernetesRequest,
  MAX_ANSWER_BYTES,
  positive,
  readObject,
  requestFor,
  send,
  tooLarge,
} from "./api_call.ts";

export interface ActPorts {
  readonly clock: Clock;
  readonly redact: Redactor;
  /** The longest output, in bytes, if the specification allows more. */
  readonly maxOutputBytes: number;
}

/**
 * Acts on a cluster with the token that was issued for the action.
 * @throws {AppError} `upstream_failure`, `canceled`, or `invalid_request` if no API server accepts the request
 */
export async function act(
  { clock, redact, maxOutputBytes }: ActPorts,
  { connection, token, action, options, reveal }: Pick<ApiCall, "connection" | "token"> & {
    readonly action: ClusterAction;
    readonly options: ActionOptions;
    /** The rule that allows the action reveals values of Secrets. */
    readonly reveal: boolean;
  },
  signal: AbortSignal,
): Promise<ActionResult> {
  const call: ApiCall = { connection, token, clock, endsAt: clock.now() + ACTION_MS, signal };
  const { verb, resource } = action;
  const isMasked = resource.group === "" && resource.resource === "secrets" && !reveal;
  const maxBytes = Math.min(maxOutputBytes, MAX_ANSWER_BYTES[verb === "logs" ? "logs" : "object"]);
  if (verb === "list") return await list(call, action, { ...options, maxBytes, isMasked });
  const request = await withForce(call, requestFor(action, options, { maxBytes }), options);
  const answer = await send(call, request, {
    maxBytes: isMasked && verb !== "logs" ? MAX_ANSWER_BYTES.object : maxBytes,
    ...(verb === "logs" && { accept: "*/*" }),
  });
  if (answer === undefined) throw tooLarge(action, request, maxBytes);
  const { text, warnings } = answer;
  if (verb === "logs") return { output: redact(text), warnings };
  if (!isMasked) {
    readObject(request, text);
    return { output: text, warnings };
  }
  const output = maskText(text, { isSecret: true });
  if (output === undefined) {
    throw failure(request, "cannot mask the values of an unreadable answer");
  }
  if (Buffer.byteLength(output) > maxBytes) throw tooLarge(action, request, maxBytes);
  return { output, warnings };
}

/**
 * Forces an apply if all fields that conflict at this moment are named: force itself knows no fields. If any other
 * field conflicts, the apply is sent without force and fails with that conflict.
 */
async function withForce(
  { connection, token, clock, endsAt, signal }: ApiCall,
  request: KubernetesRequest,
  { forceFields = [] }: ActionOptions,
): Promise<KubernetesRequest> {
  const { method, path, query, body } = request;
  if (forceFields.length === 0 || body === undefined) return request;
  const tried = await connection.request({
    ...{ method, path: `${path}${query}&dryRun=All`, token, body, signal },
    timeoutMs: Math.max(1, endsAt - clock.now()),
    maxBytes: MAX_ANSWER_BYTES.object,
  });
  const fields = tried.kind === "answered" && tried.status === 409 ? readConflicts(tried.text) : [];
  const isNamed = fields.length > 0 && fields.every((field) => forceFields.includes(field));
  return isNamed ? { ...request, query: `${query}&force=true` } : request;
}

export interface ListOptions
  extends Pick<ActionOptions, "labelSelector" | "fieldSelector" | "limit" | "asTable"> {
  readonly maxBytes: number;
  readonly isMasked: boolean;
}

interface PageText {
  readonly head: string;
  readonly items: readonly string[];
  readonly separator: string;
  readonly tail: string;
}

interface Page extends PageText {
  /** The start of the next page. `undefined`: this is the last page. */
  readonly next: string | undefined;
  /** The number of items after this page. 0: the API server does not report it. */
  readonly toCome: number;
  readonly warnings: readonly string[];
}

const PAGE_ITEMS = 100;
/** The Table of the API server, as kubectl requests it. A server without Tables answers with the list. */
const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
/** The columns of a Table of Secrets that cannot hold a value. */
const PLAIN_COLUMNS: ReadonlySet<unknown> = new Set(["Name", "Type", "Data", "Age"]);

/**
 * Lists objects page by page, as one list. A warning reports omitted items.
 * @throws {AppError} `upstream_failure`, or `canceled`
 */
export async function list(
  call: ApiCall,
  action: ClusterAction,
  options: ListOptions,
): Promise<ActionResult> {
  const most = positive(options.limit) ?? Infinity;
  const warnings = new Set<string>();
  const shown: string[] = [];
  let first: Page | undefined;
  let room = options.maxBytes;
  let pageItems = PAGE_ITEMS;
  let after: string | undefined;
  for (;;) {
    const limit = Math.min(pageItems, most - shown.length);
    const request = requestFor(action, options, { maxBytes: options.maxBytes, limit, after });
    const page = await askPage(call, action, { request, options });
    if (page === undefined) {
      if (limit === 1) throw tooLarge(action, request, options.maxBytes);
      pageItems = Math.max(1, Math.floor(limit / 4));
      continue;
    }
    for (const warning of page.warnings) warnings.add(warning);
    if (first === undefined) room -= Buffer.byteLength(page.head + page.tail);
    first ??= page;
    let stop: "limit" | "size" | undefined;
    const before = shown.length;
    for (const item of page.items) {
      const size = Buffer.byteLength(item + page.separator);
      if (shown.length >= most) stop = "limit";
      else if (size > room) stop = "size";
      if (stop !== undefined) break;
      room -= size;
      shown.push(item);
    }
    if (page.next !== undefined && shown.length >= most) stop ??= "limit";
    if (stop !== undefined) {
      if (shown.length === 0) throw tooLarge(action, request, options.maxBytes);
      const left = page.items.length - (shown.length - before) + page.toCome;
      warnings.add(describeStop(stop, page, { shown: shown.length, left, maxBytes: options.maxBytes }));
    }
    if (stop !== undefined || page.next === undefined) {
      return { output: first.head + shown.join(first.separator) + first.tail, warnings: [...warnings] };
    }
    after = page.next;
  }
}

/** @returns `undefined` if the page is larger than the largest answer */
async function askPage(
  call: ApiCall,
  action: ClusterAction,
  { request, options }: { readonly request: KubernetesRequest; readonly options: ListOptions },
): Promise<Page | undefined> {
  const maxBytes = MAX_ANSWER_BYTES.object;
  const answer = await send(call, request, { maxBytes, ...(options.asTable === true && { accept: TABLE }) });
  if (answer === undefined) return undefined;
  const body = readObject(request, answer.text);
  const { continue: next, remainingItemCount: toCome } = objectOr(body["metadata"]);
  const page = body["kind"] === "Table" ? readTable(body, action, options) : readList(body, options);
  if (page === undefined) throw failure(request, "the answer is not a list");
  return {
    ...page,
    next: typeof next === "string" && next !== "" ? next : undefined,
    toCome: typeof toCome === "number" ? toCome : 0,
    warnings: answer.warnings,
  };
}

function objectOr(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {};
}

/** JSON with one item on each line, so that truncation between lines is truncation between items. */
function readList(
  { items, metadata, ...others }: Readonly<Record<string, unknown>>,
  { isMasked }: ListOptions,
): PageText | undefined {
  if (!Array.isArray(items)) return undefined;
  const { continue: _next, remainingItemCount: _toCome, ...meta } = objectOr(metadata);
  return {
    head: `${stringifyJson({ ...others, metadata: meta }).slice(0, -1)},"items":[\n`,
    items: items.map((item) =>
      stringifyJson(withoutManagedFields(isMasked ? maskObject(item, { isSecret: true }) : item))
    ),
    separator: ",\n",
    tail: "\n]}\n",
  };
}

/** The managers of fields are half of a pod and useless to a model. */
function withoutManagedFields(item: unknown): unknown {
  if (!isObject(item) || !isObject(item["metadata"])) return item;
  const { managedFields: _, ...metadata } = item["metadata"];
  return { ...item, metadata };
}

/** One line for each item, with tabs between the columns that `kubectl get` shows. */
function readTable(
  { columnDefinitions, rows }: Readonly<Record<string, unknown>>,
  { namespace, resource }: ClusterAction,
  { isMasked }: ListOptions,
): PageText | undefined {
  if (!Array.isArray(columnDefinitions) || !Array.isArray(rows)) return undefined;
  const columns = columnDefinitions.flatMap((column: unknown, index) =>
    isObject(column) && !column["priority"] && (!isMasked || PLAIN_COLUMNS.has(column["name"]))
      ? [{ index, name: showCell(column["name"]).toUpperCase() }]
      : []
  );
  const isAcross = resource.namespaced && namespace === "";
  const lineOf = (cells: readonly string[], where: string) =>
    (isAcross ? [where, ...cells] : cells).join("\t");
  return {
    head: `${lineOf(columns.map(({ name }) => name), "NAMESPACE")}\n`,
    items: rows.map((row: unknown) => {
      const { cells, object } = objectOr(row);
      const { namespace: where } = objectOr(objectOr(object)["metadata"]);
      const shown = columns.map(({ index }) => showCell(Array.isArray(cells) ? cells[index] : undefined));
      return lineOf(shown, showCell(where));
    }),
    separator: "\n",
    tail: "\n",
  };
}

function showCell(value: unknown): string {
  if (value === undefined || value === null) return "<none>";
  return visibleText(typeof value === "string" ? value : stringifyJson(value));
}

function describeStop(
  stop: "limit" | "size",
  { next, toCome }: Page,
  { shown, left, maxBytes }: { readonly shown: number; readonly left: number; readonly maxBytes: number },
): string {
  // With a selector, the API server does not report the number of later items.
  const isLeast = next !== undefined && toCome === 0;
  const more = left > 0 ? `${isLeast ? "at least " : ""}${left} more remain` : "more remain";
  return stop === "limit"
    ? `the list stops at the limit of ${shown}; ${more}`
    : `the list stops after ${shown} items, at ${maxBytes} bytes; ${more}: ` +
      "narrow it with namespace, label_selector or field_selector";
}
