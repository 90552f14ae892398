import { type Clock, Deadline, within } from "@gateway/shared/clock";
import * as z from "@zod/zod";
import type { Tool, ToolContext } from "../engine/ports.ts";
import type { ProgramResult } from "./run_program.ts";

/** The reason why a tool could not do what was asked; the message is for the model and the operator. */
export class ToolFailure extends Error {
  override readonly name = "ToolFailure";
}

export function refuse(reason: string): never {
  throw new ToolFailure(reason);
}

/** What a tool has found. */
export interface Finding {
  readonly ok: boolean;
  readonly title: string;
  readonly body: string;
}

/** A tool's call, with its bound in time. */
export interface Call {
  /**
   * Aborted when the time is up, with a {@linkcode ToolFailure}, or when the run is over. The tool then has two
   * more seconds to return what it has found so far.
   */
  readonly signal: AbortSignal;
  readonly seconds: number;
}

interface ToolSpec<T extends TimedArguments> {
  readonly name: string;
  readonly description: string;
  readonly schema: z.ZodType<T>;
  run(args: T, call: Call): Promise<Finding>;
}

interface TimedArguments {
  readonly timeout: number;
}

/** What every tool needs. */
export interface ToolServices {
  readonly clock: Clock;
  readonly redact: Redact;
}

const MAX_TIMEOUT_SECONDS = 60;
const GRACE_MS = 2000;

export function timeoutArgument(seconds: number): z.ZodType<number> {
  return z.number().positive().default(seconds).describe(`seconds to wait, at most ${MAX_TIMEOUT_SECONDS}`);
}

/** An argument that says how many; what is beyond the limits gets the nearest one, and the title shows which. */
export function countArgument(
  initial: number,
  max: number,
  what: string,
): z.ZodType<number, number | undefined> {
  return z.int().default(initial).transform((count) => Math.min(max, Math.max(1, count)))
    .describe(`${what}, 1 to ${max}`);
}

export function defineTool<T extends TimedArguments>(
  { name, description, schema, run }: ToolSpec<T>,
  { clock, redact }: ToolServices,
): Tool {
  const attempt = async (raw: unknown, { signal }: ToolContext): Promise<Finding> => {
    const checked = schema.safeParse(raw);
    if (!checked.success) throw new ToolFailure(`Invalid arguments: ${listIssues(checked.error)}`);
    const seconds = Math.min(checked.data.timeout, MAX_TIMEOUT_SECONDS);
    const late = () => new ToolFailure(`No answer within ${seconds} s`);
    return await within({ clock, signal, ms: seconds * 1000 + GRACE_MS, late }, async (ended) => {
      using deadline = new Deadline({ clock, signal: ended, ms: seconds * 1000, late });
      return await run(checked.data, { signal: deadline.signal, seconds });
    });
  };
  return {
    name,
    description,
    parameters: parametersOf(schema),
    async run(raw, context) {
      const start = clock.now();
      try {
        const { ok, title, body } = await attempt(raw, context);
        const heading = `${title.replace(/\s+/g, " ")} [${Math.max(0, clock.now() - start)} ms]`;
        return { ok, text: present(`${heading}\n${body}`, redact) };
      } catch (error) {
        if (context.signal.aborted || !(error instanceof ToolFailure)) throw error;
        return { ok: false, text: present(`${name} failed: ${error.message}`, redact) };
      }
    },
  };
}

function parametersOf(schema: z.ZodType): Readonly<Record<string, unknown>> {
  const { $schema: _, ...parameters } = z.toJSONSchema(schema, { io: "input" });
  return parameters;
}

function listIssues(error: z.ZodError): string {
  return error.issues.map(({ path, message }) =>
    path.length === 0 ? message : `${path.join(".")}: ${message}`
  )
    .join("; ");
}

/**
 * The outputs; those of a stopped program contain what it had written by then.
 *
 * @param command for the heading
 * @param program its name
 */
export function describeRun(
  command: string,
  program: string,
  result: ProgramResult,
  { seconds }: Call,
): Finding {
  if (result.kind === "missing") {
    throw new ToolFailure(`The program ${program} is not installed, or the service may not run it`);
  }
  const { stopped, code, stdout, stderr } = result;
  const end = stopped === "signal"
    ? `stopped after ${seconds} s`
    : stopped === "output"
    ? "stopped, too much output"
    : `exit code ${code}`;
  return {
    // A program that writes too much has answered; one that does not end has not.
    ok: stopped === "output" || (stopped === undefined && code === 0),
    title: `${command}: ${end}`,
    body:
      [stdout.trimEnd(), stderr.trim() === "" ? "" : `stderr:\n${stderr.trimEnd()}`].filter((part) =>
        part !== ""
      )
        .join("\n") || "(no output)",
  };
}

export type Redact = (text: string) => string;

// Escape sequences of terminals, then controls, format characters (bidi, zero width, tags), lone surrogates:
// they hide from the operator what the model reads.
// deno-lint-ignore no-control-regex -- it looks for control characters
const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])/g;
const INVISIBLE = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Visible text without secrets, bounded. Redaction comes before the cut, which could split a secret. */
export function present(text: string, redact: Redact): string {
  return truncate(redact(visible(text)).trimEnd());
}

export function visible(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(ESCAPES, "").replace(INVISIBLE, "\ufffd");
}

/** The longest text of a tool, in UTF-16 units, including the line that reports the cut. */
export const MAX_RESULT = 4000;

/**
 * Removes the middle of a text that is too long: two thirds are from the beginning, one third from the end, and
 * between them is a line with the numbers of omitted and of all characters. A text of at most `max` is left as
 * it is.
 */
export function truncate(text: string, max: number = MAX_RESULT): string {
  if (text.length <= max) return text;
  const room = max - marker(text.length, text.length).length;
  const head = withoutHalf(text.slice(0, Math.floor(room * 2 / 3)), "end");
  const tail = withoutHalf(text.slice(text.length - (room - Math.floor(room * 2 / 3))), "start");
  return head + marker(text.length - head.length - tail.length, text.length) + tail;
}

function marker(omitted: number, total: number): string {
  return `\n[... ${omitted} of ${total} characters omitted ...]\n`;
}

/** Drops half of a surrogate pair at a cut. */
function withoutHalf(text: string, side: "start" | "end"): string {
  if (side === "end") return /[\ud800-\udbff]$/.test(text) ? text.slice(0, -1) : text;
  return /^[\udc00-\udfff]/.test(text) ? text.slice(1) : text;
}
