import { type CompiledHost, type CompiledPolicy, decideCommand } from "@gateway/shared/policy";
import { listSteps } from "../explain/decide.ts";

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
export interface Suggestion {
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
