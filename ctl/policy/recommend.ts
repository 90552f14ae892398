import { resolve } from "node:path";
import { type CompiledHost, type CompiledPolicy, compilePolicy, decideCommand } from "@gateway/shared/policy";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { countOf, once } from "../kit/arguments.ts";
import { createFilter } from "../audit/record.ts";
import { readLogs } from "../audit/logs.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import type { CommandResult } from "../kit/output.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import { listSteps } from "./decide.ts";

interface RecommendFlags {
  readonly config?: string;
  readonly audit: string;
  readonly all?: boolean;
  readonly host?: string;
  readonly since?: string;
  readonly minCount?: number;
}

const MAX_COUNT = 1_000_000;

const EXAMPLES = `
Examples:
  broker-ctl policy recommend --audit log/broker/audit.log --config signer.json
  broker-ctl policy recommend --audit log/broker/audit.log --all --host web01 --since 2026-01-01 --min-count 5

Reads the audit log of a broker or of the control plane, and decides each command anew by the rules of the config: what
ran and is not allowed now could be (promote), what was refused and by whom it was wanted (friction), and which patterns
no command was matched by (dead-rule), of hosts that were used. The signer's own log names commands in another form. The
log is not verified, and what agents ask for is up to them: take nothing over that you have not read.
`;

const HEADS = { promote: "PROMOTE", friction: "FRICTION", "dead-rule": "DEAD" } as const satisfies Record<
  Suggestion["type"],
  string
>;

/** `policy recommend`: what the past says about the rules. */
export const addRecommend: AddCommand = (policy, context) => {
  policy.command("recommend")
    .description("Say what an audit log speaks for changing in the rules.")
    .requiredOption("--audit <log>", "the audit log of a broker or of the control plane", once)
    .option("--all", "the rotated files too")
    .option("--host <name>", "this host alone", once)
    .option("--since <time>", "records from this time on, RFC 3339 or a day (UTC)", once)
    .option("--min-count <count>", "leave out what is rarer (default: 1)", countOf(1, MAX_COUNT))
    .addHelpText("after", EXAMPLES)
    .action((_flags, command) =>
      context.run(command, ["config"], () => recommend(command.optsWithGlobals() as RecommendFlags, context))
    );
};

async function recommend(flags: RecommendFlags, { workingFolder }: CommandContext): Promise<CommandResult> {
  const { audit, all, host, since, minCount = 1 } = flags;
  const isSince = createFilter(since === undefined ? {} : { since });
  const compiled = compilePolicy(await loadSignerFile(flags.config, workingFolder));
  if (compiled.kind === "invalid") {
    throw new AppError("invalid_config", `Cannot use signer config: ${compiled.problems.join("\n  ")}`);
  }
  if (host !== undefined && !compiled.policy.hosts.has(host)) {
    throw new AppError("not_found", `There is no host ${quoteText(host)} in the config`);
  }
  const recommender = new Recommender(compiled.policy);
  let broken = 0;
  for await (const line of readLogs(resolve(workingFolder, audit), { all: all === true })) {
    if (line === undefined) broken += 1;
    else if (isSince(line.record) && line.record.target_type !== "k8s") recommender.add(line.record);
  }
  const { suggestions: found, looked, passedOver } = recommender.finish({ minCount });
  const suggestions = found.filter((suggestion) => host === undefined || suggestion.host === host);
  return {
    json: suggestions,
    lines: [
      `${audit}: ${looked} commands looked at, ${passedOver} passed over (masked, cut, or of no host), ` +
      `${broken} broken lines`,
      ...(suggestions.length === 0 ? ["(no suggestions)"] : suggestions.flatMap(format)),
      "advisory only: nothing was changed",
    ],
  };
}

function format({ type, host, pattern, count, distinct_callers: callers, last_seen: last }: Suggestion) {
  const often = type === "dead-rule" ? "" : `  ${count} times, ${callers} callers, last ${last}`;
  return [`[${HEADS[type]}] ${host}${often}`, `    ${pattern}`];
}

/** What an audit record tells of a command. */
export interface SeenCommand {
  /** RFC 3339. */
  readonly time: string;
  readonly caller: string;
  /** A host's name, or its address. */
  readonly host: string;
  readonly outcome: string;
  readonly command: string;
  /** The command, if `command` describes the request; the signer's records. */
  readonly command_line?: string;
  /** Empty in old records. */
  readonly host_name?: string;
  readonly err?: string;
}

/** A change of the policy that the past speaks for. */
interface Suggestion {
  /** promote: what ran is not allowed now; friction: what was refused; dead-rule: what no command was matched by. */
  readonly type: "promote" | "friction" | "dead-rule";
  readonly host: string;
  /** A pattern of RE2; of friction the command itself. */
  readonly pattern: string;
  readonly count: number;
  readonly distinct_callers: number;
  readonly first_seen?: string;
  readonly last_seen?: string;
}

/** What came of looking through a log. */
interface Recommendation {
  readonly suggestions: readonly Suggestion[];
  /** Records of commands on hosts of the policy. */
  readonly looked: number;
  /** Records whose command is masked or cut off, or whose host the policy doesn't know. */
  readonly passedOver: number;
}

