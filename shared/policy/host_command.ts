/**
 * The command policy of one host applied to one intent: what {@linkcode decideCommand} says, under the host's
 * enforcement. Audit mode turns a refusal by the rules into a warning, and nothing else: the checks before the
 * rules and the session-mode check deny in either mode. Live grants add to an allowlist, live waivers take the
 * approval away; neither does anything else.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { finish } from "../clock.ts";
 * import { compileSample, sampleConfig, sampleIntent } from "../testing/sample_policy.ts";
 * import { NO_GRANTS } from "./grants.ts";
 * import { decideHostCommand } from "./host_command.ts";
 *
 * const rules = { mode: "denylist", enforcement: "audit", deny: ["^uptime"] } as const;
 * const host = compileSample(sampleConfig({ command_policy: rules })).hosts.get("web01");
 * assert(host !== undefined);
 * const verdict = finish(decideHostCommand(host, sampleIntent(), { grants: NO_GRANTS, now: 0 }));
 * assert(verdict.kind === "allowed");
 * assert.equal(verdict.warning, "command_policy audit: would deny (deny:^uptime)");
 * ```
 *
 * @module
 */
import { quoteText } from "../text.ts";
import type { Steps } from "../clock.ts";
import type { Enforcement } from "../wire/sign.ts";
import { type CommandVerdict, decideCommandSteps, extendAllowlist } from "./command.ts";
import type { CompiledHost } from "./compile.ts";
import { needsOwnCertificates } from "./compile_host.ts";
import { findGrantedPatterns, type LiveGrants } from "./grants.ts";
import type { SshIntent } from "./ssh_decision.ts";
import { isWaived } from "./waivers.ts";

/** The outcome for one intent. */
export type HostCommandVerdict =
  | {
    readonly kind: "denied";
    readonly reason: string;
    /** Empty when no rule was asked. */
    readonly rule: string;
    readonly enforcement: Enforcement;
  }
  | {
    readonly kind: "allowed";
    readonly rule: string;
    /** Empty: the host has no rules for this intent. */
    readonly enforcement: Enforcement | "";
    readonly requireApproval: boolean;
    /** A live waiver, and nothing else, spared the command its approval. */
    readonly approvalWaived: boolean;
    readonly warning: string;
    readonly wouldDeny: boolean;
    readonly wouldRequireApproval: boolean;
  };

/** Applies the host's command policies. Roles other than target run no command and have no rules. */
export function* decideHostCommand(
  host: CompiledHost,
  intent: SshIntent,
  live: LiveGrants,
): Steps<HostCommandVerdict> {
  const { commands } = host;
  if (intent.role !== "target" || !commands.restricts) return allow("");
  const { enforcement } = commands;
  if (intent.purpose === "session") {
    if (intent.sessionMode !== "exec") {
      const reason = `host ${quoteText(host.name)} has command_policy: sessions require mode="exec"`;
      return { kind: "denied", reason, rule: "", enforcement };
    }
    if (needsOwnCertificates(host)) {
      const reason =
        `host ${quoteText(host.name)} has unsealed_sessions=false: no certificate for a session; ` +
        "use one-shot commands, or a broker that requests a certificate for each command of a session, or seal the host";
      return { kind: "denied", reason, rule: "", enforcement };
    }
    // The session's opening; each of its commands is asked about later.
    if (intent.command === "") return allow(enforcement);
  }
  const verdict = yield* decideWithGrants(host, intent, live);
  // A denied command stays denied: a waiver is not a permission.
  if (verdict.kind === "allowed" && verdict.requireApproval && isWaived(live, intent)) {
    return { ...allow(enforcement), rule: `approval-waived:${verdict.rule}`, approvalWaived: true };
  }
  if (enforcement === "audit") return audit(verdict);
  if (verdict.kind === "denied") {
    return { kind: "denied", reason: describeDenial(host, verdict), rule: verdict.rule, enforcement };
  }
  return { ...allow(enforcement), rule: verdict.rule, requireApproval: verdict.requireApproval };
}

/**
 * Asks the grants only when the host's own rules have no match. That is the same as asking all at once: the
 * host's rules come first, and every other verdict of theirs is reached without looking at a grant.
 */
function* decideWithGrants(
  { commands }: CompiledHost,
  intent: SshIntent,
  live: LiveGrants,
): Steps<CommandVerdict> {
  const verdict = yield* decideCommandSteps(commands, intent.command);
  if (verdict.rule !== "allowlist:no-match") return verdict;
  const granted = findGrantedPatterns(live, intent);
  if (granted.length === 0) return verdict;
  return yield* decideCommandSteps(extendAllowlist(commands, granted), intent.command);
}

function allow(enforcement: Enforcement | ""): Extract<HostCommandVerdict, { kind: "allowed" }> {
  return {
    kind: "allowed",
    rule: "",
    enforcement,
    requireApproval: false,
    approvalWaived: false,
    warning: "",
    wouldDeny: false,
    wouldRequireApproval: false,
  };
}

function audit(verdict: CommandVerdict): HostCommandVerdict {
  const wouldDeny = verdict.kind === "denied";
  const wouldRequireApproval = verdict.requireApproval;
  const would = [
    ...(wouldDeny ? ["would deny"] : []),
    ...(wouldRequireApproval ? ["would require approval"] : []),
  ].join(" and ");
  const warning = would === "" ? "" : `command_policy audit: ${would} (${verdict.rule})`;
  return { ...allow("audit"), rule: verdict.rule, warning, wouldDeny, wouldRequireApproval };
}

function describeDenial(host: CompiledHost, verdict: Extract<CommandVerdict, { kind: "denied" }>): string {
  return verdict.structure === ""
    ? `command not allowed on ${quoteText(host.name)} by command_policy (${verdict.rule})`
    : `command_policy for ${quoteText(host.name)}: ${verdict.structure}`;
}
