/**
 * The commands below `debate runs`.
 *
 * @module
 */
import type { Command } from "commander";
import type { Environment } from "./environment.ts";
import type { ExitCode } from "./failure.ts";
import { RUNS_EXAMPLES } from "./help.ts";
import { addJson, countOf, once, repeated } from "./options.ts";
import {
  compareRuns,
  exportRun,
  type ListFlags,
  listRuns,
  type OutputFlags,
  reportRun,
  type ResumeFlags,
  resumeRun,
  showRun,
} from "./runs_command.ts";

export function addRuns(program: Command, environment: Environment, end: (code: ExitCode) => void): void {
  const runs = program.command("runs")
    .description("Stored runs: list, show, compare, report, export, resume.")
    .addHelpText("after", RUNS_EXAMPLES);
  addJson(runs.command("list").description("List them, newest first."), "the list")
    .option("--limit <n>", "how many", countOf(1, 100_000), 20)
    .option("--search <text>", "only those with this in topic, title or cause", once)
    .action(async (flags: ListFlags) => end(await listRuns(flags, environment)));
  addJson(runs.command("show <id>").description("Show what a run came to."), "the whole record")
    .action(async (id: string, flags: { readonly json?: boolean }) =>
      end(await showRun(id, flags, environment))
    );
  addJson(runs.command("compare <id> <other>").description("Show two runs side by side."), "both")
    .action(async (id: string, other: string, flags: { readonly json?: boolean }) =>
      end(await compareRuns([id, other], flags, environment))
    );
  runs.command("report <id>").description("Print the report of a run, as Markdown.")
    .option("--html", "as one HTML file instead")
    .option("--output <file>", "write it there", once)
    .action(async (id: string, flags: OutputFlags & { readonly html?: boolean }) =>
      end(await reportRun(id, flags, environment))
    );
  runs.command("export <id>").description("Print the record of a run, to import it elsewhere.")
    .option("--output <file>", "write it there", once)
    .action(async (id: string, flags: OutputFlags) => end(await exportRun(id, flags, environment)));
  addJson(
    runs.command("resume <id>").description("Continue a run with new evidence, as a new run."),
    "the whole record of the new run",
  )
    .option("--evidence <text>", "what is new", once)
    .option("-f, --file <file>", "what is new, a text file (repeatable)", repeated)
    .action(async (id: string, flags: ResumeFlags) => end(await resumeRun(id, flags, environment)));
}
