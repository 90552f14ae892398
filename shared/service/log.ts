/**
 * Structured logs: one JSON object a line, to stderr. Standard output belongs to protocols and to command
 * output. Nothing a caller sends can break out of its line: control characters are written as escapes.
 *
 * Until {@linkcode configureLogging} is called, in `main.ts`, nothing is written, so tests stay silent. Never
 * pass a secret: there is no redaction here.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { formatLogLine } from "@gateway/shared/service/log";
 *
 * const line = formatLogLine({
 *   timestamp: 0,
 *   level: "info",
 *   service: "signer",
 *   message: "certificate issued",
 *   fields: { serial: 18446744073709551615n, host: "web01\n" },
 * });
 * assert.equal(
 *   line,
 *   '{"time":"1970-01-01T00:00:00.000Z","level":"info","service":"signer","message":"certificate issued",' +
 *     '"serial":18446744073709551615,"host":"web01\\n"}\n',
 * );
 * ```
 *
 * @module
 */
import { configureSync, getLogger, type Logger, type LogRecord } from "@logtape/logtape";
import { visibleJson, writeAllSync } from "../text.ts";
import { AppError } from "../errors.ts";
import { stringifyJson } from "../json.ts";
import { currentRequestId } from "./request_context.ts";

/** Further members of a log line; `time`, `level`, `service` and `message` are taken. An `Error` is spelled out. */
export type LogFields = Readonly<Record<string, unknown>>;

/** What a service logs with. No method ever throws. */
export interface ServiceLogger {
  info(message: string, fields?: LogFields): void;
  /** Something an operator should look at. */
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

/** One line of the log, before it is written. */
interface LogLine {
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  readonly level: string;
  readonly service: string;
  /** The same words for the same event. */
  readonly message: string;
  readonly fields: LogFields;
}

/** The logger of a service. Within a request each line names it, as `request_id`. */
export function getServiceLogger(service: string): ServiceLogger {
  const logger: Logger = getLogger(["gateway", service]);
  return {
    info: (message, fields) => logger.info(message, withRequest(fields)),
    warn: (message, fields) => logger.warn(message, withRequest(fields)),
    error: (message, fields) => logger.error(message, withRequest(fields)),
  };
}

function withRequest(fields: LogFields = {}): LogFields {
  const id = currentRequestId();
  return id === undefined ? fields : { request_id: id, ...fields };
}

/** Starts writing: `info` and above of all services to stderr. For `main.ts` only. */
export function configureLogging(): void {
  configureSync({
    reset: true,
    sinks: { stderr: (record) => writeToStderr(formatLogLine(toLine(record))) },
    loggers: [
      { category: ["gateway"], lowestLevel: "info", sinks: ["stderr"] },
      { category: ["logtape", "meta"], lowestLevel: "error", sinks: ["stderr"] },
    ],
  });
}

/** Writes a line with its newline. What cannot be written as JSON is replaced by a note, not thrown. */
export function formatLogLine(line: LogLine): string {
  const { timestamp, level, service, message, fields } = line;
  const head = { time: new Date(timestamp).toISOString(), level, service, message };
  try {
    const members = Object.entries(fields).map(([key, value]) => [key, describeError(value)]);
    // The head comes twice: first for its place in the line, then because a field must not replace it.
    return `${visibleJson(stringifyJson({ ...head, ...Object.fromEntries(members), ...head }))}\n`;
  } catch {
    return `${visibleJson(stringifyJson({ ...head, fields: "not representable as JSON" }))}\n`;
  }
}

/** Nothing keeps an error from being its own cause. */
const MOST_CAUSES = 8;

/** Errors have no enumerable members: without this they would be logged as `{}`. */
function describeError(value: unknown, depth = 0): unknown {
  if (!(value instanceof Error)) return value;
  return {
    name: value.name,
    message: value.message,
    code: value instanceof AppError ? value.code : undefined,
    stack: value instanceof AppError ? undefined : value.stack,
    cause: value.cause === undefined || depth === MOST_CAUSES
      ? undefined
      : describeError(value.cause, depth + 1),
  };
}

function toLine(record: LogRecord): LogLine {
  const { timestamp, level, category, rawMessage, properties } = record;
  return {
    timestamp,
    level,
    service: category.at(-1) ?? "",
    // The raw text: braces in a message are not places to fill in.
    message: typeof rawMessage === "string" ? rawMessage : rawMessage.join(""),
    fields: properties,
  };
}

function writeToStderr(line: string): void {
  try {
    writeAllSync(Deno.stderr, line);
  } catch {
    // Nobody reads stderr any more: there is nowhere left to report that.
  }
}
