import { AppError } from "@gateway/shared/errors";
import { parseStandardJson } from "@gateway/shared/json";
import * as z from "@zod/zod";
import { parseJson } from "../engine/graph/json_objects.ts";
import { type FactsOrReason, readFacts } from "./facts.ts";
import type { JudgedCase } from "./metrics.ts";

interface BenchmarkCase {
  readonly id: string;
  readonly truths: readonly string[];
  readonly run: { readonly kind: "inline"; readonly record: unknown } | {
    readonly kind: "file";
    readonly path: string;
  };
}

type ReadText = (path: string) => Promise<string>;

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

export function parseCases(text: string, source: string): readonly BenchmarkCase[] {
  const values = parseArray(text, source);
  const cases: BenchmarkCase[] = [];
  const problems: string[] = [];
  const ids = new Set<string>();
  for (const [index, value] of values.entries()) {
    const result = readCase(value);
    if (result.kind === "case" && !ids.has(result.case.id)) {
      ids.add(result.case.id);
      cases.push(result.case);
    } else {
      const reason = result.kind === "case" ? `id "${result.case.id}" is given twice` : result.reason;
      problems.push(`case ${index + 1}: ${reason}`);
    }
  }
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

type CaseOrReason =
  | { readonly kind: "case"; readonly case: BenchmarkCase }
  | { readonly kind: "problem"; readonly reason: string };

function readCase(value: unknown): CaseOrReason {
  const result = caseSchema.safeParse(value);
  if (!result.success) {
    const [issue] = result.error.issues;
    const key = issue?.path.join(".") ?? "";
    return { kind: "problem", reason: key === "" ? "expected an object" : `${key} ${issue?.message}` };
  }
  const { id, ground_truth: truths, run, run_file: path } = result.data;
  const hasRun = run !== undefined && run !== null;
  if (hasRun === (path !== undefined)) {
    return { kind: "problem", reason: `needs either "run" or "run_file"${hasRun ? ", not both" : ""}` };
  }
  const found: BenchmarkCase["run"] = path === undefined
    ? { kind: "inline", record: run }
    : { kind: "file", path };
  return { kind: "case", case: { id, truths, run: found } };
}

/** Adds its record to a case. A file that cannot be read counts against the case and does not end the benchmark. */
export async function loadRun({ id, truths, run }: BenchmarkCase, readText: ReadText): Promise<JudgedCase> {
  return {
    id,
    truths,
    run: run.kind === "inline" ? readFacts(run.record) : await readFile(run.path, readText),
  };
}

async function readFile(path: string, readText: ReadText): Promise<FactsOrReason> {
  let text: string;
  try {
    text = await readText(path);
  } catch {
    return { kind: "unusable", reason: `${JSON.stringify(path)} cannot be read` };
  }
  const record = parseJson(text);
  return record === undefined
    ? { kind: "unusable", reason: `${JSON.stringify(path)} is not JSON` }
    : readFacts(record);
}

function invalid(source: string, reason: string): AppError {
  return new AppError("invalid_config", `Cannot load benchmark cases ${JSON.stringify(source)}: ${reason}`);
}
