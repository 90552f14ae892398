import { resolve } from "node:path";
import { type CompiledHost, type CompiledPolicy, decideCommand, escapePattern } from "@gateway/shared/policy";
import { createFilter } from "../audit/filter.ts";
import { readLogs } from "../audit/logs.ts";
import type { ShownRecord } from "../audit/record.ts";
import { command, count, required } from "../kit/command.ts";
import { requireEntry } from "../kit/signer_change.ts";
import { loadPolicy } from "../kit/signer_file.ts";
import { listSteps } from "./explain.ts";

/** `policy recommend`: policy changes that an audit log suggests. */
export const RECOMMEND = command({
  name: "recommend",
  summary: "Suggest policy changes based on an audit log.",
  takes: {
    "--audit <log>": required("audit log of a broker or control plane"),
    "--host <name>": "only this host",
    "--since <time>": "start: 2h (before now), 2026-01-31 (UTC) or RFC 3339",
    "--min-count <count>": count("minimum number of occurrences (default: 1)", 1, 1_000_000),
  },
  help: `
Examples:
  broker-ctl policy recommend --audit log/broker/audit.log --config signer.json
  broker-ctl policy recommend --audit log/broker/audit.log --host web01 --since 2026-01-01 --min-count 5

Decides each command in the log and its rotated files again by the rules of the config, and lists:
  promote    commands that ran and are not allowed now
  friction   commands that were denied
  dead-rule  patterns of used hosts that matched no command
The log is not verified, and agents choose the commands in it: review each suggestion before you adopt it.
`,
  async run({ config, audit, host, since, minCount = 1 }, { workingFolder }) {
    const isSince = createFilter(since === undefined ? {} : { since });
    const policy = await loadPolicy(config, workingFolder);
    if (host !== undefined) requireEntry("host", policy.config.hosts, host);
    const recommender = new Recommender(policy);
    let broken = 0;
    for await (const line of readLogs([{ path: resolve(workingFolder, audit) }], { all: true })) {
      if (line === undefined) broken += 1;
      else if (isSince(line.record) && line.record.target_type !== "k8s") recommender.add(line.record);
    }
    const { suggestions: found, looked, passedOver } = recommender.finish({ minCount });
    const suggestions = found.filter((suggestion) => host === undefined || suggestion.host === host);
    return {
      json: suggestions,
      lines: [
        `${audit}: ${looked} commands analyzed, ${passedOver} skipped (masked, truncated, or of an unknown host), ` +
        `${broken} invalid lines`,
        ...(suggestions.length === 0 ? ["(no suggestions)"] : suggestions.flatMap(format)),
        "These are suggestions. Nothing was changed.",
      ],
    };
  },
});

function format({ type, host, pattern, count, distinct_callers: callers, last_seen: last }: Suggestion) {
  const often = type === "dead-rule" ? "" : `  ${count} times, ${callers} callers, last ${last}`;
  return [`[${type.replace("-rule", "").toUpperCase()}] ${host}${often}`, `    ${pattern}`];
}

/** A command in an audit record; old records lack the second half. */
export type SeenCommand =
  & Pick<ShownRecord, "time" | "caller" | "host" | "outcome" | "command">
  & Partial<Pick<ShownRecord, "command_line" | "host_name" | "err">>;

interface Suggestion {
  /** promote: a command ran and is not allowed now; friction: a command was denied; dead-rule: a rule matched nothing. */
  readonly type: "promote" | "friction" | "dead-rule";
  readonly host: string;
  /** An RE2 pattern; for friction, the command itself. */
  readonly pattern: string;
  readonly count: number;
  readonly distinct_callers: number;
  readonly first_seen?: string;
  readonly last_seen?: string;
}

const RAN: ReadonlySet<string> = new Set([
  "executed",
  "session_exec",
  "dry_run_allowed",
  // An approved command has two records, the decision and the use. Count only the use.
  "approval-granted",
]);
const REFUSED: ReadonlySet<string> = new Set(["denied", "session_exec_denied", "dry_run_denied"]);
/** A broker records a denial of the signer as an error. */
const REJECTED = /signing rejected \(403\)/;
const MASKED = /\[REDACTED[:\]]|\.\.\.\[TRUNCATED\]/;

