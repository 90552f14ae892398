import { type Command, InvalidArgumentError, Option } from "commander";
import { type Environment, readSettings, writeOutput } from "../cli/environment.ts";
import { EXIT_CODES, type ExitCode } from "../cli/failure.ts";
import { addJson, countOf, once, repeated } from "../cli/options.ts";
import { newProgram } from "../cli/program.ts";
import { type Arm, type ArmModels, ARMS } from "./arms.ts";
import { type Play, playOf, PLAYS, ScriptedAgent } from "./scripted_agent.ts";
import { AppError } from "@gateway/shared/errors";
import { builtinIncidents } from "./builtin_incidents.ts";
import { compareArms } from "./comparison.ts";
import { renderComparison } from "./comparison_html.ts";
import { formatComparison } from "./comparison_text.ts";
import type { Incident } from "./incident.ts";
import { hashIncidents, hashProtocol, type Protocol, REGISTERED, withPrompts } from "./protocol.ts";
import { holdTrial, type Trial, type TrialRules } from "./trial.ts";
import type { Settings } from "../settings/config.ts";
import { estimateCost, loadPrices } from "../models/prices.ts";
import type { Providers } from "../models/providers.ts";
import type { PromptTemplate } from "../prompts/parse_template.ts";
import { loadTemplates, selectTemplate } from "../prompts/templates.ts";
import { loadIncidents } from "./load_incidents.ts";
import { newCallId, openProviders } from "../cli/machine.ts";
import { safeText } from "../cli/terminal.ts";

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

interface ComparisonFlags {
  readonly incidents?: string;
  readonly only?: readonly string[];
  readonly arm?: readonly Arm[];
  readonly runs: number;
  readonly budget: number;
  /** How the diagnostic agent is played; `true` if it isn't said. */
  readonly offline?: Play | true;
  readonly run?: boolean;
  readonly register?: boolean;
  readonly expect?: string;
  readonly output?: string;
  readonly report?: string;
  readonly json?: boolean;
}

/** Holds all trials, one after the other. Bad diagnoses are a result, not a failure. */
async function comparisonCommand(flags: ComparisonFlags, environment: Environment): Promise<ExitCode> {
  const { terminal, clock, signal } = environment;
  if (flags.offline === undefined && flags.register !== true && flags.run !== true) {
    // Hundreds of runs of a real model are not started by a slip.
    throw new AppError(
      "invalid_request",
      "Say what to do: --run compares with the models of the settings, --offline with scripted agents, --register prints the protocol",
    );
  }
  const settings = await readSettings(environment, offlineModels(flags));
  const incidents = select(await readIncidents(flags, environment), flags.only);
  const { PROMPT_TEMPLATE, PROMPT_LANGUAGE, PROMPTS_DIR } = settings;
  const template = selectTemplate(await loadTemplates(PROMPTS_DIR), PROMPT_TEMPLATE, PROMPT_LANGUAGE);
  const protocol = await toProtocol(flags, settings, template);
  const hashes = {
    incidents_sha256: await hashIncidents(incidents),
    protocol_sha256: await hashProtocol(protocol, incidents),
  };
  if (flags.register === true) {
    terminal.out(`${JSON.stringify({ protocol, ...hashes }, null, 2)}\n`);
    return EXIT_CODES.ok;
  }
  if (flags.expect !== undefined && flags.expect !== hashes.protocol_sha256) {
    throw new AppError(
      "invalid_request",
      `The protocol is not the registered one: its SHA-256 is ${hashes.protocol_sha256}`,
    );
  }
  const rules = await toRules(protocol, template, settings);
  const providers = await openProviders(settings, environment, (message) => note(environment, message));
  const trials: Trial[] = [];
  const planned = incidents.flatMap((incident) =>
    protocol.arms.flatMap((arm) =>
      Array.from({ length: protocol.runs }, (_, run) => ({ incident, arm, run: run + 1 }))
    )
  );
  for (const [index, plan] of planned.entries()) {
    signal.throwIfAborted();
    const models = await openModels(protocol, providers, plan.incident, plan.run);
    const ports = { clock, newId: () => newCallId(environment), signal };
    const trial = await holdTrial({ ...plan, models }, rules, ports);
    signal.throwIfAborted();
    trials.push(trial);
    terminal.err(safeText(
      `${index + 1}/${planned.length} ${trial.incident} ${trial.arm} ${trial.run}: ${
        trial.score.right ? "right" : "wrong"
      } at ${trial.confidence.toFixed(2)}, ${trial.tokens} tokens${
        trial.problem === null ? "" : `, ${trial.problem}`
      }\n`,
    ));
  }
  const comparison = compareArms(trials, incidents, {
    generated_at: new Date(clock.now()).toISOString(),
    protocol,
    ...hashes,
    notes: notesOf(flags, settings, hashes.incidents_sha256),
  });
  const json = `${JSON.stringify(comparison, null, 2)}\n`;
  if (flags.output !== undefined) await writeOutput(flags.output, json, environment);
  if (flags.report !== undefined) {
    await writeOutput(flags.report, renderComparison(comparison), environment);
  }
  terminal.out(flags.json === true ? json : `${formatComparison(comparison).map(safeText).join("\n")}\n`);
  return EXIT_CODES.ok;
}

