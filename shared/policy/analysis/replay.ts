// Decides the requests in audit records again, by another config.
import * as z from "@zod/zod";
import { createHash } from "node:crypto";
import { parseJson } from "../../json.ts";
import { quoteText } from "../../text.ts";
import type { CompiledPolicy } from "../compile.ts";
import { outcomeOf, OUTCOMES, type PolicyOutcome } from "../recorded.ts";
import { CALLER_DENIALS, mayComeFrom, ownRowOf } from "../ssh.ts";
import { decideAction, decideRequest } from "./question.ts";

type Member =
  | "time"
  | "outcome"
  | "caller"
  | "host_name"
  | "command"
  | "command_line"
  | "command_sha256"
  | "decision";

/** Members of an audit record; an absent member is empty. */
export type ReplayRecord = Readonly<Record<Member, string>>;

/** The parts of a config that a replay applies. */
interface ReplayConfig {
  readonly policy: CompiledPolicy;
  readonly trustedForwarders: readonly string[];
  /** Callers that may read the revocation list only. */
  readonly krlCallers: readonly string[];
}

/** The records of one host and caller that one rule of the config decides differently. */
interface ReplayChange {
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
  readonly changes: readonly ReplayChange[];
  readonly not_judged: readonly { readonly reason: string; readonly count: number }[];
}

const recordedDecision = z.strictObject({
  outcome: z.enum(OUTCOMES),
  groups: z.array(z.string()).nullable(),
  via: z.string().default(""),
  verified: z.boolean().default(false),
  forced: z.boolean().default(false),
});

const MAX_EXAMPLES = 3;

/** Starts a replay. Equal requests are decided once. Records that are not of a request to a signer are ignored. */
export function startReplay(config: ReplayConfig): {
  readonly add: (record: ReplayRecord) => void;
  readonly finish: () => ReplayResult;
} {
  const unchanged = { count: 0 };
  const changes = new Map<string, ReplayChange & { count: number; examples: string[] }>();
  const reasons = new Map<string, { readonly reason: string; count: number }>();
  const known = new Map<string, { count: number }>();
  const seen = { records: 0, first: "", last: "" };
  /** The count to which the record belongs. */
  const judge = (record: ReplayRecord, isWhole: boolean): { count: number } => {
    const verdict = decideAgain(config, record, isWhole);
    if (typeof verdict === "string") {
      return reasons.getOrInsertComputed(verdict, () => ({ reason: verdict, count: 0 }));
    }
    if (verdict.from === verdict.to) return unchanged;
    const about = { ...verdict, host: record.host_name, caller: record.caller };
    const create = () => ({ ...about, count: 0, examples: [] });
    const tally = changes.getOrInsertComputed(JSON.stringify(about), create);
    const example = record.command_line || record.command;
    if (tally.examples.length < MAX_EXAMPLES && !tally.examples.includes(example)) {
      tally.examples.push(example);
    }
    return tally;
  };
  return {
    add(record) {
      if (!isRequest(record)) return;
      const { time, caller, host_name, command, command_line, command_sha256, decision } = record;
      const sha256 = command_line && createHash("sha256").update(command_line).digest("hex");
      // Without the command itself, because long commands of many records would fill the memory.
      const key = JSON.stringify([caller, host_name, command, sha256, command_sha256, decision]);
      known.getOrInsertComputed(key, () => judge(record, sha256 === command_sha256)).count += 1;
      seen.records += 1;
      seen.first ||= time;
      seen.last = time;
    },
    finish() {
      const sorted = <T extends { readonly count: number }>(tallies: Iterable<T>) =>
        [...tallies].sort((left, right) => right.count - left.count);
      const [changed, not_judged] = [sorted(changes.values()), sorted(reasons.values())];
      return { ...seen, unchanged: unchanged.count, changes: changed, not_judged };
    },
  };
}

const REQUESTS =
  "issued approval-required denied dry_run_allowed dry_run_denied frozen_denied end_user_unverified".split(
    " ",
  );

