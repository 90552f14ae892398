import { AppError } from "@gateway/shared/errors";
import { parseStandardJson } from "@gateway/shared/json";
import * as z from "@zod/zod";
import { parseJson } from "../engine/graph/json_objects.ts";
import { readFacts } from "./facts.ts";
import type { JudgedCase } from "./metrics.ts";

const cause = z.string("must be a text").refine((text) => text.trim() !== "", "must not be empty");

const caseSchema = z.looseObject({
  id: z.union([z.string().min(1, "must not be empty"), z.int().transform(String)], "must be a text"),
  ground_truth: z.union(
    [cause.transform((text) => [text]), z.array(cause).min(1)],
    "must be a text, or a list of texts, that is not empty",
  ),
  run: z.unknown().optional(),
  run_file: z.string("must be a path").min(1, "must be a path").optional(),
});

type BenchmarkCase = z.infer<typeof caseSchema>;

export function parseCases(text: string, source: string): readonly BenchmarkCase[] {
  const cases: BenchmarkCase[] = [];
  const problems = parseArray(text, source).flatMap((value, index) => {
    const { data, error } = caseSchema.safeParse(value);
    const problem = data === undefined ? describe(error) : problemOf(data, cases);
    if (data !== undefined) cases.push(data);
    return problem === undefined ? [] : [`case ${index + 1}: ${problem}`];
  });
  if (problems.length > 0) throw invalid(source, problems.slice(0, MAX_PROBLEMS).join("; "));
  return cases;
}

const MAX_PROBLEMS = 10;

function parseArray(text: string, source: string): readonly unknown[] {
  let value: unknown;
  try {
    value = parseStandardJson(text);
  } catch (cause) {
    const where = cause instanceof SyntaxError ? `: ${cause.message}` : "";
    throw invalid(source, `not JSON${where}`);
  }
  if (!Array.isArray(value)) throw invalid(source, "expected a JSON array of cases");
  if (value.length === 0) throw invalid(source, "it has no cases");
  return value;
}

function describe(error: z.ZodError | undefined): string {
  const [issue] = error?.issues ?? [];
  const key = issue?.path.join(".") ?? "";
  return key === "" ? "expected an object" : `${key} ${issue?.message}`;
}

function problemOf(
  { id, run, run_file }: BenchmarkCase,
  before: readonly BenchmarkCase[],
): string | undefined {
  const hasRun = run !== undefined && run !== null;
  if (hasRun === (run_file !== undefined)) {
    return `needs either "run" or "run_file"${hasRun ? ", not both" : ""}`;
  }
  return before.some((each) => each.id === id) ? `id "${id}" is given twice` : undefined;
}

/** Adds its record to a case. A file that cannot be read counts against the case and does not end the benchmark. */
export async function loadRun(
  { id, ground_truth: truths, run, run_file: path }: BenchmarkCase,
  readText: (path: string) => Promise<string>,
): Promise<JudgedCase> {
  if (path === undefined) return { id, truths, run: readFacts(run) };
  const text = await readText(path).catch(() => undefined);
  if (text === undefined) return { id, truths, run: `${JSON.stringify(path)} cannot be read` };
  const record = parseJson(text);
  return {
    id,
    truths,
    run: record === undefined ? `${JSON.stringify(path)} is not JSON` : readFacts(record),
  };
}

function invalid(source: string, reason: string): AppError {
  return new AppError("invalid_config", `Cannot load benchmark cases ${JSON.stringify(source)}: ${reason}`);
}
