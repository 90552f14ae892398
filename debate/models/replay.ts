import type { Clock } from "@gateway/shared/clock";
import { parseConfig } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import * as z from "@zod/zod";
import { join } from "node:path";
import { type Model, ModelError, type ModelReply, type ModelRequest } from "../engine/ports.ts";
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
  delay_ms: z.int().min(0).max(3_600_000).default(0),
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

/** Loads a scenario. A file in the directory takes precedence over a built-in scenario. */
export async function loadScenario(name: string, directory: string): Promise<z.infer<typeof schema>> {
  const path = join(directory, `${name}.json`);
  const text = NAME.test(name) && directory !== ""
    ? await unlessMissing(path, () => Deno.readTextFile(path))
    : undefined;
  if (text !== undefined) return parseScenario(text, `${name}.json`);
  if (Object.hasOwn(SHIPPED, name)) return parseScenario(JSON.stringify(SHIPPED[name]), name);
  const known = (await listScenarios(directory)).join(", ");
  throw new AppError("not_found", `Cannot find scenario ${JSON.stringify(name)}; available: ${known}`);
}

/** The sorted names of all scenarios. The directory need not exist. */
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
/** Whole words, so that a text arrives like the text of a real model. */
const PIECE = new RegExp(String.raw`[\s\S]{1,${PIECE_LENGTH}}(?:\s+|$)|\S+\s*`, "g");

/**
 * A scripted model. It remembers which replies it has given, so runs cannot share it. The roles of one run can share
 * it, because each node has a separate part in the script.
 */
export function replayModel({ id, scenario: { rounds, variables }, clock, pieceDelayMs }: {
  readonly id: string;
  readonly scenario: z.infer<typeof schema>;
  readonly clock: Clock;
  /** The pause between two pieces of a text, in milliseconds; 0: none. */
  readonly pieceDelayMs: number;
}): Model {
  const given = new Map<string, number>();

  /** The next reply of a node, or the reason why there is none. If no tool can be called, replies with tool calls are skipped. */
  function next({ purpose, round, tools = [], toolChoice }: ModelRequest): z.infer<typeof reply> | string {
    if (round > rounds.length) return `has no reply: the script ends after round ${rounds.length}`;
    // A script has no part for independent diagnoses, so each one repeats the part of the diagnostic agent.
    const isSample = purpose === "sample_agent";
    const parts: Readonly<Record<string, z.infer<typeof replies>>> = rounds[round - 1] ?? {};
    const part = parts[isSample ? "diagnostic_agent" : purpose];
    if (part === undefined) return "has no part in the script";
    const mayCall = tools.length > 0 && toolChoice !== "none";
    const key = `${round} ${purpose}`;
    const before = given.get(key) ?? 0;
    for (let index = isSample ? before % part.length : before; index < part.length; index++) {
      const reply = part[index];
      given.set(key, index + 1);
      if (reply !== undefined && (mayCall || reply.tool_calls.length === 0)) return reply;
    }
    const count = part.length === 1 ? "1 reply" : `${part.length} replies`;
    return `has no further reply: the script contains ${count}`;
  }

  return {
    id,
    async complete(request): Promise<ModelReply> {
      const { purpose, round, signal, onDelta, messages } = request;
      // A `server` error: after a `bad_reply`, the engine would ask the moderator to correct the script's mistake.
      const fail = (what: string): never => {
        throw new ModelError("server", `Scenario "${id}", round ${round}: ${purpose} ${what}`);
      };
      const pause = async (ms: number) => {
        if (ms > 0) await clock.sleep(ms, signal).catch(() => {});
        if (signal.aborted) throw new ModelError("canceled", `The call of model "${id}" was canceled`);
      };
      await pause(0);
      const reply = next(request);
      if (typeof reply === "string") return fail(reply);
      const { text: lines, delay_ms, tool_calls, usage } = reply;
      const prompt = messages.map(({ content }) => content).join("\n");
      // A variable takes its value from the first line of topic or context that starts with its label.
      const promptLines = prompt.split("\n").map((line) => line.replace(/^[\s>*-]*/, ""));
      const values = new Map(
        Object.entries(variables).map(([name, { label, default: fallback }]) => {
          const line = promptLines.find((line) => line.startsWith(`${label}:`));
          const value = line?.slice(label.length + 1).trim() || fallback;
          return [name, value ?? fail(`needs a line "${label}: …" in the topic or the context`)];
        }),
      );
      const fill = (text: string) => text.replace(/\{\{(\w+)\}\}/g, (all, name) => values.get(name) ?? all);
      const text = fill(lines.join("\n"));
      await pause(delay_ms);
      for (const [piece] of onDelta === undefined ? [] : text.matchAll(PIECE)) {
        await pause(pieceDelayMs);
        onDelta?.(piece);
      }
      const fillValue = (_key: string, value: unknown) => typeof value === "string" ? fill(value) : value;
      return {
        text,
        toolCalls: tool_calls.map((call, index) => ({
          id: `call_${messages.length}_${index}`,
          name: call.name,
          arguments: JSON.stringify(call.arguments, fillValue),
        })),
        usage: usage && { ...usage, total_tokens: usage.input_tokens + usage.output_tokens },
      };
    },
  };
}
