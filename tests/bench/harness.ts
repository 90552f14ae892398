import { createBundles } from "../stage/with_stage.ts";
import { ROOT } from "../stage/service_command.ts";
import { editConfig, Stage, type StageOptions } from "../stage/stage.ts";

/** One line of the benchmark's table. */
export interface Row {
  readonly what: string;
  /** The measured value with its unit. */
  readonly measured: string;
  /** The baseline of the same run; empty for an absolute bound. */
  readonly baseline: string;
  readonly ratio: string;
  readonly target: string;
  readonly met: boolean;
}

/** A value with an absolute bound. */
export function under(
  what: string,
  value: number,
  bound: number,
  { unit = "ms", digits = 0, baseline = "", note = "" } = {},
): Row {
  const measured = `${value.toFixed(digits)} ${unit}${note}`;
  return { what, measured, baseline, ratio: "", target: `under ${bound} ${unit}`, met: value < bound };
}

/** A value with a bound on its ratio to a baseline of the same run. */
export function compared(
  row: Pick<Row, "what" | "measured" | "baseline">,
  ratio: number,
  bound: { readonly atLeast: number } | { readonly atMost: number } | { readonly under: number },
): Row {
  const [target, met] = "atLeast" in bound
    ? [`at least ${bound.atLeast}`, ratio >= bound.atLeast]
    : "atMost" in bound
    ? [`at most ${bound.atMost}`, ratio <= bound.atMost]
    : [`under ${bound.under}`, ratio < bound.under];
  return { ...row, ratio: ratio.toFixed(2), target, met };
}

export function formatTable(rows: readonly Row[]): string {
  const cells = [
    ["", "measured", "baseline", "ratio", "target", ""],
    ...rows.map((row) => [
      ...[row.what, row.measured, row.baseline, row.ratio, row.target],
      row.met ? "met" : "MISSED",
    ]),
  ];
  const widths = cells[0]?.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0))) ??
    [];
  return cells.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ").trimEnd())
    .join("\n");
}

/** Returns the quantile of sorted values. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

export function median(values: readonly number[]): number {
  return quantile(values.toSorted((a, b) => a - b), 0.5);
}

/** Returns the duration of an action in milliseconds. */
export async function timed(action: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await action();
  return performance.now() - start;
}

/** Idle services return memory within this time. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1500));
}

/** One part of the benchmark. It starts everything that it needs, and stops every process that it started. */
export type Section = (context: SectionContext) => Promise<readonly Row[]>;

export interface SectionContext {
  /** An empty directory of the section, removed afterwards. */
  readonly dir: string;
  readonly say: (text: string) => void;
}

/** Creates an installation in the directory of a section, without a limit on sign requests. */
export async function createStage(dir: string, options: Omit<StageOptions, "dir"> = {}): Promise<Stage> {
  const stage = await Stage.create({ ...options, dir });
  await editConfig(stage.init.signer_config, [{ path: ["sign_rate_limit_per_min"] }]);
  return stage;
}

/** Creates an installation whose services run as in packages: in bundles, without a cache. */
export async function createInstalledStage(dir: string, programs: readonly string[]): Promise<Stage> {
  return await createStage(dir, { bundles: await createBundles(dir, programs) });
}

/** Starts a program of this directory in its own process. */
export function startProgram(
  program: string,
  args: readonly string[],
  allow: readonly string[],
): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--no-prompt", "--cached-only", "--ignore-env"],
      ...[...allow, `${ROOT}tests/bench/${program}`, ...args],
    ],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    env: { NO_COLOR: "1" },
  }).spawn();
}
