/**
 * What all tools have in common: arguments are checked, time is bounded, the result starts with a line that
 * names the request, and all text that leaves is redacted and bounded.
 *
 * @module
 */
import { type Clock, Deadline, within } from "@gateway/shared/clock";
import * as z from "@zod/zod";
import { present, type Redact } from "./present.ts";
import type { Tool, ToolContext } from "../engine/tool.ts";

/** The reason why a tool could not do what was asked; the message is for the model and the operator. */
export class ToolFailure extends Error {
  override readonly name = "ToolFailure";
}

export interface Finding {
  /** `false` when what was asked for did not work. */
  readonly ok: boolean;
  /** What was done, on one line. */
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
  /** The bound, in seconds. */
  readonly seconds: number;
}

interface ToolSpec<T extends TimedArguments> {
  readonly name: string;
  readonly description: string;
  /** Checks the arguments; has a {@linkcode timeoutArgument}. */
  readonly schema: z.ZodType<T>;
  /** @throws {ToolFailure} when it cannot do what was asked */
  run(args: T, call: Call): Promise<Finding>;
}

interface TimedArguments {
  /** In seconds. */
  readonly timeout: number;
}

export interface ToolServices {
  readonly clock: Clock;
  readonly redact: Redact;
}

const MAX_TIMEOUT_SECONDS = 60;
const GRACE_MS = 2000;

/** The argument `timeout`, in seconds; at most a minute. */
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
