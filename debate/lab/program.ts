import { type Command, InvalidArgumentError, Option } from "commander";
import type { Environment } from "../cli/environment.ts";
import type { ExitCode } from "../cli/failure.ts";
import { addJson, countOf, once, repeated } from "../cli/options.ts";
import { newProgram } from "../cli/program.ts";
import { type Arm, ARMS } from "./arms.ts";
import { comparisonCommand, type ComparisonFlags } from "./comparison_command.ts";
import { PLAYS } from "./scripted_agent.ts";

const EXAMPLES = `
Examples:
  deno task debate:lab --offline --report report.html
      scripted agents: no token, no network
  deno task debate:lab --offline weak --arm single --arm debate_three --json
      what the engine makes of a wrong diagnosis with made-up evidence
  deno task debate:lab --run --report report.html --output report.json
      compare the models of the settings on the 24 built-in incidents; this
      costs 432 runs of at most --budget tokens each
  deno task debate:lab --register > protocol.json
      publish this first, then --run --expect <its protocol_sha256>
  deno task debate:lab --run --incidents Cloud-OpsBench/benchmark/boutique/service

single, vote, debate_one and blind use DIAGNOSTIC_MODEL in all roles,
debate_three and sample_then_debate the models of all three roles. An answer is
right if component, kind of fault and causal path are.

The exit code is 0 even for poor results, 2 for input that cannot be used.
`;

export function createLab(
  environment: Environment,
  _args: readonly string[],
  end: (code: ExitCode) => void,
): Command {
  const program = newProgram(
    "debate-lab",
    "Compare ways of diagnosing on recorded incidents.",
    environment,
  )
    .option("--run", "with the models of the settings")
    .addOption(
      new Option(
        "--offline [play]",
        "scripted agents instead of models; the diagnosis is strong, middling or weak, or its quotes are beside the point (middling)",
      ).choices(PLAYS),
    )
    .option(
      "--incidents <directory>",
      "own incidents, or cases of Cloud-OpsBench (default: the built-in 24)",
      once,
    )
    .option("--only <id>", "only this incident (repeatable)", repeated)
    .addOption(
      new Option("--arm <arm>", "only this way of diagnosing (repeatable)").choices(ARMS).argParser(armOf),
    )
    .option("--runs <n>", "how often each incident is diagnosed in each way", countOf(1, 100), 3)
    .option(
      "--budget <tokens>",
      "tokens of one run, the same for each way",
      countOf(1000, 100_000_000),
      150_000,
    )
    .option("--register", "run nothing; print the protocol and its hash, to be published first")
    .option("--expect <sha256>", "run only this registered protocol", once)
    .option("--report <file>", "write the comparison there, as HTML with plots", once)
    .option("--output <file>", "write the whole result there, as JSON", once);
  return addJson(program, "the result")
    .addHelpText("after", EXAMPLES)
    .action(async (flags: ComparisonFlags) => end(await comparisonCommand(flags, environment)));
}

function armOf(value: string, previous: readonly Arm[] | undefined): readonly Arm[] {
  const arm = ARMS.find((each) => each === value);
  if (arm === undefined) throw new InvalidArgumentError(`Expected one of ${ARMS.join(", ")}.`);
  return [...previous ?? [], arm];
}
