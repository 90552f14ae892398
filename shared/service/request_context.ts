/**
 * The request that something happens for: its id, which agent, broker, control plane and signer share, and its
 * place in a W3C trace. It goes along with asynchronous work by itself, so that whatever logs, records or asks
 * another service within a request can name it.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { currentRequestId, inRequest, outgoingHeaders } from "@gateway/shared/service";
 *
 * const seen = await inRequest({ name: "POST", id: "call-1" }, async () => {
 *   await Promise.resolve();
 *   return [currentRequestId(), outgoingHeaders()["x-request-id"]];
 * });
 * assert.deepEqual(seen, ["call-1", "call-1"]);
 * assert.equal(currentRequestId(), undefined);
 * ```
 *
 * With `OTEL_DENO=true` each request, and each question to another service, is a span as well, and what is passed
 * on names that span; without it a trace context is passed on as it came.
 *
 * @module
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { REQUEST_ID } from "../wire/revocation.ts";

/** The header that carries a request's id, in either direction. */
export const REQUEST_ID_HEADER = "x-request-id";

/** What a caller says about its request; all of it is checked, and what is not well-formed counts as absent. */
export interface IncomingRequest {
  /** What a span of it is called. */
  readonly name: string;
  /** Absent: it gets a new one. */
  readonly id?: unknown;
  /** W3C Trace Context. */
  readonly traceparent?: unknown;
  /** W3C Trace Context, only beside `traceparent`. */
  readonly tracestate?: unknown;
}

interface RequestContext {
  readonly id: string;
  /** As it came; none where spans are made, which know it themselves. */
  readonly trace: Readonly<Record<string, string>>;
}

// It stands in audit records behind other words: no blank, nothing that a shell or a page reads as something else.
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const TRACESTATE = /^[\x20-\x7e]{1,512}$/;

const requests = new AsyncLocalStorage<RequestContext | undefined>();

/** Deno registers its own implementation under this symbol when it was started with `OTEL_DENO=true`. */
const telemetry = Symbol.for("opentelemetry.js.api.1") in globalThis
  ? await import("@opentelemetry/api")
  : undefined;

/** The id of the request that this happens for, if any. */
export function currentRequestId(): string | undefined {
  return requests.getStore()?.id;
}

/** Does something within a request of its own. */
export function inRequest<T>(incoming: IncomingRequest, run: (id: string) => Promise<T>): Promise<T> {
  const id = matching(REQUEST_ID, incoming.id) ?? crypto.randomUUID();
  const trace = traceOf(incoming);
  if (telemetry === undefined) return requests.run({ id, trace }, () => run(id));
  const parent = telemetry.propagation.extract(telemetry.ROOT_CONTEXT, trace);
  return requests.run({ id, trace: {} }, () => inSpan({ name: incoming.name, parent }, () => run(id)));
}

/** Begins something that goes on for others as well, and must not name the request in which it happened to begin. */
export function outsideRequests<T>(run: () => T): T {
  // What exit() begins is back in the request after its first pause (Deno 2.9.6).
  return requests.run(undefined, run);
}

/** Asks another service; the headers name the request, and where spans are made, the span of this question. */
export function askingService<T>(
  name: string,
  ask: (headers: Readonly<Record<string, string>>) => Promise<T>,
): Promise<T> {
  if (telemetry === undefined) return ask(outgoingHeaders());
  return inSpan({ name, kind: telemetry.SpanKind.CLIENT }, () => ask(outgoingHeaders()));
}

/** What tells another service which request this happens for; nothing outside of requests. */
export function outgoingHeaders(): Readonly<Record<string, string>> {
  const request = requests.getStore();
  const headers: Record<string, string> = { ...request?.trace };
  telemetry?.propagation.inject(telemetry.context.active(), headers);
  if (request !== undefined) headers[REQUEST_ID_HEADER] = request.id;
  return headers;
}

interface SpanStart {
  readonly name: string;
  readonly kind?: number;
  readonly parent?: ReturnType<NonNullable<typeof telemetry>["context"]["active"]>;
}

async function inSpan<T>({ name, kind, parent }: SpanStart, run: () => Promise<T>): Promise<T> {
  if (telemetry === undefined) return await run();
  const { context, trace, SpanStatusCode } = telemetry;
  const id = currentRequestId();
  const attributes = id === undefined ? {} : { "gateway.request_id": id };
  const from = parent ?? context.active();
  const span = trace.getTracer("gateway").startSpan(name, { attributes, ...(kind && { kind }) }, from);
  try {
    return await context.with(trace.setSpan(from, span), run);
  } catch (error) {
    // The message may hold what was asked; that belongs to the audit log.
    span.setStatus({ code: SpanStatusCode.ERROR });
    throw error;
  } finally {
    span.end();
  }
}

function traceOf({ traceparent, tracestate }: IncomingRequest): Readonly<Record<string, string>> {
  const parent = matching(TRACEPARENT, traceparent);
  if (parent === undefined) return {};
  const state = matching(TRACESTATE, tracestate);
  return { traceparent: parent, ...(state === undefined ? {} : { tracestate: state }) };
}

function matching(pattern: RegExp, value: unknown): string | undefined {
  return typeof value === "string" && pattern.test(value) ? value : undefined;
}