/** In debates of three models the others are strong: what they make of the diagnosis is what is shown. */
function offlineModels({ offline }: ComparisonFlags): Readonly<Record<string, string>> {
  if (offline === undefined) return {};
  const play = offline === true ? "middling" : offline;
  return {
    DIAGNOSTIC_MODEL: `replay/${play}`,
    SKEPTIC_MODEL: "replay/strong",
    MODERATOR_MODEL: "replay/strong",
  };
}

async function readIncidents({ incidents }: ComparisonFlags, environment: Environment) {
  return incidents === undefined
    ? builtinIncidents()
    : await loadIncidents(incidents, environment.workingFolder);
}

function select(incidents: readonly Incident[], only: readonly string[] | undefined): readonly Incident[] {
  if (only === undefined) return incidents;
  const unknown = only.find((id) => !incidents.some((each) => each.id === id));
  if (unknown !== undefined) {
    const known = incidents.slice(0, 60).map(({ id }) => id).join(", ");
    throw new AppError(
      "invalid_request",
      `There is no incident ${JSON.stringify(unknown)}; there are ${known}`,
    );
  }
  return incidents.filter(({ id }) => only.includes(id));
}

async function toProtocol(
  { arm, runs, budget }: ComparisonFlags,
  settings: Settings,
  template: PromptTemplate,
): Promise<Protocol> {
  return await withPrompts({
    arms: ARMS.filter((each) => arm === undefined || arm.includes(each)),
    runs,
    token_budget: budget,
    tool_budget: settings.MAX_TOOL_CALLS_PER_AGENT,
    max_rounds: settings.MAX_ROUNDS,
    confidence_threshold: settings.CONFIDENCE_THRESHOLD,
    early_out: { enabled: settings.EARLY_OUT_ENABLED, threshold: settings.EARLY_OUT_THRESHOLD },
    model_timeout_seconds: settings.MODEL_TIMEOUT_SECONDS,
    template: settings.PROMPT_TEMPLATE,
    language: settings.PROMPT_LANGUAGE,
    models: {
      diagnostic: settings.DIAGNOSTIC_MODEL,
      skeptic: settings.SKEPTIC_MODEL,
      moderator: settings.MODERATOR_MODEL,
    },
  }, template);
}

async function toRules(
  protocol: Protocol,
  template: PromptTemplate,
  { MODEL_PRICES_FILE }: Settings,
): Promise<TrialRules> {
  const prices = await loadPrices(MODEL_PRICES_FILE);
  return {
    template,
    language: protocol.language,
    maxRounds: protocol.max_rounds,
    confidenceThreshold: protocol.confidence_threshold,
    earlyOut: protocol.early_out,
    toolBudget: protocol.tool_budget,
    tokenBudget: protocol.token_budget,
    costOf: (usage, models) => estimateCost(usage, models, prices).total_usd,
    timeouts: { modelMs: protocol.model_timeout_seconds * 1000 },
  };
}

async function openModels(
  { models }: Protocol,
  providers: Providers,
  incident: Incident,
  run: number,
): Promise<ArmModels> {
  const open = async (id: string) => {
    const play = playOf(id);
    return play === undefined ? await providers.model(id) : new ScriptedAgent(play, incident, run);
  };
  return {
    diagnostic: await open(models.diagnostic),
    skeptic: await open(models.skeptic),
    moderator: await open(models.moderator),
  };
}

function notesOf(flags: ComparisonFlags, settings: Settings, hash: string): readonly string[] {
  const { DIAGNOSTIC_MODEL: one, SKEPTIC_MODEL: two, MODERATOR_MODEL: three } = settings;
  const scripted = [one, two, three].some((id) => playOf(id) !== undefined);
  return [
    ...(scripted
      ? [
        "scripted agents know the incidents: these numbers say what the engine does, and nothing about models",
      ]
      : []),
    ...(one === two && two === three ? ["all roles have one model, so debate_three is debate_one"] : []),
    ...(flags.runs < 3 ? ["fewer than 3 runs of each incident"] : []),
    ...(flags.incidents === undefined && flags.only === undefined && hash !== REGISTERED
      ? ["the built-in incidents are not those that were registered"]
      : []),
  ];
}

function note({ terminal }: Environment, message: string): void {
  terminal.err(`note: ${safeText(message)}\n`);
}
