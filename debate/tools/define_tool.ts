import { type Clock, Deadline, within } from "@gateway/shared/clock";
import { cutText } from "@gateway/shared/text";
import * as z from "@zod/zod";
import * as charts from "../engine/events.ts";
import type { Tool, ToolContext } from "../engine/ports.ts";
import type { Settings } from "../settings/config.ts";
import type { AllowList } from "./net_guard.ts";
import { type ProgramResult, refuse, type RunProgram, ToolFailure } from "./run_program.ts";

interface Finding {
  readonly ok: boolean;
  readonly title: string;
  readonly body: string;
  readonly chart?: charts.Chart;
}

export interface Outgoing {
  readonly method: "GET" | "POST";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** Maximum bytes of the response body; the rest is not read. */
  readonly maxBytes: number;
}

export interface HttpRequest extends Outgoing {
  /** Host, port and path. A certificate must be valid for its host. */
  readonly url: URL;
  readonly address: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

export interface HttpAnswer {
  readonly status: number;
  readonly statusText: string;
  /** Names are in lower case. A repeated header keeps its first value. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body as received. A `content-encoding` is not decoded. */
  readonly body: Uint8Array;
  readonly isCut: boolean;
}

export interface HttpPorts {
  readonly exchange: (request: HttpRequest) => Promise<HttpAnswer>;
  /** The addresses of a host, or none. An IP address resolves to itself. */
  readonly resolve: (host: string) => Promise<readonly string[]>;
}

/**
 * Requests a plan from the database without running the query. Neither the plan nor a {@linkcode ToolFailure}
 * contains the URL with its credentials, or the contents of the tables.
 */
export type Explain = (request: {
  readonly url: string;
  readonly query: string;
  readonly seconds: number;
  readonly signal: AbortSignal;
}) => Promise<readonly string[]>;

/** The access of tools to the outside world. `createToolPorts` creates the ports of this machine. */
export interface ToolPorts {
  readonly clock: Clock;
  readonly redact: Redact;
  readonly http: HttpPorts;
  readonly runProgram: RunProgram;
  readonly explain: Explain;
  /** The real paths of the readable directories. Programs run in the first. `find` returns a path inside one. */
  readonly folders: {
    roots(): Promise<readonly string[]>;
    find(path: string): Promise<string | undefined>;
  };
  readonly env: Readonly<Record<string, string>>;
}

interface ToolWorld {
  readonly ports: ToolPorts;
  readonly settings: Settings;
  readonly allowed: AllowList;
}

/** A call of a tool and its time limit. */
export interface Call extends ToolWorld {
  /**
   * Aborted with a {@linkcode ToolFailure} when the time is up, or when the run ends. The tool then has two more
   * seconds to return its findings so far.
   */
  readonly signal: AbortSignal;
  readonly seconds: number;
}

const MAX_TIMEOUT_SECONDS = 60;
const GRACE_MS = 2000;

export function timeoutArgument(seconds: number): z.ZodType<number> {
  return z.number().positive().default(seconds).describe(`time limit, at most ${MAX_TIMEOUT_SECONDS} s`);
}

/** Common arguments of the tools for configured servers. */
export const BACKEND_ARGUMENTS = {
  base_url: z.string().max(2048).default("").describe("omit: only the configured server is allowed"),
  timeout: timeoutArgument(15),
};

/** A count. A value beyond the limits is replaced by the nearest limit, which the title shows. */
export function countArgument(
  initial: number,
  max: number,
  what: string,
): z.ZodType<number, number | undefined> {
  return z.int().default(initial).transform((count) => Math.min(max, Math.max(1, count)))
    .describe(`${what}, 1 to ${max}`);
}

export function defineTool<T extends { readonly timeout: number }>({ name, description, schema, run }: {
  readonly name: string;
  readonly description: string;
  readonly schema: z.ZodType<T>;
  run(args: T, call: Call): Promise<Finding>;
}): (world: ToolWorld) => Tool {
  const { $schema: _, ...parameters } = z.toJSONSchema(schema, { io: "input" });
  return (world) => {
    const { clock, redact } = world.ports;
    const attempt = async (raw: unknown, { signal }: ToolContext): Promise<Finding> => {
      const checked = schema.safeParse(raw);
      if (!checked.success) {
        return refuse(`invalid arguments: ${checked.error.issues.map(describe).join("; ")}`);
      }
      const seconds = Math.min(checked.data.timeout, MAX_TIMEOUT_SECONDS);
      const late = () => new ToolFailure(`no response within ${seconds} s`);
      return await within({ clock, signal, ms: seconds * 1000 + GRACE_MS, late }, async (ended) => {
        using deadline = new Deadline({ clock, signal: ended, ms: seconds * 1000, late });
        return await run(checked.data, { ...world, signal: deadline.signal, seconds });
      });
    };
    return {
      name,
      description,
      parameters,
      async run(raw, context) {
        const start = clock.now();
        try {
          const { ok, title, body, chart } = await attempt(raw, context);
          const heading = `${title.replace(/\s+/g, " ")} [${Math.max(0, clock.now() - start)} ms]`;
          const drawn = chart === undefined ? undefined : presentChart(chart, redact);
          return {
            ok,
            text: present(`${heading}\n${body}`, redact),
            ...(drawn !== undefined && { chart: drawn }),
          };
        } catch (error) {
          if (context.signal.aborted || !(error instanceof ToolFailure)) throw error;
          return { ok: false, text: present(`${name} failed: ${error.message}`, redact) };
        }
      },
    };
  };
}

function describe({ path, message }: z.core.$ZodIssue): string {
  return path.length === 0 ? message : `${path.join(".")}: ${message}`;
}

/** The exit code and outputs of a program. A stopped program has the output that it wrote before the stop. */
export function describeRun(
  command: string,
  { stopped, code, stdout, stderr }: ProgramResult,
  { seconds }: Call,
): Finding {
  const ends = { signal: `stopped after ${seconds} s`, output: "stopped because of too much output" };
  const outputs = [stdout.trimEnd(), stderr.trim() === "" ? "" : `stderr:\n${stderr.trimEnd()}`];
  return {
    // A program that writes too much has given a result. A program that does not end has not.
    ok: stopped === "output" || (stopped === undefined && code === 0),
    title: `${command}: ${stopped === undefined ? `exit code ${code}` : ends[stopped]}`,
    body: outputs.filter((part) => part !== "").join("\n") || "(no output)",
  };
}

export type Redact = (text: string) => string;

// Escape sequences of terminals, control and format characters (bidi, zero width, tags) and lone surrogates could
// hide text from the operator that the model reads.
// deno-lint-ignore no-control-regex -- the pattern matches control characters
const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])/g;
const INVISIBLE = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Visible text without secrets, at most {@linkcode MAX_RESULT} long. A cut before redaction could split a secret. */
export function present(text: string, redact: Redact): string {
  return truncate(redact(visible(text)).trimEnd());
}

