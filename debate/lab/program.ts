import { type Command, InvalidArgumentError, Option } from "commander";
import * as world from "../cli/environment.ts";
import { addJson, countOf, once, repeated, usageError } from "../cli/options.ts";
import { newProgram } from "../cli/program.ts";
import { safeText } from "../cli/terminal.ts";
import { forDebaters } from "../settings/config.ts";
import { loadPrices } from "../models/prices.ts";
import { loadTemplates, selectTemplate } from "../prompts/templates.ts";
import { compareArms, hashProtocol, withPrompts } from "./comparison.ts";
import { formatComparison } from "./comparison_report.ts";
import { builtinIncidents } from "./incidents.ts";
import { type Arm, ARMS, runTrial, type Trial } from "./trial.ts";

const EXAMPLES = `
Examples:
  deno task debate:lab --run --output report.json
      models of the settings on the 24 built-in incidents: 432 runs of at most
      --budget tokens each
  deno task debate:lab --register > protocol.json
      publish this file first, then --run --expect <its protocol_sha256>

single, vote, debate_one and blind use DIAGNOSTIC_MODEL in all roles.
debate_three and sample_then_debate use the models of all three roles. An answer
is right if the component, the kind of fault and the causal path are right.

The exit code is 0 for any scores, and 2 for unusable input.
`;

export function createLab(environment: world.Environment): Command {
  const arms = new Option("--arm <arm>", "way of diagnosing (repeatable; default: all)").choices(ARMS);
  const program = newProgram("debate-lab", "Compare ways of diagnosing on recorded incidents.", environment)
    .option("--run", "use the models of the settings")
    .option("--only <id>", "incident to diagnose (repeatable; default: all)", repeated)
    .addOption(arms.argParser(armOf))
    .option("--runs <n>", "runs of each incident in each way", countOf(1, 100), 3)
    .option("--budget <tokens>", "maximum tokens of one run", countOf(1000, 100_000_000), 150_000)
    .option("--register", "print the protocol and its hash without a run")
    .option("--expect <sha256>", "hash of the only protocol to run", once)
    .option("--output <file>", "JSON file for the result", once);
  return addJson(program, "the result")
    .addHelpText("after", EXAMPLES)
    .action((flags: Flags) => comparisonCommand(flags, environment));
}

function armOf(value: string, previous: readonly Arm[] | undefined): readonly Arm[] {
  const arm = ARMS.find((each) => each === value);
  if (arm === undefined) throw new InvalidArgumentError(`Expected one of ${ARMS.join(", ")}.`);
  return [...previous ?? [], arm];
}

type Flags =
  & Readonly<Partial<Record<"expect" | "output", string>>>
  & Readonly<Partial<Record<"run" | "register" | "json", boolean>>>
  & Readonly<Record<"runs" | "budget", number>>
  & { readonly only?: readonly string[]; readonly arm?: readonly Arm[] };

/** Runs all trials in sequence. Low scores are a result, not a failure. */
async function comparisonCommand(flags: Flags, environment: world.Environment): Promise<void> {
  const { terminal, clock, signal } = environment;
  if (flags.register !== true && flags.run !== true) {
    // A comparison makes hundreds of runs, so a command without options must not start it.
    throw usageError("Pass --run (models of the settings) or --register");
  }
  const settings = await world.readSettings(environment);
  const all = builtinIncidents();
  const missing = flags.only?.find((id) => !all.some((each) => each.id === id));
  if (missing !== undefined) {
    const known = all.map(({ id }) => id).join(", ");
    throw usageError(`Unknown incident ${JSON.stringify(missing)}, use one of ${known}`);
  }
  const incidents = all.filter(({ id }) => flags.only?.includes(id) ?? true);
  const { PROMPT_TEMPLATE, PROMPT_LANGUAGE, PROMPTS_DIR } = settings;
  const template = selectTemplate(await loadTemplates(PROMPTS_DIR), PROMPT_TEMPLATE, PROMPT_LANGUAGE);
  const protocol = await withPrompts({
    arms: ARMS.filter((each) => flags.arm?.includes(each) ?? true),
    runs: flags.runs,
    token_budget: flags.budget,
    tool_budget: settings.MAX_TOOL_CALLS_PER_AGENT,
    max_rounds: settings.MAX_ROUNDS,
    confidence_threshold: settings.CONFIDENCE_THRESHOLD,
    early_out: { enabled: settings.EARLY_OUT_ENABLED, threshold: settings.EARLY_OUT_THRESHOLD },
    model_timeout_seconds: settings.MODEL_TIMEOUT_SECONDS,
    template: PROMPT_TEMPLATE,
    language: PROMPT_LANGUAGE,
    models: forDebaters((_, prefix) => settings[`${prefix}_MODEL`]),
  }, template);
  const protocol_sha256 = await hashProtocol(protocol, incidents);
  if (flags.register === true) {
    return terminal.out(`${JSON.stringify({ protocol, protocol_sha256 }, null, 2)}\n`);
  }
  if (flags.expect !== undefined && flags.expect !== protocol_sha256) {
    const text = `The SHA-256 of the protocol is ${protocol_sha256}, not the expected one`;
    throw usageError(text);
  }
  const rules = { protocol, template, prices: await loadPrices(settings.MODEL_PRICES_FILE) };
  const providers = await world.openProviders(settings, environment);
  const trials: Trial[] = [];
  const planned = incidents.flatMap((incident) =>
    protocol.arms.flatMap((arm) =>
      Array.from({ length: protocol.runs }, (_, run) => ({ incident, arm, run: run + 1 }))
    )
  );
  for (const [index, plan] of planned.entries()) {
    signal.throwIfAborted();
    const { diagnostic, skeptic, moderator } = protocol.models;
    const models = {
      diagnostic: await providers.model(diagnostic),
      skeptic: await providers.model(skeptic),
      moderator: await providers.model(moderator),
    };
    const ports = { clock, newId: () => environment.randomBytes(6).toHex(), signal };
    const trial = await runTrial({ ...plan, models }, rules, ports);
    signal.throwIfAborted();
    trials.push(trial);
    const { incident, arm, run, score, confidence, tokens, problem } = trial;
    const told = `${score.right ? "right" : "wrong"} at ${confidence.toFixed(2)}, ${tokens} tokens`;
    const why = problem === null ? "" : `, ${problem}`;
    terminal.err(safeText(`${index + 1}/${planned.length} ${incident} ${arm} ${run}: ${told}${why}\n`));
  }
  const notes = {
    "All roles use one model, so debate_three equals debate_one.":
      new Set(Object.values(protocol.models)).size === 1,
    "Each incident has fewer than 3 runs.": flags.runs < 3,
  };
  const comparison = compareArms(trials, incidents, {
    generated_at: new Date(clock.now()).toISOString(),
    protocol,
    protocol_sha256,
    notes: Object.entries(notes).flatMap(([note, holds]) => holds ? [note] : []),
  });
  const json = `${JSON.stringify(comparison, null, 2)}\n`;
  if (flags.output !== undefined) await world.writeOutput(flags.output, json, environment);
  terminal.out(flags.json === true ? json : `${formatComparison(comparison).map(safeText).join("\n")}\n`);
}