/** Whether a signer wrote the record about a request. A request that a gate stopped has a host, but no description. */
function isRequest({ outcome, decision, command, host_name }: ReplayRecord): boolean {
  return decision !== "" || outcome === "stale_denied" ||
    (REQUESTS.includes(outcome) &&
      (/^(?:role=|target=k8s verb=)/.test(command) || (command === "" && host_name !== "")));
}

const UNDECIDED =
  "no recorded decision: another gate denied the request, or an earlier release wrote the record";
const MASKED = "the command or the end user is masked by redaction";
const TRUNCATED = "a member of the record is truncated";
const UNREADABLE = "this release cannot read a member of the record";
const UNVERIFIED =
  "the config requires a token of the end user, and the recorded request has no verified one";

/**
 * Decides like `judge()` of the signer, but without freezes, grants and waivers; a text is the reason why it cannot.
 *
 * @param isWhole the record has the command as it was before redaction
 */
function decideAgain(
  { policy, trustedForwarders, krlCallers }: ReplayConfig,
  { caller, host_name: host, command: description, command_line: command, decision: text }: ReplayRecord,
  isWhole: boolean,
) {
  if (text === "") return UNDECIDED;
  if ([caller, host, description, command, text].some((each) => each.endsWith("...[TRUNCATED]"))) {
    return TRUNCATED;
  }
  if (!isWhole || description.includes("[REDACTED")) return MASKED;
  const [recorded, words] = [readDecision(text), readDescription(description)];
  if (recorded === undefined || words === undefined) return UNREADABLE;
  const { outcome: from, groups: endUserGroups, via, verified, forced: isForced } = recorded;
  if (ownRowOf(policy, caller)?.require_verified_end_user === true && !verified) return UNVERIFIED;
  const { role = "", purpose = "", session_mode: sessionMode = "", user: endUser = "", elev = "" } = words;
  const stop = (reason: string) => ({ kind: "denied", reason, matchedRule: "" }) as const;
  const decide = () => {
    if (via !== "" && !trustedForwarders.includes(via)) return stop(CALLER_DENIALS.notForwarder);
    if (krlCallers.includes(caller)) return stop(CALLER_DENIALS.readsOnly);
    if (!mayComeFrom(policy, caller, via || caller)) return stop(CALLER_DENIALS.notDirect);
    const requester = { caller, endUser, endUserGroups };
    if (words["target"] !== "k8s") {
      const found = policy.hosts.get(host);
      if (found === undefined) return stop(`no policy for host: ${quoteText(host)}`);
      return decideRequest(policy, found, {
        ...{ ...requester, role, purpose, sessionMode, command },
        ...{ sudo: elev !== "", sudoUser: elev.replace(/^sudo:/, "") },
        ...{ pty: words["pty"] === "1", fileTransfer: words["ft"] === "1" },
      });
    }
    const found = policy.clusters.get(host);
    if (found === undefined) return stop("unknown cluster");
    const { verb = "", resource: whole = "", ns = "", name: object = "" } = words;
    const [resource = "", ...group] = whole.split(".");
    const [namespace = "", name = ""] = [ns, object].map((part) => part === "-" ? "" : part);
    const asked = { verb, resource, group: group.join("."), namespace, name };
    const { action, decision } = decideAction(policy, found, asked, { ...requester, isForced });
    // For an action that does not exist, the decision is a denial.
    if (action === undefined || action === command) return decision;
    return stop("the command is not the canonical form of the action");
  };
  const decision = decide();
  const reason = decision.kind === "denied" ? decision.reason : "";
  return { from, to: outcomeOf(decision), rule: decision.matchedRule || reason };
}

function readDecision(text: string): z.infer<typeof recordedDecision> | undefined {
  try {
    return recordedDecision.safeParse(parseJson(text)).data;
  } catch {
    return undefined;
  }
}

const KEYS = "role purpose session_mode user elev pty ft target verb resource ns name".split(" ");

/** Reads the description of a request: words of a key and a value, of which none contains a space. */
function readDescription(text: string): Readonly<Record<string, string>> | undefined {
  const words = text.split(" ").map((word) => /^(.*?)=(.*)$/s.exec(word)?.slice(1) ?? [word]);
  return words.every(([key = ""]) => KEYS.includes(key)) ? Object.fromEntries(words) : undefined;
}