/** A chart whose labels are visible text without secrets, within the limits; `undefined` if there are no points. */
function presentChart({ unit, series }: charts.Chart, redact: Redact): charts.Chart | undefined {
  const label = (text: string) => cutText(redact(visible(text)).replace(/\s+/g, " "), charts.MAX_CHART_LABEL);
  const drawn = series.slice(0, charts.MAX_CHART_SERIES).map((each) => ({
    label: label(each.label),
    points: thin(
      each.points.filter(([ms, value]) => Math.abs(ms) <= charts.MAX_CHART_MS && Number.isFinite(value)),
      charts.MAX_CHART_POINTS,
    ),
  })).filter(({ points }) => points.length > 0);
  if (drawn.length === 0) return undefined;
  return { ...(unit !== undefined && { unit: label(unit) }), series: drawn };
}

/** At most `max` members in equal distances, with the first and the last. */
export function thin<T>(all: readonly T[], max: number): readonly T[] {
  if (all.length <= max) return all;
  const kept = new Set(Array.from({ length: max }, (_, at) => Math.round(at * (all.length - 1) / (max - 1))));
  return all.filter((_, at) => kept.has(at));
}

export function visible(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(ESCAPES, "").replace(INVISIBLE, "\ufffd");
}

/** Maximum length of a result in UTF-16 units, including the line that reports the omission. */
export const MAX_RESULT = 4000;

/** Removes the middle of a long text. Two thirds of the remaining text are from its beginning. */
export function truncate(text: string, max: number = MAX_RESULT): string {
  if (text.length <= max) return text;
  const room = max - marker(text.length, text.length).length;
  const first = Math.floor(room * 2 / 3);
  // A surrogate pair is not split.
  const head = cutText(text, first);
  const tail = text.slice(text.length - (room - first)).replace(/^[\udc00-\udfff]/, "");
  return head + marker(text.length - head.length - tail.length, text.length) + tail;
}

function marker(omitted: number, total: number): string {
  return `\n[... ${omitted} of ${total} characters omitted ...]\n`;
}
