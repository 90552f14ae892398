// Decides the requests in audit records again, by another config.
import { createHash } from "node:crypto";
import { decideCluster, findCluster } from "../clusters.ts";
import type { CompiledPolicy } from "../compile.ts";
import { outcomeOf, type PolicyOutcome, readRecordedDecision, type RecordedDecision } from "../recorded.ts";
import { decideSsh, mayComeFrom, mayUseHost } from "../ssh.ts";

/** The members of an audit record that a replay reads; an absent member is empty. */
export type ReplayRecord = Readonly<
  Record<
    | "time"
    | "outcome"
    | "caller"
    | "host_name"
    | "command"
    | "command_line"
    | "command_sha256"
    | "decision",
    string
  >
>;

/** The parts of a config that a replay applies: its policy, and the lists that deny before the policy decides. */
export interface ReplayConfig {
  readonly policy: CompiledPolicy;
  readonly trustedForwarders: readonly string[];
  /** Callers that may read the revocation list only. */
  readonly krlCallers: readonly string[];
}

/** The records of one host and caller that one rule of the config decides differently. */
export interface ReplayChange {
  readonly from: PolicyOutcome;
  readonly to: PolicyOutcome;
  readonly host: string;
  readonly caller: string;
  /** The rule of the config, or the reason of its denial. */
  readonly rule: string;
  readonly count: number;
  /** The first distinct commands; for a request without a command, its description. */
  readonly examples: readonly string[];
}

/** The result of a replay. Each record is counted once: in `unchanged`, `changes` or `not_judged`. */
export interface ReplayResult {
  readonly records: number;
  /** The times of the first and the last record. */
  readonly first: string;
  readonly last: string;
  readonly unchanged: number;
  /** Judged records whose decision depended on a grant or a waiver. They are compared as without it. */
  readonly with_grant: number;
  readonly changes: readonly ReplayChange[];
  readonly not_judged: readonly { readonly reason: string; readonly count: number }[];
}

type Change = Omit<ReplayChange, "count" | "examples">;

interface Tally {
  count: number;
  readonly change?: Change;
  readonly reason?: string;
  readonly examples: string[];
}

const MAX_EXAMPLES = 3;

/** Starts a replay. Equal requests are decided once. Records that are not of a request to a signer are ignored. */
export function startReplay(config: ReplayConfig): {
  readonly add: (record: ReplayRecord) => void;
  readonly finish: () => ReplayResult;
} {
  const unchanged: Tally = { count: 0, examples: [] };
  const tallies = new Map<string, Tally>();
  const known = new Map<string, { readonly tally: Tally; readonly isLive: boolean }>();
  let [records, with_grant, first, last] = [0, 0, "", ""];
  const tallyOf = (about: Pick<Tally, "change" | "reason">): Tally => {
    const key = JSON.stringify(about);
    const tally = tallies.get(key) ?? { ...about, count: 0, examples: [] };
    tallies.set(key, tally);
    return tally;
  };
  const judge = (record: ReplayRecord) => {
    const recorded = readRecordedDecision(record.decision);
    const next = recorded === undefined ? UNREADABLE : decideAgain(config, record, recorded);
    if (recorded === undefined || typeof next === "string") {
      return { tally: tallyOf({ reason: `${next}` }), isLive: false };
    }
    const { live: isLive, outcome: from } = recorded;
    if (from === next.outcome) return { tally: unchanged, isLive };
    const { host_name: host, caller, command, command_line } = record;
    const tally = tallyOf({ change: { from, to: next.outcome, host, caller, rule: next.rule } });
    const example = command_line || command;
    if (tally.examples.length < MAX_EXAMPLES && !tally.examples.includes(example)) {
      tally.examples.push(example);
    }
    return { tally, isLive };
  };
  return {
    add(record) {
      if (!isRequest(record)) return;
      const { time, caller, host_name, command, command_sha256, decision } = record;
      records += 1;
      first ||= time;
      last = time;
      const reason = findGap(record);
      if (reason !== undefined) {
        tallyOf({ reason }).count += 1;
        return;
      }
      // The hash stands for the command, because commands of all records would not fit into memory.
      const key = JSON.stringify([caller, host_name, command, command_sha256, decision]);
      const judged = known.get(key) ?? judge(record);
      known.set(key, judged);
      judged.tally.count += 1;
      if (judged.isLive) with_grant += 1;
    },
    finish() {
      const sorted = [...tallies.values()].toSorted((left, right) => right.count - left.count);
      return {
        ...{ records, first, last, unchanged: unchanged.count, with_grant },
        changes: sorted.flatMap(({ change, count, examples }) =>
          change ? [{ ...change, count, examples }] : []
        ),
        not_judged: sorted.flatMap(({ reason, count }) => reason === undefined ? [] : [{ reason, count }]),
      };
    },
  };
}

const DESCRIPTION = /^(?:role=|target=k8s verb=)/;
const DECIDED = ["issued", "approval-required", "denied", "dry_run_allowed", "dry_run_denied"];
const STOPPED = ["frozen_denied", "end_user_unverified"];

