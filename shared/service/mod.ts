/**
 * The parts of every daemon: arguments, signals, logs, metrics, request ids, version.
 *
 * @module
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { REQUEST_ID } from "../wire/revocation.ts";
import { writeAllSync } from "../text.ts";
import { AppError } from "../errors.ts";

export type { Histogram, Metrics } from "./metrics.ts";
export { describeVersion, VERSION } from "./version.ts";

/** Further members of a log line. They cannot replace `time`, `level`, `service` and `message`. */
export type LogFields = Readonly<Record<string, unknown>>;

/** The log of a service. It never throws. */
export type ServiceLogger = Readonly<
  Record<"info" | "warn" | "error", (message: string, fields?: LogFields) => void>
>;

/** The header that carries a request's id, in either direction. */
export const REQUEST_ID_HEADER = "x-request-id";

/** Headers of a request. Malformed values count as absent. `name` is the name of its span. */
interface IncomingRequest {
  readonly name: string;
  /** The ID of the request; by default a new one. */
  readonly id?: unknown;
  readonly traceparent?: unknown;
  readonly tracestate?: unknown;
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const TRACESTATE = /^[\x20-\x7e]{1,512}$/;

/** The current request. Its trace is empty if spans are created, because the span contains the trace. */
const requests = new AsyncLocalStorage<
  { readonly id: string; readonly trace: Readonly<Record<string, string>> } | undefined
>();

/** Deno registers its implementation under this symbol if it was started with `OTEL_DENO=true`. */
const telemetry = Symbol.for("opentelemetry.js.api.1") in globalThis
  ? await import("@opentelemetry/api")
  : undefined;

/** The id of the current request. */
export function currentRequestId(): string | undefined {
  return requests.getStore()?.id;
}

/** Runs a function within a new request. */
export function inRequest<T>(incoming: IncomingRequest, run: (id: string) => Promise<T>): Promise<T> {
  const id = matching(REQUEST_ID, incoming.id) ?? crypto.randomUUID();
  const trace = traceOf(incoming);
  if (telemetry === undefined) return requests.run({ id, trace }, () => run(id));
  const parent = telemetry.propagation.extract(telemetry.ROOT_CONTEXT, trace);
  return requests.run({ id, trace: {} }, () => inSpan({ name: incoming.name, parent }, () => run(id)));
}

/** Runs a function outside of the current request, for work that other requests share. */
export function outsideRequests<T>(run: () => T): T {
  // exit() would return to the request after the first pause (Deno 2.9.6), so use run().
  return requests.run(undefined, run);
}

/** Sends a request to another service, with headers that name the current request and, if spans are made, its span. */
export function askingService<T>(
  name: string,
  ask: (headers: Readonly<Record<string, string>>) => Promise<T>,
): Promise<T> {
  if (telemetry === undefined) return ask(outgoingHeaders());
  return inSpan({ name, kind: telemetry.SpanKind.CLIENT }, () => ask(outgoingHeaders()));
}

/** The headers that name the current request for another service. */
export function outgoingHeaders(): Readonly<Record<string, string>> {
  const request = requests.getStore();
  const headers: Record<string, string> = { ...request?.trace };
  telemetry?.propagation.inject(telemetry.context.active(), headers);
  if (request !== undefined) headers[REQUEST_ID_HEADER] = request.id;
  return headers;
}

async function inSpan<T>({ name, kind, parent }: {
  readonly name: string;
  readonly kind?: number;
  readonly parent?: ReturnType<NonNullable<typeof telemetry>["context"]["active"]>;
}, run: () => Promise<T>): Promise<T> {
  if (telemetry === undefined) return await run();
  const { context, trace, SpanStatusCode } = telemetry;
  const id = currentRequestId();
  const attributes = id === undefined ? {} : { "gateway.request_id": id };
  const from = parent ?? context.active();
  const span = trace.getTracer("gateway").startSpan(name, { attributes, ...(kind && { kind }) }, from);
  try {
    return await context.with(trace.setSpan(from, span), run);
  } catch (error) {
    // Omit the message, which may contain parts of the request. Those belong only in the audit log.
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

const LOG_FORMATS = ["auto", "text", "json"] as const;
/** The values of `--log-format`; `auto` is text on a terminal and JSON otherwise. */
export type LogFormat = typeof LOG_FORMATS[number];

/** The line of `--log-format` in the help of a service. */
export const LOG_FORMAT_HELP =
  "  --log-format <how>  auto, text or json (default: auto, which is text on a terminal, else JSON)";

/** @throws {AppError} `invalid_request` for any other format */
export function parseLogFormat(text: string): LogFormat {
  const format = LOG_FORMATS.find((each) => each === text);
  if (format !== undefined) return format;
  const message = `Cannot use --log-format ${JSON.stringify(text)}: expected ${LOG_FORMATS.join(", ")}`;
  throw new AppError("invalid_request", message);
}

const FLAGS = "--config <file>, --log-format <format>, --version, --verbose, --help";
type Switch = "version" | "verbose" | "help";
const SWITCHES = new Map<string, Switch>(
  Object.entries({ version: "version", verbose: "verbose", help: "help", h: "help" } as const),
);

/**
 * Parses a service's command line: long options with one dash or two, values after `=` or as the next argument. The last
 * of several counts.
 *
 * @throws {AppError} `invalid_request` for an unknown option, a missing value or any other argument
 */
export function parseServiceArguments(
  args: readonly string[],
  { defaultConfig }: { readonly defaultConfig: string },
): { readonly config: string; readonly logFormat: LogFormat } & Readonly<Record<Switch, boolean>> {
  let config = defaultConfig;
  let logFormat: LogFormat = "auto";
  const switches = { version: false, verbose: false, help: false };
  const rest = args.values();
  for (const argument of rest) {
    const [, name = "", value] = /^--?([a-z]+(?:-[a-z]+)?)(?:=(.*))?$/s.exec(argument) ?? [];
    if (name === "config") {
      config = value ?? rest.next().value ?? "";
      if (config === "") throw new AppError("invalid_request", "Option --config needs the name of a file");
      continue;
    }
    if (name === "log-format") {
      logFormat = parseLogFormat(value ?? rest.next().value ?? "");
      continue;
    }
    const known = SWITCHES.get(name);
    if (known === undefined) {
      const message = `Unknown argument ${JSON.stringify(argument)}: expected ${FLAGS}`;
      throw new AppError("invalid_request", message);
    }
    switches[known] = parseSwitch(argument, value);
  }
  return { config, logFormat, ...switches };
}

function parseSwitch(argument: string, value: string | undefined): boolean {
  if (value === undefined || value === "true") return true;
  if (value === "false") return false;
  throw new AppError("invalid_request", `Cannot use ${JSON.stringify(argument)}: expected true or false`);
}

/** Resolves with the first signal. If a service hangs while it stops, a second signal ends it. */
export function waitForStop(signals: readonly Deno.Signal[] = ["SIGINT", "SIGTERM"]): Promise<Deno.Signal> {
  return new Promise((resolve) => {
    const listeners = signals.map((signal) => ({
      signal,
      listener: () => {
        for (const other of listeners) Deno.removeSignalListener(other.signal, other.listener);
        resolve(signal);
      },
    }));
    for (const { signal, listener } of listeners) Deno.addSignalListener(signal, listener);
  });
}

/**
 * Runs a service and gives its exit code: its result or, after a failure, 2 for a wrong command line and 1 otherwise.
 *
 * @param tell shows a text to the operator, by default on stderr
 */
export async function exitCodeOf(
  run: () => Promise<number | void> | number | void,
  tell: (text: string) => void = (text) => writeAllSync(Deno.stderr, text),
): Promise<number> {
  try {
    return await run() ?? 0;
  } catch (error) {
    tell(`${describeFailure(error)}\n`);
    return error instanceof AppError && error.code === "invalid_request" ? 2 : 1;
  }
}

function describeFailure(error: unknown): string {
  if (error instanceof AppError) return error.message;
  return error instanceof Error ? `Unexpected failure: ${error.stack ?? error.message}` : String(error);
}
