import type { Clock } from "@gateway/shared/clock";
import { maskObject, maskText, readConflicts } from "@gateway/shared/kubernetes";
import type { ClusterAction } from "@gateway/shared/policy";
import type { Redactor } from "@gateway/shared/redact";
import {
  ACTION_MS,
  type ActionOptions,
  type ActionResult,
  type ApiConnection,
  ask,
  type Asking,
  byteLength,
  failure,
  isObject,
  type KubernetesRequest,
  MAX_ANSWER_BYTES,
  pageRequest,
  positive,
  readObject,
  requestFor,
  tooLarge,
} from "./ask.ts";
import { stringifyJson } from "@gateway/shared/json";
import { visibleText } from "@gateway/shared/text";

/** What it takes to act on a cluster. */
export interface ActPorts {
  readonly clock: Clock;
  readonly redact: Redactor;
  /** The longest output, in bytes, where the specification allows more. */
  readonly maxOutputBytes: number;
}

/** An action that may be done. */
interface AllowedAction {
  readonly connection: ApiConnection;
  /** The token that was made for it: a secret. */
  readonly token: string;
  readonly action: ClusterAction;
  readonly options: ActionOptions;
  /** The rule that allows it lets values of Secrets be seen. */
  readonly reveal: boolean;
}

/**
 * Does what is allowed, with the token that was made for it.
 *
 * @throws {AppError} `upstream_failure`, `canceled`, or `invalid_request` for what no API server takes
 */
export async function act(
  { clock, redact, maxOutputBytes }: ActPorts,
  { connection, token, action, options, reveal }: AllowedAction,
  signal: AbortSignal,
): Promise<ActionResult> {
  const asking: Asking = { connection, token, clock, endsAt: clock.now() + ACTION_MS, signal };
  const isMasked = isSecret(action) && !reveal;
  const maxBytes = Math.min(
    maxOutputBytes,
    action.verb === "logs" ? MAX_ANSWER_BYTES.logs : MAX_ANSWER_BYTES.object,
  );
  if (action.verb === "list") return await list(asking, action, { ...options, maxBytes, isMasked });
  const request = await withForce(asking, requestFor(action, options, maxBytes), options);
  if (action.verb === "logs") {
    const answer = await ask(asking, request, { maxBytes, accept: "*/*" });
    if (answer === undefined) throw tooLarge(action, request, maxBytes);
    return { output: redact(answer.text), warnings: answer.warnings };
  }
  const answer = await ask(asking, request, { maxBytes: isMasked ? MAX_ANSWER_BYTES.object : maxBytes });
  if (answer === undefined) throw tooLarge(action, request, maxBytes);
  const { text, warnings } = answer;
  if (!isMasked) {
    readObject(request, text);
    return { output: text, warnings };
  }
  const output = maskText(text, { isSecret: true });
  if (output === undefined) {
    throw failure(request, "the answer can't be read, and so its values can't be masked");
  }
  if (byteLength(output) > maxBytes) throw tooLarge(action, request, maxBytes);
  return { output, warnings };
}

/**
 * Forces an apply if all fields that conflict at this moment are named: force itself knows no fields. If any other field
 * conflicts, the apply is sent without force, and fails as it would for everybody.
 */
