import type { Clock } from "@gateway/shared/clock";
import { parseConfig } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import * as z from "@zod/zod";
import { join } from "node:path";
import { type Model, ModelError, type ModelReply, type ModelRequest } from "../engine/model.ts";
import certificate_expired from "./scenarios/certificate_expired.json" with { type: "json" };
import memory_leak from "./scenarios/memory_leak.json" with { type: "json" };
import slow_query from "./scenarios/slow_query.json" with { type: "json" };

const lines = z.union([z.string().transform((text) => [text]), z.array(z.string())], {
  error: "expected a text, or a list of lines",
}).default([]);
const tokens = z.int().min(0).max(100_000_000);
const reply = z.strictObject({
  text: lines,
  tool_calls: z.array(z.strictObject({
    name: z.string().min(1),
    arguments: z.record(z.string(), z.unknown()).default({}),
  })).default([]),
  usage: z.strictObject({ input_tokens: tokens, output_tokens: tokens }).exactOptional(),
  expect: z.array(z.string().min(1)).default([]),
  delay_ms: z.int().min(0).max(3_600_000).default(0),
  error: z.strictObject({
    kind: z.enum(["auth", "rate", "timeout", "server", "bad_reply", "canceled"]),
    message: z.string().min(1),
  }).exactOptional(),
});
const replies = z.array(reply).min(1).exactOptional();
const round = z.strictObject({
  diagnostic_agent: replies,
  skeptic_agent: replies,
  diagnostic_rebuttal_agent: replies,
  moderator_agent: replies,
  summarize_history: replies,
});
const schema = z.strictObject({
  description: z.string().default(""),
  topic: z.string().default(""),
  /** A variable takes its value from the line of the prompt that starts with its label. */
  variables: z.record(
    z.string().regex(/^\w+$/),
    z.strictObject({ label: z.string().trim().min(1), default: z.string().exactOptional() }),
  ).default({}),
  rounds: z.array(round).min(1).max(10),
}).superRefine(({ variables, rounds }, context) => {
  for (const [, name = ""] of JSON.stringify(rounds).matchAll(/\{\{(\w+)\}\}/g)) {
    if (Object.hasOwn(variables, name)) continue;
    context.addIssue({ code: "custom", path: ["rounds"], message: `variable "${name}" is not declared` });
  }
});

export function parseScenario(text: string, source: string): z.infer<typeof schema> {
  return parseConfig({ what: "scenario", schema, text, source });
}

const SHIPPED: Readonly<Record<string, unknown>> = { certificate_expired, memory_leak, slow_query };
const NAME = /^[\w-]{1,64}$/;

/** Loads a scenario. A file of the directory, if there is one, takes precedence over a built-in scenario. */
export async function loadScenario(name: string, directory: string): Promise<z.infer<typeof schema>> {
  const path = join(directory, `${name}.json`);
  const text = NAME.test(name) && directory !== ""
    ? await unlessMissing(path, () => Deno.readTextFile(path))
    : undefined;
  if (text !== undefined) return parseScenario(text, `${name}.json`);
  if (Object.hasOwn(SHIPPED, name)) return parseScenario(JSON.stringify(SHIPPED[name]), name);
  const known = (await listScenarios(directory)).join(", ");
  throw new AppError("not_found", `There is no scenario ${JSON.stringify(name)}; there are ${known}`);
}

/** The names of all scenarios, sorted. A directory that does not exist contributes none. */
export async function listScenarios(directory: string): Promise<readonly string[]> {
  const names = new Set(Object.keys(SHIPPED));
  await unlessMissing(directory, async () => {
    for await (const { name } of directory === "" ? [] : Deno.readDir(directory)) {
      const stem = name.replace(/\.json$/, "");
      if (stem !== name && NAME.test(stem)) names.add(stem);
    }
  });
  return [...names].sort();
}

async function unlessMissing<T>(path: string, read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound || cause instanceof Deno.errors.NotADirectory) return undefined;
    throw new AppError("invalid_config", `Cannot read ${JSON.stringify(path)}`, { cause });
  }
}

const PIECE_LENGTH = 24;
/** Whole words, so that a text grows like a model's. */
const PIECE = new RegExp(String.raw`[\s\S]{1,${PIECE_LENGTH}}(?:\s+|$)|\S+\s*`, "g");

/**
 * One scripted model. It remembers which replies it has given, so every run needs its own; the roles of a run may
 * share one, because each node has its own part.
 */
export class ReplayModel implements Model {
  readonly id: string;
  readonly #options: ConstructorParameters<typeof ReplayModel>[0];
  readonly #given = new Map<string, number>();

