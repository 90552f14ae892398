// Cases of a policy: requests with the decision that their author expects.
import * as z from "@zod/zod";
import { type Clock, finishInSlices, type Steps } from "../../clock.ts";
import { configError } from "../../errors.ts";
import { quoteText, shortenText } from "../../text.ts";
import type { CompiledPolicy } from "../compile.ts";
import { decideAction, decideRequest, type HostQuestion } from "./question.ts";

/** The decision that a case expects. */
const EXPECTATIONS = ["allow", "deny", "approval"] as const;

/** One request, and what the policy has to decide. */
export interface PolicyCase {
  readonly name?: string;
  readonly host?: string;
  readonly cluster?: string;
  readonly command: string;
  readonly caller?: string;
  readonly end_user?: string;
  readonly end_user_groups?: readonly string[];
  readonly sudo?: boolean;
  readonly sudo_user?: string;
  readonly expect: (typeof EXPECTATIONS)[number];
  readonly rule?: string;
}

const text = (about: string) => z.string().exactOptional().describe(about);

const policyCase = z.strictObject({
  name: text("what the case proves"),
  host: text("host name"),
  cluster: text("cluster name, instead of host"),
  command: z.string().describe("command, or action on the cluster"),
  caller: text("caller CN; absent: any caller that may use the host"),
  end_user: text("end user"),
  end_user_groups: z.array(z.string()).exactOptional().describe("groups of the end user; absent: no filter"),
  sudo: z.boolean().exactOptional().describe("run with sudo"),
  sudo_user: text("with sudo: account"),
  expect: z.enum(EXPECTATIONS).describe("expected decision"),
  rule: text("expected rule, such as allow:^uptime$"),
}).refine(
  ({ host, cluster }) => (host === undefined) !== (cluster === undefined),
  "needs either host or cluster",
);

/** Checks a file of cases; unknown keys are rejected. */
const policyCases: z.ZodType<{ readonly cases: readonly PolicyCase[] }> = z.strictObject({
  cases: z.array(policyCase).min(1).describe("requests and their expected decisions"),
});

/** The kind of a file of cases, for its loader. */
export const POLICY_TESTS = { what: "policy tests", schema: policyCases } as const;

/** Reads and checks a file. */
type LoadTests = (
  kind: typeof POLICY_TESTS & { readonly path: string },
) => Promise<{ readonly cases: readonly PolicyCase[] }>;

/** What the policy decides about a case. */
export interface CaseResult {
  readonly case: PolicyCase;
  readonly decision: PolicyCase["expect"];
  readonly rule: string;
  /** Why the case fails; empty: it passes. */
  readonly failure: string;
}

/** Decides all cases. A case of an unknown host or cluster fails. */
export function decideCases(policy: CompiledPolicy, cases: readonly PolicyCase[]): readonly CaseResult[] {
  return cases.map((each) => {
    const { decision, rule, reason, isUnknown } = decideCase(policy, each);
    const isExpected = !isUnknown && decision === each.expect &&
      (each.rule === undefined || each.rule === rule);
    const wanted = each.rule === undefined ? each.expect : `${each.expect} by ${each.rule}`;
    const found = [decision, ...rule === "" ? [] : [`by ${rule}`], ...reason === "" ? [] : [`(${reason})`]]
      .join(" ");
    return {
      case: each,
      decision,
      rule,
      failure: isExpected ? "" : isUnknown ? reason : `expected ${wanted}, but the decision is ${found}`,
    };
  });
}

/** The name of a case, or its request and expected decision. */
export function titleOfCase({ name, host, cluster, command, expect }: PolicyCase): string {
  return name ?? `${host ?? cluster}: ${command} → ${expect}`;
}

const SHOWN = 3;
const SHOWN_CHARACTERS = 300;

/**
 * Checks that a policy decides all cases of a file as their author expects. Requests are answered in the meantime.
 *
 * @throws {AppError} `invalid_config` with the first cases that fail, or if the file cannot be loaded
 */
export async function requirePolicyTests(
  policy: CompiledPolicy,
  path: string,
  { load, clock }: { readonly load: LoadTests; readonly clock: Clock },
): Promise<void> {
  const { cases } = await load({ path, ...POLICY_TESTS });
  const failed = await finishInSlices(findFailures(policy, cases), clock);
  if (failed.length === 0) return;
  const head = `Cannot use the policy: ${failed.length} of ${cases.length} cases of ${quoteText(path)} fail`;
  const shown = failed.slice(0, SHOWN).map((each) => shortenText(each, SHOWN_CHARACTERS));
  throw configError([head, ...shown].join("\n  "));
}

function* findFailures(policy: CompiledPolicy, cases: readonly PolicyCase[]): Steps<readonly string[]> {
  const failed: string[] = [];
  for (const each of cases) {
    yield;
    for (const { failure } of decideCases(policy, [each])) {
      if (failure !== "") failed.push(`${titleOfCase(each)}: ${failure}`);
    }
  }
  return failed;
}

function decideCase(policy: CompiledPolicy, { host = "", cluster, command, caller, ...asked }: PolicyCase) {
  const {
    end_user: endUser = "",
    end_user_groups: endUserGroups = null,
    sudo = false,
    sudo_user: sudoUser = "",
  } = asked;
  const denied = (reason: string, rule = "") => ({
    decision: "deny" as const,
    rule,
    reason,
    isUnknown: false,
  });
  // A case with a misspelled name must not pass because the unknown name is denied.
  const unknown = (name: string) => ({ ...denied(`unknown ${name}`), isUnknown: true });
  if (cluster !== undefined) {
    const found = policy.clusters.get(cluster);
    if (found === undefined) return unknown(`cluster ${quoteText(cluster)}`);
    const { decision } = decideAction(policy, found, command, { caller, endUser, endUserGroups });
    if (decision.kind === "mismatch") return denied("the action is not canonical");
    if (decision.kind === "denied") return denied(decision.reason, decision.matchedRule);
    return accepted(decision);
  }
  const found = policy.hosts.get(host);
  if (found === undefined) return unknown(`host ${quoteText(host)}`);
  const question: HostQuestion = {
    ...caller !== undefined && { caller },
    ...{ endUser, endUserGroups, host, role: "target", purpose: "oneshot", sessionMode: "", command },
    ...{ sudo, sudoUser, pty: false, fileTransfer: false, contentSha256: "", ttlSeconds: 0 },
  };
  const decision = decideRequest(policy, found, question);
  return decision.kind === "denied" ? denied(decision.reason, decision.matchedRule) : accepted(decision);
}

function accepted(
  { requireApproval, matchedRule }: { readonly requireApproval: boolean; readonly matchedRule: string },
) {
  return {
    decision: requireApproval ? "approval" as const : "allow" as const,
    rule: matchedRule,
    reason: "",
    isUnknown: false,
  };
}