async function withForce(
  { connection, token, clock, endsAt, signal }: Asking,
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

/** Whether an action is about Secrets, whose values not everybody may see who may see the rest. */
function isSecret({ resource }: Pick<ClusterAction, "resource">): boolean {
  return resource.group === "" && resource.resource === "secrets";
}

/** How many items are asked for at a time. */
const PAGE_ITEMS = 100;

/** How a list is to be given. */
export interface ListWish
  extends Pick<ActionOptions, "labelSelector" | "fieldSelector" | "limit" | "asTable"> {
  /** The longest output, in bytes. */
  readonly maxBytes: number;
  /** Its items are Secrets, whose values are not for whoever asks. */
  readonly isMasked: boolean;
}

/** A page of a list, as text. */
interface Page {
  readonly head: string;
  readonly items: readonly string[];
  readonly separator: string;
  readonly tail: string;
  /** Where the next page begins; `undefined`: this is the last. */
  readonly next: string | undefined;
  /** How many items the API server says are still to come; 0: it does not say. */
  readonly toCome: number;
  readonly warnings: readonly string[];
}

type Stop = "limit" | "size";

/** The Table of the API server, as kubectl requests it; a server without Tables answers with the list. */
const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
/** The columns of a Table of Secrets that cannot hold a value. */
const PLAIN_COLUMNS: ReadonlySet<unknown> = new Set(["Name", "Type", "Data", "Age"]);

/**
 * Lists objects, page by page, as one list; that something is left out is said.
 *
 * @throws {AppError} `upstream_failure`, or `canceled`
 */
export async function list(asking: Asking, action: ClusterAction, wish: ListWish): Promise<ActionResult> {
  const most = positive(wish.limit) ?? Infinity;
  const warnings = new Set<string>();
  const shown: string[] = [];
  let first: Page | undefined;
  let room = wish.maxBytes;
  let pageItems = PAGE_ITEMS;
  let after: string | undefined;
  for (;;) {
    const limit = Math.min(pageItems, most - shown.length);
    const request = pageRequest(action, wish, { limit, after });
    const page = await askPage(asking, action, request, wish);
    if (page === undefined) {
      if (limit === 1) throw tooLarge(action, request, wish.maxBytes);
      pageItems = Math.max(1, Math.floor(limit / 4));
      continue;
    }
    for (const warning of page.warnings) warnings.add(warning);
    if (first === undefined) room -= byteLength(page.head + page.tail);
    first ??= page;
    const { taken, stop } = take(page, { room, most: most - shown.length });
    for (const item of taken) room -= byteLength(item + page.separator);
    shown.push(...taken);
    if (stop !== undefined) {
      if (shown.length === 0) throw tooLarge(action, request, wish.maxBytes);
      warnings.add(describeStop(stop, page, {
        shown: shown.length,
        left: page.items.length - taken.length + page.toCome,
        maxBytes: wish.maxBytes,
      }));
    }
    if (stop !== undefined || page.next === undefined) {
      return { output: first.head + shown.join(first.separator) + first.tail, warnings: [...warnings] };
    }
    after = page.next;
  }
}

/** As many items of a page as there may be. */
function take(
  { items, separator, next }: Page,
  { room, most }: { readonly room: number; readonly most: number },
): { readonly taken: readonly string[]; readonly stop: Stop | undefined } {
  let left = room;
  for (const [index, item] of items.entries()) {
    if (index >= most) return { taken: items.slice(0, index), stop: "limit" };
    left -= byteLength(item + separator);
    if (left < 0) return { taken: items.slice(0, index), stop: "size" };
  }
  return { taken: items, stop: next !== undefined && items.length >= most ? "limit" : undefined };
}

/** @returns `undefined` when it is larger than what is read of an answer */
async function askPage(
  asking: Asking,
  action: ClusterAction,
  request: KubernetesRequest,
  wish: ListWish,
): Promise<Page | undefined> {
  const maxBytes = MAX_ANSWER_BYTES.object;
  const answer = await ask(asking, request, { maxBytes, ...(wish.asTable === true && { accept: TABLE }) });
  if (answer === undefined) return undefined;
  const body = readObject(request, answer.text);
  const metadata = isObject(body["metadata"]) ? body["metadata"] : {};
  const { continue: next, remainingItemCount: toCome } = metadata;
  const page = body["kind"] === "Table" ? readTable(body, action, wish) : readList(body, wish);
  if (page === undefined) throw failure(request, "the answer is not a list");
  return {
    ...page,
    next: typeof next === "string" && next !== "" ? next : undefined,
    toCome: typeof toCome === "number" ? toCome : 0,
    warnings: answer.warnings,
  };
}

type PageText = Pick<Page, "head" | "items" | "separator" | "tail">;

/** JSON with an item a line, so that a text that is cut between lines is cut between items. */
function readList(
  { items, metadata, ...others }: Readonly<Record<string, unknown>>,
  { isMasked }: ListWish,
): PageText | undefined {
  if (!Array.isArray(items)) return undefined;
  const { continue: _next, remainingItemCount: _toCome, ...meta } = isObject(metadata) ? metadata : {};
  return {
    head: `${stringifyJson({ ...others, metadata: meta }).slice(0, -1)},"items":[\n`,
    items: items.map((item) =>
      stringifyJson(withoutManagedFields(isMasked ? maskObject(item, { isSecret: true }) : item))
    ),
    separator: ",\n",
    tail: "\n]}\n",
  };
}

/** Who set which field takes up half of a pod and tells a model nothing. */
function withoutManagedFields(item: unknown): unknown {
  if (!isObject(item) || !isObject(item["metadata"])) return item;
  const { managedFields: _, ...metadata } = item["metadata"];
  return { ...item, metadata };
}

/** A line for each item, with tabs between the columns that `kubectl get` shows. */
function readTable(
  { columnDefinitions, rows }: Readonly<Record<string, unknown>>,
  { namespace, resource }: ClusterAction,
  { isMasked }: ListWish,
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
      const { cells, object } = isObject(row) ? row : {};
      const meta = isObject(object) && isObject(object["metadata"]) ? object["metadata"] : {};
      const shown = columns.map(({ index }) => showCell(Array.isArray(cells) ? cells[index] : undefined));
      return lineOf(shown, showCell(meta["namespace"]));
    }),
    separator: "\n",
    tail: "\n",
  };
}

/** A value with its line ends and tabs written out. */
function showCell(value: unknown): string {
  if (value === undefined || value === null) return "<none>";
  return visibleText(typeof value === "string" ? value : stringifyJson(value));
}

function describeStop(
  stop: Stop,
  { next, toCome }: Page,
  { shown, left, maxBytes }: { readonly shown: number; readonly left: number; readonly maxBytes: number },
): string {
  // With a selector the API server does not count what is to come.
  const isLeast = next !== undefined && toCome === 0;
  const more = left > 0 ? `${isLeast ? "at least " : ""}${left} more remain` : "more remain";
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