  constructor(options: {
    readonly id: string;
    readonly scenario: z.infer<typeof schema>;
    readonly clock: Clock;
    /** The pause between two pieces of a text, in milliseconds; 0: none. */
    readonly pieceDelayMs: number;
  }) {
    this.id = options.id;
    this.#options = options;
  }

  async complete(request: ModelRequest): Promise<ModelReply> {
    this.#check(request.signal);
    const { expect, text: lines, delay_ms, error, tool_calls, usage } = this.#next(request);
    const prompt = request.messages.map(({ content }) => content).join("\n");
    const missing = expect.find((text) => !prompt.includes(text));
    if (missing !== undefined) {
      throw this.#problem(request, `expects ${JSON.stringify(missing)} in the prompt, which is not there`);
    }
    const values = this.#values(request, prompt);
    const fill = (text: string) => text.replace(/\{\{(\w+)\}\}/g, (all, name) => values.get(name) ?? all);
    const text = fill(lines.join("\n"));
    await this.#pause(delay_ms, request.signal);
    for (const [piece] of request.onDelta === undefined ? [] : text.matchAll(PIECE)) {
      await this.#pause(this.#options.pieceDelayMs, request.signal);
      request.onDelta?.(piece);
    }
    if (error !== undefined) throw new ModelError(error.kind, error.message);
    return {
      text,
      toolCalls: tool_calls.map((call, index) => ({
        id: `call_${request.messages.length}_${index}`,
        name: call.name,
        arguments: JSON.stringify(fillValue(call.arguments, fill)),
      })),
      usage: usage && { ...usage, total_tokens: usage.input_tokens + usage.output_tokens },
    };
  }

  /** The next reply of a node's part. A reply that calls tools is skipped when there are no tools to call. */
  #next(request: ModelRequest): z.infer<typeof reply> {
    const { purpose, round, tools = [], toolChoice } = request;
    const rounds = this.#options.scenario.rounds;
    if (round > rounds.length) {
      throw this.#problem(request, `has nothing to say: the script ends after round ${rounds.length}`);
    }
    // A script has no part for independent diagnoses: each plays the first diagnosis from its beginning.
    const isSample = purpose === "sample_agent";
    const parts: Readonly<Record<string, z.infer<typeof replies>>> = rounds[round - 1] ?? {};
    const part = parts[isSample ? "diagnostic_agent" : purpose];
    if (part === undefined) throw this.#problem(request, "has no part in the script");
    const mayCall = tools.length > 0 && toolChoice !== "none";
    const key = `${round} ${purpose}`;
    const given = this.#given.get(key) ?? 0;
    for (let index = isSample ? given % part.length : given; index < part.length; index++) {
      const reply = part[index];
      this.#given.set(key, index + 1);
      if (reply !== undefined && (mayCall || reply.tool_calls.length === 0)) return reply;
    }
    const count = part.length === 1 ? "1 reply" : `${part.length} replies`;
    throw this.#problem(request, `has nothing more to say: the script gives ${count}`);
  }

  /** The variables, from lines of the topic and the context. The first such line counts. */
  #values(request: ModelRequest, prompt: string): ReadonlyMap<string, string> {
    const lines = prompt.split("\n").map((line) => line.replace(/^[\s>*-]*/, ""));
    return new Map(
      Object.entries(this.#options.scenario.variables).map(([name, { label, default: fallback }]) => {
        const line = lines.find((line) => line.startsWith(`${label}:`));
        const value = line?.slice(label.length + 1).trim() || fallback;
        if (value !== undefined) return [name, value];
        throw this.#problem(request, `needs a line "${label}: …" in the topic or the context`);
      }),
    );
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    if (ms > 0) await this.#options.clock.sleep(ms, signal).catch(() => {});
    this.#check(signal);
  }

  #check(signal: AbortSignal): void {
    if (signal.aborted) throw new ModelError("canceled", `The call of model "${this.id}" was canceled`);
  }

  /** The script is at fault; with a bad reply, the moderator would be asked to correct it. */
  #problem({ purpose, round }: ModelRequest, what: string): ModelError {
    return new ModelError("server", `Scenario "${this.id}", round ${round}: ${purpose} ${what}`);
  }
}

function fillValue(value: unknown, fill: (text: string) => string): unknown {
  if (typeof value === "string") return fill(value);
  if (Array.isArray(value)) return value.map((entry) => fillValue(entry, fill));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, fillValue(entry, fill)]));
}
