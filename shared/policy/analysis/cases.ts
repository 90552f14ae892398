// Cases of a policy: requests with the decision that their author expects.
import * as z from "@zod/zod";
import { quoteText } from "../../text.ts";
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
export const policyCases: z.ZodType<{ readonly cases: readonly PolicyCase[] }> = z.strictObject({
  cases: z.array(policyCase).min(1).describe("requests and their expected decisions"),
});

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
    const { decision, rule, reason } = decideCase(policy, each);
    const isExpected = decision === each.expect && (each.rule === undefined || each.rule === rule);
    const wanted = each.rule === undefined ? each.expect : `${each.expect} by ${each.rule}`;
    const found = [decision, ...rule === "" ? [] : [`by ${rule}`], ...reason === "" ? [] : [`(${reason})`]]
      .join(" ");
    return {
      case: each,
      decision,
      rule,
      failure: isExpected ? "" : `expected ${wanted}, but the decision is ${found}`,
    };
  });
}

function decideCase(policy: CompiledPolicy, { host = "", cluster, command, caller, ...asked }: PolicyCase) {
  const {
    end_user: endUser = "",
    end_user_groups: endUserGroups = null,
    sudo = false,
    sudo_user: sudoUser = "",
  } = asked;
  const denied = (reason: string, rule = "") => ({ decision: "deny" as const, rule, reason });
  if (cluster !== undefined) {
    const found = policy.clusters.get(cluster);
    if (found === undefined) return denied(`unknown cluster ${quoteText(cluster)}`);
    const { decision } = decideAction(policy, found, command, { caller, endUser, endUserGroups });
    if (decision.kind === "mismatch") return denied("the action is not canonical");
    if (decision.kind === "denied") return denied(decision.reason, decision.matchedRule);
    return accepted(decision);
  }
  const found = policy.hosts.get(host);
  if (found === undefined) return denied(`unknown host ${quoteText(host)}`);
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
  };
}
