// Cases of a policy: requests with the decision that their author expects.
import * as z from "@zod/zod";
import { type Clock, finishInSlices, type Steps } from "../../clock.ts";
import { configError } from "../../errors.ts";
import { quoteText, shortenText } from "../../text.ts";
import type { CompiledPolicy } from "../compile.ts";
import { decideAction, decideRequest, readAction } from "./question.ts";

/** The decision that a case expects. */
const EXPECTATIONS = ["allow", "deny", "approval"] as const;

/** One request, and what the policy has to decide. */
export interface PolicyCase {
  readonly host?: string;
  readonly cluster?: string;
  readonly command: string;
  readonly caller?: string;
  readonly end_user_groups?: readonly string[];
  readonly sudo?: boolean;
  readonly sudo_user?: string;
  readonly expect: (typeof EXPECTATIONS)[number];
  readonly rule?: string;
}

const text = (about: string) => z.string().exactOptional().describe(about);

const policyCase = z.strictObject({
  host: text("host name"),
  cluster: text("cluster name, instead of host"),
  command: z.string().describe("command, or action on the cluster"),
  caller: text("caller CN; absent: any caller that may use the host"),
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
  /** The request and its expected decision. */
  readonly title: string;
  readonly decision: PolicyCase["expect"];
  readonly rule: string;
  /** Why the case fails; empty: it passes. */
  readonly failure: string;
}

/** Decides all cases. A case of an unknown host or cluster fails. */
export function* decideCases(
  policy: CompiledPolicy,
  cases: readonly PolicyCase[],
): Steps<readonly CaseResult[]> {
  const results: CaseResult[] = [];
  for (const each of cases) {
    yield;
    const { host, cluster, command, expect, rule: wanted } = each;
    const title = `${host ?? cluster}: ${command} → ${expect}`;
    const about = { case: each, title } as const;
    const found = decideCase(policy, each);
    if (found === undefined) {
      // A case with a misspelled name must not pass because the unknown name is denied.
      const failure = `unknown ${host === undefined ? "cluster" : "host"} ${
        quoteText(host ?? cluster ?? "")
      }`;
      results.push({ ...about, decision: "deny", rule: "", failure });
      continue;
    }
    const rule = found.matchedRule;
    const decision = found.kind === "denied" ? "deny" : found.requireApproval ? "approval" : "allow";
    const isExpected = decision === expect && (wanted === undefined || wanted === rule);
    const reason = found.kind === "denied" ? ` (${found.reason})` : "";
    const by = (deciding = "") => deciding === "" ? "" : ` by ${deciding}`;
    const failure = `expected ${expect}${by(wanted)}, but the decision is ${decision}${by(rule)}${reason}`;
    results.push({ ...about, decision, rule, failure: isExpected ? "" : failure });
  }
  return results;
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
  const results = await finishInSlices(decideCases(policy, cases), clock);
  const failed = results.filter(({ failure }) => failure !== "");
  if (failed.length === 0) return;
  const head = `Cannot use the policy: ${failed.length} of ${cases.length} cases of ${quoteText(path)} fail`;
  const shown = failed.slice(0, SHOWN)
    .map(({ title, failure }) => shortenText(`${title}: ${failure}`, SHOWN_CHARACTERS));
  throw configError([head, ...shown].join("\n  "));
}

/** Decides as the signer does; undefined for an unknown host or cluster. */
function decideCase(policy: CompiledPolicy, { host = "", cluster, command, caller, ...asked }: PolicyCase) {
  const { end_user_groups: endUserGroups = null, sudo, sudo_user: sudoUser } = asked;
  if (cluster !== undefined) {
    const found = policy.clusters.get(cluster);
    const requester = { caller, endUser: "", endUserGroups };
    return found && decideAction(policy, found, readAction(command), requester).decision;
  }
  const found = policy.hosts.get(host);
  return found && decideRequest(policy, found, { caller, endUserGroups, command, sudo, sudoUser });
}