const RAN: ReadonlySet<string> = new Set([
  "executed",
  "session_exec",
  "dry_run_allowed",
  // Of a decision and its use, which are two records, the use alone counts.
  "approval-granted",
]);
const REFUSED: ReadonlySet<string> = new Set(["denied", "session_exec_denied", "dry_run_denied"]);
/** A broker records what the signer refused as an error. */
const REJECTED = /signing rejected \(403\)/;
const MASKED = /\[REDACTED[:\]]|\.\.\.\[TRUNCATED\]/;

interface Tally {
  readonly type: Suggestion["type"];
  readonly host: string;
  readonly pattern: string;
  readonly callers: Set<string>;
  count: number;
  first: string;
  last: string;
}

/** Collects records one by one, and says at the end what the policy could be changed to. */
export class Recommender {
  readonly #policy: CompiledPolicy;
  readonly #byAddress: ReadonlyMap<string, CompiledHost | undefined>;
  readonly #tallies = new Map<string, Tally>();
  readonly #texts = new Map<string, Set<string>>();
  #looked = 0;
  #passedOver = 0;

  constructor(policy: CompiledPolicy) {
    this.#policy = policy;
    const groups = Map.groupBy(policy.hosts.values(), ({ addr }) => addr);
    // Of two hosts at one address a record does not say which one it was.
    this.#byAddress = new Map(
      [...groups].map(([addr, hosts]) => [addr, hosts.length === 1 ? hosts[0] : undefined]),
    );
  }

  add(seen: SeenCommand): void {
    const isRefused = REFUSED.has(seen.outcome) ||
      (seen.outcome === "error" && REJECTED.test(seen.err ?? ""));
    if (!RAN.has(seen.outcome) && !isRefused) return;
    const command = seen.command_line || seen.command;
    if (command === "") return;
    const host = this.#policy.hosts.get(seen.host_name || seen.host) ?? this.#byAddress.get(seen.host);
    if (host === undefined || MASKED.test(command)) {
      this.#passedOver += 1;
      return;
    }
    this.#looked += 1;
    const steps = listSteps(host, command);
    for (const step of steps) this.#textsOf(host).add(step.command);
    const verdict = decideCommand(host.commands, command);
    if (!host.commands.restricts || verdict.kind === "allowed") return;
    if (isRefused) return this.#count("friction", host, command, seen);
    for (const { command: text, verdict } of steps) {
      // What a rule denies, or no parser can take apart, no pattern would allow.
      if (verdict.kind !== "denied" || verdict.rule !== "allowlist:no-match") continue;
      this.#count("promote", host, `^${quotePattern(text)}$`, seen);
    }
  }

  /** @param minCount a rarer command is no suggestion; a rule that nothing matched is one anyway */
  finish({ minCount }: { readonly minCount: number }): Recommendation {
    const counted = [...this.#tallies.values()].filter(({ count }) => count >= minCount).map((
      { callers, first, last, ...tally },
    ) => ({ ...tally, distinct_callers: callers.size, first_seen: first, last_seen: last }));
    const suggestions = [...counted, ...this.#findDead()].toSorted((a, b) =>
      b.count - a.count || (a.host < b.host ? -1 : a.host > b.host ? 1 : 0)
    );
    return { suggestions, looked: this.#looked, passedOver: this.#passedOver };
  }

  /** Of hosts that commands were seen on: what no command matches, also where another rule spoke first. */
  #findDead(): readonly Suggestion[] {
    return [...this.#texts].flatMap(([name, texts]) => {
      const members = this.#policy.hosts.get(name)?.commands.members ?? [];
      const patterns = members.flatMap(({ mode, allow, deny }) => [
        ...(mode === "allowlist" ? allow : []),
        ...(mode === "off" ? [] : deny),
      ]);
      const dead = patterns.filter((pattern) => ![...texts].some((text) => pattern.test(text)));
      return [...new Set(dead.map(({ source }) => source))].map((pattern) =>
        ({ type: "dead-rule", host: name, pattern, count: 0, distinct_callers: 0 }) as const
      );
    });
  }

  #textsOf({ name }: CompiledHost): Set<string> {
    const texts = this.#texts.get(name) ?? new Set();
    this.#texts.set(name, texts);
    return texts;
  }

  #count(
    type: Tally["type"],
    { name: host }: CompiledHost,
    pattern: string,
    { time, caller }: SeenCommand,
  ): void {
    const key = JSON.stringify([type, host, pattern]);
    const tally = this.#tallies.get(key) ??
      { type, host, pattern, callers: new Set(), count: 0, first: time, last: time };
    this.#tallies.set(key, tally);
    tally.count += 1;
    tally.callers.add(caller);
    if (time < tally.first) tally.first = time;
    if (time > tally.last) tally.last = time;
  }
}

/** A text as the pattern of RE2 that matches it and nothing else. */
function quotePattern(text: string): string {
  return text.replaceAll(/[\\.+*?()|[\]{}^$]/g, "\\$&");
}
