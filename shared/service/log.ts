/**
 * Structured logs: one JSON object in each line, on stderr. Control characters are escaped, so input of a caller stays
 * in its line. Secrets are not masked: never pass one. Nothing is written before {@linkcode configureLogging}.
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
import { visibleJson, visibleText, writeAllSync } from "../text.ts";
import { AppError, describeFault } from "../errors.ts";
import { stringifyJson } from "../json.ts";
import { currentRequestId, type LogFields, type LogFormat, type ServiceLogger } from "./mod.ts";

/** The logger of a service. Lines of a request have its `request_id`. */
export function getServiceLogger(service: string): ServiceLogger {
  const logger: Logger = getLogger(["gateway", service]);
  const at = (level: keyof ServiceLogger) => (message: string, fields: LogFields = {}) => {
    const id = currentRequestId();
    logger[level](message, id === undefined ? fields : { request_id: id, ...fields });
  };
  return { info: at("info"), warn: at("warn"), error: at("error") };
}

/** Starts to write the lines of all services to stderr. For `main.ts` only. */
export function configureLogging(format: LogFormat): void {
  const isTerminal = Deno.stderr.isTerminal();
  const isText = format === "text" || (format === "auto" && isTerminal);
  // Deno.noColor is the variable NO_COLOR, and needs no permission.
  const hasColor = isTerminal && !Deno.noColor;
  const writeRecord = createWriter(isText ? (line) => formatLogText(line, { hasColor }) : formatLogLine);
  configureSync({
    reset: true,
    sinks: { stderr: writeRecord },
    loggers: [
      { category: ["gateway"], lowestLevel: "info", sinks: ["stderr"] },
      { category: ["logtape", "meta"], lowestLevel: "error", sinks: ["stderr"] },
    ],
  });
}

interface LogLine {
  readonly timestamp: number;
  readonly level: string;
  readonly service: string;
  readonly message: string;
  readonly fields: LogFields;
}

/** A line with its newline. Fields that are not representable as JSON are replaced by a note. */
export function formatLogLine(line: LogLine): string {
  const { timestamp, level, service, message, fields } = line;
  const head = { time: new Date(timestamp).toISOString(), level, service, message };
  try {
    const members = Object.entries(fields).map(([key, value]) => [key, describeError(value)]);
    // The head is written twice: first for the order of the fields, and again because a field must not
    // replace it.
    return `${visibleJson(stringifyJson({ ...head, ...Object.fromEntries(members), ...head }))}\n`;
  } catch {
    return `${visibleJson(stringifyJson({ ...head, fields: "not representable as JSON" }))}\n`;
  }
}

const LEVEL_COLORS = new Map([["info", 36], ["warning", 33], ["error", 31], ["fatal", 31]]);
/** Values that need no quotes: nothing in them can be read as another field. */
const PLAIN_VALUE = /^[A-Za-z0-9_.:/@+,-]+$/;

/** A line for people, with its newline: time, level, message and fields. Stacks of errors are only in the JSON. */
export function formatLogText(line: LogLine, { hasColor }: { readonly hasColor: boolean }): string {
  const { timestamp, level, message, fields } = line;
  const paint = (code: number, text: string) => hasColor ? `\x1b[${code}m${text}\x1b[0m` : text;
  const members = Object.entries(fields).flatMap(([key, value]) => {
    const text = formatValue(value);
    return text === undefined ? [] : [`${paint(2, `${visibleText(key)}=`)}${text}`];
  });
  const [time, shown] = [new Date(timestamp).toISOString(), level.padEnd(7)];
  const head = `${paint(2, time)} ${paint(LEVEL_COLORS.get(level) ?? 0, shown)} ${visibleText(message)}`;
  return `${[head, ...members].join(" ")}\n`;
}

function formatValue(value: unknown): string | undefined {
  try {
    const text = value instanceof Error ? describeFault(value) : value;
    if (text === undefined) return undefined;
    const json = visibleJson(stringifyJson(text));
    return typeof text === "string" && PLAIN_VALUE.test(text) ? text : json;
  } catch {
    return '"not representable as JSON"';
  }
}

/** An error can be its own cause. */
const MOST_CAUSES = 8;

/** Describes an error, whose members are not enumerable. */
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

function createWriter(format: (line: LogLine) => string) {
  return ({ timestamp, level, category, rawMessage, properties: fields }: LogRecord): void => {
    // Use the raw text, because braces in a message are not placeholders.
    const message = typeof rawMessage === "string" ? rawMessage : rawMessage.join("");
    const line = format({ timestamp, level, service: category.at(-1) ?? "", message, fields });
    try {
      writeAllSync(Deno.stderr, line);
    } catch {
      // stderr is closed: the failure cannot be reported.
    }
  };
}