/** Whether a signer wrote the record about a request. A request that a gate stopped has a host, but no description. */
function isRequest({ outcome, decision, command, host_name }: ReplayRecord): boolean {
  if (decision !== "" || outcome === "stale_denied") return true;
  return [...DECIDED, ...STOPPED].includes(outcome) &&
    (DESCRIPTION.test(command) || (command === "" && host_name !== ""));
}

const MASKED = "the command or another field is masked by redaction";
const TRUNCATED = "the command or another field is truncated";
const UNREADABLE = "a field of the record cannot be read by this release";
const UNRECORDED = "the record of an earlier release lacks facts, such as the groups of the end user";
const OTHER_GATE =
  "the policy did not decide: a freeze, an unverified end user, a forwarder or an earlier release denied it";
const UNVERIFIED = "the config requires a token of the end user, and the record has no verified one";

/** The reason why a record does not contain its whole request; `undefined` if it does. */
function findGap(record: ReplayRecord): string | undefined {
  const { outcome, decision, caller, host_name, command, command_line, command_sha256 } = record;
  if (decision === "") {
    return outcome.startsWith("dry_run") || outcome === "issued" || outcome === "approval-required"
      ? UNRECORDED
      : OTHER_GATE;
  }
  const others = [caller, host_name, command, decision];
  if ([command_line, ...others].some((text) => text.endsWith("...[TRUNCATED]"))) return TRUNCATED;
  if (others.some((text) => text.includes("[REDACTED"))) return MASKED;
  // The hash is of the command before redaction, so an equal text is the whole command.
  const isWhole = command_sha256 === ""
    ? command_line === ""
    : createHash("sha256").update(command_line).digest("hex") === command_sha256;
  return isWhole ? undefined : MASKED;
}

/** Decides like `judge()` of the signer, but without freezes, grants and waivers; a text is the reason why it cannot. */
function decideAgain(
  { policy, trustedForwarders, krlCallers }: ReplayConfig,
  { caller, host_name: host, command: description, command_line: command }: ReplayRecord,
  { groups: endUserGroups, via, verified, forced: isForced }: RecordedDecision,
): { readonly outcome: PolicyOutcome; readonly rule: string } | string {
  const denied = (rule: string) => ({ outcome: "denied", rule }) as const;
  const words = readDescription(description);
  if (words === undefined) return UNREADABLE;
  if (via !== "" && !trustedForwarders.includes(via)) {
    return denied("on_behalf_of not allowed for this caller");
  }
  const row = caller === "_default" ? undefined : policy.callers.get(caller);
  if (row?.require_verified_end_user === true && !verified) return UNVERIFIED;
  if (krlCallers.includes(caller)) return denied("callers in krl_callers may fetch the revocation list only");
  if (!mayComeFrom(policy, caller, via || caller)) {
    return denied("direct requests not allowed for this caller");
  }
  const { role = "", purpose = "", session_mode: sessionMode = "", user: endUser = "", elev = "" } = words;
  const decide = () => {
    if (words["target"] !== "k8s") {
      if (mayUseHost(policy, caller, host) !== "ok") return "host not authorised";
      return decideSsh(policy, {
        ...{ caller, endUser, endUserGroups, host, role, purpose, sessionMode, command },
        ...{ sudo: elev !== "", sudoUser: elev.replace(/^sudo:/, ""), contentSha256: "", ttlSeconds: 0 },
        ...{ pty: words["pty"] === "1", fileTransfer: words["ft"] === "1" },
      });
    }
    const gate = findCluster(policy, caller, host);
    if (gate.kind === "closed") return gate.reason;
    const { verb = "", resource: whole = "", ns = "", name = "" } = words;
    const [resource = "", ...group] = whole.split(".");
    const orNone = (part: string) => part === "-" ? "" : part;
    return decideCluster(gate.cluster, {
      ...{ caller, endUser, endUserGroups, command, isForced, manifestSha256: "" },
      ...{ verb, resource, group: group.join("."), namespace: orNone(ns), name: orNone(name) },
    });
  };
  const decision = decide();
  if (typeof decision === "string") return denied(decision);
  if (decision.kind === "mismatch") return denied("command is not the canonical form of the k8s action");
  const reason = decision.kind === "denied" ? decision.reason : "";
  return { outcome: outcomeOf(decision), rule: decision.matchedRule || reason };
}

const WORDS = new Set(
  "role purpose session_mode user elev pty ft target verb resource ns name".split(" "),
);

/** Reads the description of a request: words of a key and a value, of which none contains a space. */
function readDescription(text: string): Readonly<Record<string, string>> | undefined {
  const words = text.split(" ").map((word) => {
    const end = word.indexOf("=");
    return [word.slice(0, Math.max(end, 0)), word.slice(end + 1)] as const;
  });
  return words.every(([key]) => WORDS.has(key)) ? Object.fromEntries(words) : undefined;
}
