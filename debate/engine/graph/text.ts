import { parseStandardJson } from "@gateway/shared/json";

const MAX_CUT_WORD = 1024;

/**
 * A truncated text without its last word, because no redactor recognizes half a secret. The first line of a quoted
 * value is enough to recognize the value.
 */
export function dropPartialWord(text: string): string {
  return text.slice(0, Math.max(text.search(/\s\S*$/) + 1, text.length - MAX_CUT_WORD));
}

export function linesOf(text: string): readonly string[] {
  return text.split(/\r\n|[\n\r\u2028\u2029]/);
}

export function oneLine(text: string): string {
  return text.trim().replace(/\s+/g, " ");
}

/**
 * Puts foreign text between two lines of backticks. The text cannot close them, because they are longer than any run of
 * backticks in it.
 */
export function fence(text: string): string {
  let longest = 2;
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  const line = "`".repeat(longest + 1);
  return `${line}\n${text}\n${line}`;
}

/** Decodes UTF-8; `undefined` for other bytes. Drops an incomplete last character of a truncated file. */
export function decodeText(bytes: Uint8Array, isCut = false): string | undefined {
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: isCut });
  } catch {
    return undefined;
  }
}

/** The maximum number of unclosed braces. Each one requires a scan of the rest of the text. */
const MAX_FALSE_STARTS = 16;
const MAX_OBJECTS = 64;

export type JsonObject = Readonly<Record<string, unknown>>;

/**
 * The JSON objects of a text in this order: objects in fences, all outermost objects, everything from the first to the
 * last brace. Takes linear time.
 */
export function findJsonObjects(text: string): readonly JsonObject[] {
  const fenced = fencedBlocks(text).flatMap(balancedObjects);
  const free = balancedObjects(text);
  const widest = text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1);
  return [...fenced, ...free, widest].map(parseObject).filter((object) => object !== undefined);
}

function fencedBlocks(text: string): readonly string[] {
  const parts = text.split("```", 2 * MAX_OBJECTS);
  return parts.filter((_, index) => index % 2 === 1);
}

/** The outermost parts with balanced braces. Braces in strings do not count. */
function balancedObjects(text: string): readonly string[] {
  const found: string[] = [];
  let falseStarts = 0;
  let start = text.indexOf("{");
  while (start >= 0 && found.length < MAX_OBJECTS && falseStarts < MAX_FALSE_STARTS) {
    const end = findClosing(text, start);
    if (end === undefined) falseStarts++;
    else found.push(text.slice(start, end));
    start = text.indexOf("{", end ?? start + 1);
  }
  return found;
}

function findClosing(text: string, start: number): number | undefined {
  let depth = 0;
  let inString = false;
  for (let index = start; index < text.length; index++) {
    const char = text[index];
    if (inString) {
      if (char === "\\") index++;
      else if (char === '"') inString = false;
    } else if (char === '"') inString = true;
    else if (char === "{") depth++;
    else if (char === "}" && --depth === 0) return index + 1;
  }
  return undefined;
}

function parseObject(text: string): JsonObject | undefined {
  const value = parseJson(text);
  return isObject(value) ? value : undefined;
}

/** The JSON of a text; `undefined` if it is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return parseStandardJson(text);
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function fieldsOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** The fields of each entry of a list. */
export function fieldsIn(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.map(fieldsOf) : [];
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The finite number; `undefined` for anything else. */
export function numberOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

export function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

/** A number with its noun, which gets the plural `s`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** `45s`, `2m 5s`, `1h 3m`. */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${whole % 60}s`;
  return `${Math.floor(whole / 3600)}h ${Math.floor((whole % 3600) / 60)}m`;
}
