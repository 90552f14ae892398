import { parseConfig } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import * as z from "@zod/zod";
import { join } from "node:path";
import certificateExpired from "./scenarios/certificate_expired.json" with { type: "json" };
import memoryLeak from "./scenarios/memory_leak.json" with { type: "json" };
import slowQuery from "./scenarios/slow_query.json" with { type: "json" };

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

export type ScriptedReply = Readonly<z.infer<typeof reply>>;
export type Scenario = Readonly<z.infer<typeof schema>>;

export function parseScenario(text: string, source: string): Scenario {
  return parseConfig({ what: "scenario", schema, text, source });
}

const SHIPPED: Readonly<Record<string, unknown>> = {
  certificate_expired: certificateExpired,
  memory_leak: memoryLeak,
  slow_query: slowQuery,
};

const NAME = /^[\w-]{1,64}$/;

/**
 * Loads a scenario. A file of the folder takes precedence over a built-in one.
 *
 * @param folder empty if there is none
 */
export async function loadScenario(name: string, folder: string): Promise<Scenario> {
  const text = NAME.test(name) ? await readOwn(name, folder) : undefined;
  if (text !== undefined) return parseScenario(text, `${name}.json`);
  if (Object.hasOwn(SHIPPED, name)) return parseScenario(JSON.stringify(SHIPPED[name]), name);
  const known = (await listScenarios(folder)).join(", ");
  throw new AppError("not_found", `There is no scenario ${JSON.stringify(name)}; there are ${known}`);
}

/** The names of all scenarios, sorted. A folder that does not exist contributes none. */
export async function listScenarios(folder: string): Promise<readonly string[]> {
  const names = new Set(Object.keys(SHIPPED));
  try {
    for await (const { name } of folder === "" ? [] : Deno.readDir(folder)) {
      const stem = name.replace(/\.json$/, "");
      if (stem !== name && NAME.test(stem)) names.add(stem);
    }
  } catch (error) {
    if (!isMissing(error)) throw unreadable(folder, error);
  }
  return [...names].sort();
}

async function readOwn(name: string, folder: string): Promise<string | undefined> {
  if (folder === "") return undefined;
  try {
    return await Deno.readTextFile(join(folder, `${name}.json`));
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw unreadable(join(folder, `${name}.json`), error);
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
}

function unreadable(path: string, cause: unknown): AppError {
  return new AppError("invalid_config", `Cannot read ${JSON.stringify(path)}`, { cause });
}
