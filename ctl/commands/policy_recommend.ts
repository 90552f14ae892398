import { resolve } from "node:path";
import { compilePolicy } from "@gateway/shared/policy";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { countOf, once } from "../arguments.ts";
import { createFilter } from "../audit/filter.ts";
import { readLogs } from "../audit/read_logs.ts";
import type { AddCommand, CommandContext } from "../context.ts";
import type { CommandResult } from "../output.ts";
import { Recommender, type Suggestion } from "../recommend/recommend.ts";
import { loadSignerFile } from "../signer_file.ts";

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
