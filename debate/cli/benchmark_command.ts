/**
 * `debate benchmark`: compares stored runs with causes that are known.
 *
 * @module
 */
import { writeFileAtomic } from "@gateway/shared/files";
import { AppError } from "@gateway/shared/errors";
import { dirname, resolve } from "node:path";
import { loadRun, parseCases } from "../benchmark/cases.ts";
import { type CaseResult, judgeCase } from "../benchmark/metrics.ts";
import { createReport, formatReport } from "../benchmark/report.ts";
import type { Environment } from "./environment.ts";
import { EXIT_CODES, type ExitCode } from "./failure.ts";
import { safeText } from "./terminal.ts";

export interface BenchmarkFlags {
  readonly cases: string;
  readonly output?: string;
  readonly threshold: number;
  readonly json?: boolean;
}

/** Judges the cases. Bad diagnoses are a result, not a failure. */
export async function benchmarkCommand(flags: BenchmarkFlags, environment: Environment): Promise<ExitCode> {
  const { terminal, clock, workingFolder } = environment;
  const path = resolve(workingFolder, flags.cases);
  const cases = parseCases(await readCases(path, flags.cases), flags.cases);
  const results: CaseResult[] = [];
  for (const each of cases) {
    // One at a time, because records can be large.
    const judged = await loadRun(each, (file) => Deno.readTextFile(resolve(dirname(path), file)));
    results.push(judgeCase(judged, flags.threshold));
  }
  const report = createReport(results, { threshold: flags.threshold, now: clock.now() });
  const json = `${JSON.stringify(report, null, 2)}\n`;
  if (flags.output !== undefined) await writeReport(resolve(workingFolder, flags.output), flags.output, json);
  terminal.out(flags.json === true ? json : `${formatReport(report).map(safeText).join("\n")}\n`);
  if (flags.output !== undefined) terminal.err(`\nThe whole report is in ${safeText(flags.output)}\n`);
  return EXIT_CODES.ok;
}

async function readCases(path: string, shown: string): Promise<string> {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await Deno.readFile(path));
  } catch (cause) {
    const reason = cause instanceof Deno.errors.NotFound
      ? "there is no such file"
      : cause instanceof TypeError
      ? "it is not UTF-8 text"
      : "it cannot be read";
    throw new AppError("invalid_config", `Cannot load benchmark cases ${JSON.stringify(shown)}: ${reason}`, {
      cause,
    });
  }
}

async function writeReport(path: string, shown: string, text: string): Promise<void> {
  try {
    await writeFileAtomic(path, new TextEncoder().encode(text));
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot write ${JSON.stringify(shown)}`, { cause });
  }
}
