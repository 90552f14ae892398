import { type Clock, finish, finishInSlices, type Steps } from "@gateway/shared/clock";
import type { ContextRedactor } from "./redact_context.ts";

const MARK = "[REDACTED]";
const MIN_SECRET = 6;
/** A longer text says by itself what it is; the name that it stands under adds nothing. */
const MAX_NAMED = 500;

/** The value with its secrets masked: in texts, in names, and texts whose name says that they are secret. */
export function redactValue(value: unknown, redact: (text: string) => string): unknown {
  return finish(inSteps(value, function* (text) {
    yield;
    return redact(text);
  }));
}

export function redactLargeValue(value: unknown, redactor: ContextRedactor, clock: Clock): Promise<unknown> {
  const steps = inSteps(value, function* (text) {
    return (yield* redactor.inSteps(text)).text;
  });
  return finishInSlices(steps, clock);
}

function* inSteps(value: unknown, mask: (text: string) => Steps<string>): Steps<unknown> {
  if (typeof value === "string") return value.length < MIN_SECRET ? value : yield* mask(value);
  yield;
  if (Array.isArray(value)) {
    const members: unknown[] = [];
    for (const member of value) members.push(yield* inSteps(member, mask));
    return members;
  }
  if (typeof value !== "object" || value === null) return value;
  const entries: [string, unknown][] = [];
  for (const [key, member] of Object.entries(value)) {
    entries.push([
      yield* mask(key),
      typeof member === "string" ? yield* maskNamed(key, member, mask) : yield* inSteps(member, mask),
    ]);
  }
  return Object.fromEntries(entries);
}

function* maskNamed(name: string, text: string, mask: (text: string) => Steps<string>): Steps<string> {
  const masked = text.length < MIN_SECRET ? text : yield* mask(text);
  if (masked !== text || text.length > MAX_NAMED) return masked;
  const pair = JSON.stringify({ [name]: text });
  return (yield* mask(pair)) === pair ? text : MARK;
}