interface Tally extends Suggestion {
  readonly callers: Set<string>;
  count: number;
  last_seen: string;
}

/** Collects records one by one, and suggests changes of the policy at the end. */
export class Recommender {
  readonly #policy: CompiledPolicy;
  readonly #byAddress: ReadonlyMap<string, readonly CompiledHost[]>;
  readonly #tallies = new Map<string, Tally>();
  readonly #texts = new Map<CompiledHost, Set<string>>();
  #looked = 0;
  #passedOver = 0;

  constructor(policy: CompiledPolicy) {
    this.#policy = policy;
    this.#byAddress = Map.groupBy(policy.hosts.values(), ({ addr }) => addr);
  }

  add(seen: SeenCommand): void {
    const isRefused = REFUSED.has(seen.outcome) ||
      (seen.outcome === "error" && REJECTED.test(seen.err ?? ""));
    if (!RAN.has(seen.outcome) && !isRefused) return;
    const command = seen.command_line || seen.command;
    if (command === "") return;
    // An address in a record is ambiguous if two hosts share it.
    const [first, ...others] = this.#byAddress.get(seen.host) ?? [];
    const host = this.#policy.hosts.get(seen.host_name || seen.host) ??
      (others.length === 0 ? first : undefined);
    if (host === undefined || MASKED.test(command)) {
      this.#passedOver += 1;
      return;
    }
    this.#looked += 1;
    const steps = listSteps(host, command);
    const texts = this.#texts.get(host) ?? new Set();
    this.#texts.set(host, texts);
    for (const step of steps) texts.add(step.command);
    const verdict = decideCommand(host.commands, command);
    if (!host.commands.restricts || verdict.kind === "allowed") return;
    if (isRefused) return this.#count("friction", host.name, command, seen);
    for (const { command: text, verdict } of steps) {
      // Skip a command that a rule denies or that cannot be parsed, because no pattern would allow it.
      if (verdict.kind !== "denied" || verdict.rule !== "allowlist:no-match") continue;
      this.#count("promote", host.name, `^${escapePattern(text)}$`, seen);
    }
  }

  /** @param minCount the minimum number of occurrences; does not apply to rules without a match */
  finish({ minCount }: { readonly minCount: number }) {
    const counted = this.#tallies.values().filter(({ count }) => count >= minCount)
      .map(({ callers, ...tally }) => ({ ...tally, distinct_callers: callers.size }));
    const suggestions = [...counted, ...this.#findDead()].toSorted((a, b) =>
      b.count - a.count || a.host.localeCompare(b.host)
    );
    return { suggestions, looked: this.#looked, passedOver: this.#passedOver };
  }

  /** The patterns of used hosts that match no command, whichever rule decided. */
  #findDead(): readonly Suggestion[] {
    return [...this.#texts].flatMap(([{ name: host, commands }, texts]) => {
      const patterns = commands.members.flatMap(({ mode, allow, deny }) =>
        mode === "off" ? [] : [...allow, ...deny]
      );
      const dead = patterns.filter((pattern) => ![...texts].some((text) => pattern.test(text)));
      return [...new Set(dead.map(({ source }) => source))].map((pattern) =>
        ({ type: "dead-rule", host, pattern, count: 0, distinct_callers: 0 }) as const
      );
    });
  }

  #count(type: Tally["type"], host: string, pattern: string, { time, caller }: SeenCommand): void {
    const key = JSON.stringify([type, host, pattern]);
    const about = { type, host, pattern, distinct_callers: 0, first_seen: time, last_seen: time };
    const tally = this.#tallies.get(key) ?? { ...about, callers: new Set(), count: 0 };
    this.#tallies.set(key, tally);
    tally.count += 1;
    tally.callers.add(caller);
    tally.last_seen = time;
  }
}
