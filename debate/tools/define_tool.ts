import { type Clock, Deadline, within } from "@gateway/shared/clock";
import { cutText } from "@gateway/shared/text";
import * as z from "@zod/zod";
import * as charts from "../engine/events.ts";
import type { Tool, ToolContext, ToolResult } from "../engine/ports.ts";
import type { Settings } from "../settings/config.ts";
import type { AllowList } from "./net_guard.ts";
import { type ProgramResult, refuse, type RunProgram, ToolFailure } from "./run_program.ts";

export interface Finding {
  readonly ok: boolean;
  readonly title: string;
  readonly body: string;
  readonly chart?: charts.Chart;
}

export interface Outgoing {
  readonly method: "GET" | "POST" | "DELETE";
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
  /** Whether a file exists; also `true` if this service may not look at it. */
  readonly exists: (path: string) => Promise<boolean>;
  readonly env: Readonly<Record<string, string>>;
}

export interface ToolWorld {
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
  /** A person has approved exactly these arguments. */
  readonly isApproved: boolean;
}

const MAX_TIMEOUT_SECONDS = 60;
const GRACE_MS = 2000;

export function timeoutArgument(seconds: number): z.ZodType<number> {
  return z.number().positive().default(seconds).describe(`time limit, at most ${MAX_TIMEOUT_SECONDS} s`);
}

/** A count. A value beyond the limits is replaced by the nearest limit, which the title shows. */
export function countArgument(
  initial: number,
  max: number,
  what: string,
): z.ZodType<number, number | undefined> {
  return z.int().default(initial).transform((count) => Math.min(max, Math.max(1, count)))
    .describe(`${what}, 1 to ${max}`);
}

/** A tool that knows whether it can work. */
export interface ToolOffer extends Tool {
  /** The reason why the tool cannot work, or `undefined`. */
  missing(): Promise<string | undefined>;
}

type Missing = (world: ToolWorld) => string | undefined | Promise<string | undefined>;

/** For tools that need one setting. */
export function needsSetting(name: keyof Settings): Missing {
  return ({ settings }) => settings[name].toString() === "" ? `${name} is not set` : undefined;
}

export function defineTool<T extends { readonly timeout: number }>(
  { name, description, schema, missing, needOf, run }: {
    readonly name: string;
    readonly description: string;
    readonly schema: z.ZodType<T>;
    readonly missing: Missing;
    /** {@linkcode Tool.needOf} for valid arguments. */
    needOf?(args: T, world: ToolWorld): string | undefined;
    run(args: T, call: Call): Promise<Finding>;
  },
): (world: ToolWorld) => ToolOffer {
  const { $schema: _, ...parameters } = z.toJSONSchema(schema, { io: "input" });
  return (world) => ({
    name,
    description,
    parameters,
    missing: async () => await missing(world),
    needOf(raw) {
      const { data } = schema.safeParse(raw);
      try {
        return data === undefined ? undefined : needOf?.(data, world);
      } catch (error) {
        // No approval can allow a call that the tool rejects.
        if (error instanceof ToolFailure) return undefined;
        throw error;
      }
    },
    run(raw, context) {
      const checked = schema.safeParse(raw);
      const seconds = Math.min(checked.data?.timeout ?? 1, MAX_TIMEOUT_SECONDS);
      return runTimed(name, { ...world, seconds }, context, async (call) => {
        if (checked.success) return await run(checked.data, call);
        return refuse(`invalid arguments: ${checked.error.issues.map(describe).join("; ")}`);
      });
    },
  });
}

/** Runs a tool within its time limit, and masks and bounds its finding. */
export async function runTimed(
  name: string,
  world: Omit<Call, "signal" | "isApproved">,
  { signal, isApproved = false }: Pick<ToolContext, "signal" | "isApproved">,
  run: (call: Call) => Promise<Finding>,
): Promise<ToolResult> {
  const { ports: { clock, redact }, seconds } = world;
  const start = clock.now();
  const late = () => new ToolFailure(`no response within ${seconds} s`);
  try {
    const bound = { clock, signal, ms: seconds * 1000 + GRACE_MS, late };
    const { ok, title, body, chart } = await within(bound, async (ended) => {
      using deadline = new Deadline({ clock, signal: ended, ms: seconds * 1000, late });
      return await run({ ...world, signal: deadline.signal, isApproved });
    });
    const heading = `${title.replace(/\s+/g, " ")} [${Math.max(0, clock.now() - start)} ms]`;
    const drawn = chart === undefined ? undefined : presentChart(chart, redact);
    return { ok, text: present(`${heading}\n${body}`, redact), ...(drawn !== undefined && { chart: drawn }) };
  } catch (error) {
    if (signal.aborted || !(error instanceof ToolFailure)) throw error;
    return { ok: false, text: present(`${name} failed: ${error.message}`, redact) };
  }
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
function presentChart({ series }: charts.Chart, redact: Redact): charts.Chart | undefined {
  const drawn = series.slice(0, charts.MAX_CHART_SERIES).map((each) => ({
    label: cutText(redact(visible(each.label)).replace(/\s+/g, " "), charts.MAX_CHART_LABEL),
    points: thin(
      each.points.filter(([ms, value]) => Math.abs(ms) <= charts.MAX_CHART_MS && Number.isFinite(value)),
      charts.MAX_CHART_POINTS,
    ),
  })).filter(({ points }) => points.length > 0);
  return drawn.length === 0 ? undefined : { series: drawn };
}

/** At most `max` members in equal distances, with the first and the last. */
export function thin<T>(all: readonly T[], max: number): readonly T[] {
  if (all.length <= max || max < 2) return all.slice(0, max);
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
