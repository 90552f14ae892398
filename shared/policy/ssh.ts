/**
 * The decision about one SSH intent: whether a caller may have a certificate for a host, and with what in it.
 *
 * The gates stand in a fixed order and the first that fails names the denial. Group RBAC by the callers table
 * ({@linkcode mayUseHost}) is a gate of its own in front of these.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { compilePolicy } from "@gateway/shared/policy/compile";
 * import { decideSsh, toWireDecision } from "@gateway/shared/policy/ssh";
 *
 * const compiled = compilePolicy({
 *   hosts: {
 *     web01: {
 *       addr: "10.0.0.1:22",
 *       user: "deploy",
 *       host_key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c",
 *       principal: "host:web01",
 *       command_policy: { mode: "allowlist", allow: ["^uptime$"] },
 *     },
 *   },
 *   callers: {},
 *   command_policies: {},
 *   group_command_policies: {},
 *   max_ttl_seconds: 0,
 * });
 * assert(compiled.kind === "ok");
 * const intent = {
 *   caller: "broker-1",
 *   endUser: "",
 *   endUserGroups: null,
 *   host: "web01",
 *   role: "target",
 *   purpose: "oneshot",
 *   sessionMode: "",
 *   command: "uptime",
 *   ttlSeconds: 0,
 *   sudo: false,
 *   sudoUser: "",
 *   pty: false,
 *   fileTransfer: false,
 *   contentSha256: "",
 * };
 * const decision = decideSsh(compiled.policy, intent);
 * assert.deepEqual(toWireDecision(decision), {
 *   allowed: true,
 *   matched_rule: "allow:^uptime$",
 *   force_command: "uptime",
 *   ttl_seconds: 300,
 *   enforcement: "enforce",
 * });
 * assert.equal(decideSsh(compiled.policy, { ...intent, command: "uptime; id" }).kind, "denied");
 * ```
 *
 * @module
 */
import { quoteText } from "../quote.ts";
import { finish, type Steps } from "../steps.ts";
import type { CompiledHost, CompiledPolicy } from "./compile.ts";
import { elevateCommand, type Elevation, resolveElevation } from "./elevation.ts";
import { type LiveGrants, NO_GRANTS } from "./grants.ts";
import { decideHostCommand, type HostCommandVerdict } from "./host_command.ts";
import { stopOnDisconnect } from "./stop_on_disconnect.ts";
import type { AllowedSsh, DeniedSsh, SshDecision } from "./ssh_decision.ts";
import { findEarlyDenial, findLateDenial } from "./ssh_gates.ts";
import type { SshIntent } from "./ssh_intent.ts";
import { elevationLabel } from "./sudo_user.ts";

export { visibleRules } from "./host_rules.ts";
export { mayComeFrom, mayUseHost, mayUseSome, visibleHosts } from "./rbac.ts";
export type { AllowedSsh, DeniedSsh, SshDecision } from "./ssh_decision.ts";
export type { SshIntent } from "./ssh_intent.ts";
export { toWireDecision } from "./wire_decision.ts";

/**
 * What a bastion's certificate is locked to: any shell ends at once. Forwarding is a channel of its own, which sshd
 * opens without asking the force-command. A builtin: nothing is looked up in a PATH.
 */
export const BASTION_COMMAND = "exit 1";

/**
 * Decides an intent. Total and pure: a lone surrogate in the command counts as U+FFFD, also in what is signed.
 *
 * @param live the grants and waivers to take in, and the time; none by default
 */
export function decideSsh(
  policy: CompiledPolicy,
  request: SshIntent,
  live: LiveGrants = { grants: NO_GRANTS, now: 0 },
): SshDecision {
  return finish(decideSshSteps(policy, request, live));
}

/** {@linkcode decideSsh} in steps, for a service that answers other requests meanwhile. */
export function* decideSshSteps(
  policy: CompiledPolicy,
  request: SshIntent,
  live: LiveGrants,
): Steps<SshDecision> {
  const intent: SshIntent = request.command.isWellFormed()
    ? request
    : { ...request, command: request.command.toWellFormed() };
  const host = policy.hosts.get(intent.host);
  if (host === undefined) return deny(`no policy for host: ${quoteText(intent.host)}`);
  const early = findEarlyDenial(host, intent);
  if (early !== undefined) return deny(early, { host });
  const elevation = intent.role === "target" ? resolveElevation(host, intent) : undefined;
  if (elevation?.kind === "denied") return deny(elevation.reason, { host });
  const late = findLateDenial(host, intent);
  if (late !== undefined) return deny(late, { host });
  const verdict = yield* decideHostCommand(host, intent, live);
  switch (verdict.kind) {
    case "denied":
      return deny(verdict.reason, { host, matchedRule: verdict.rule, enforcement: verdict.enforcement });
    case "allowed":
      // A dry run is told too: an answer that says yes where the certificate would be refused helps nobody.
      if (host.principal === "") return deny("principal is required", { host });
      return allow({ host, intent, elevation, verdict });
    default:
      return verdict satisfies never;
  }
}

function deny(reason: string, details: Partial<Omit<DeniedSsh, "kind" | "reason">> = {}): DeniedSsh {
  return { kind: "denied", reason, matchedRule: "", enforcement: "", host: undefined, ...details };
}

function allow({ host, intent, elevation, verdict }: {
  readonly host: CompiledHost;
  readonly intent: SshIntent;
  readonly elevation: Extract<Elevation, { kind: "elevated" }> | undefined;
  readonly verdict: Extract<HostCommandVerdict, { kind: "allowed" }>;
}): AllowedSsh {
  const isTarget = intent.role === "target";
  const isOneshot = intent.purpose === "oneshot";
  const sudoPrefix = elevation?.prefix ?? "";
  const { rule, enforcement, warning, wouldDeny, wouldRequireApproval } = verdict;
  return {
    kind: "allowed",
    host,
    role: isTarget ? "target" : "bastion",
    forceCommand: bakeForceCommand(host, intent, sudoPrefix),
    sealedCommand: isTarget && !isOneshot && host.seal !== undefined && intent.command !== ""
      ? bakeCommand(host, intent, sudoPrefix)
      : "",
    sealedStdin: stdinOf(host, intent),
    elevationPrefix: isOneshot ? "" : sudoPrefix,
    sudoPrefix,
    elevation: elevationLabel(elevation !== undefined, elevation?.user),
    ttlSeconds: clampTtl(intent.ttlSeconds, host.maxTtlSeconds),
    requireApproval: verdict.requireApproval,
    approvalWaived: verdict.approvalWaived,
    matchedRule: rule,
    enforcement,
    warning,
    wouldDeny,
    wouldRequireApproval,
    pty: intent.pty,
  };
}

/**
 * What the certificate is locked to. The commands of a session come later, each decided for itself: it is locked to
 * the shim of a sealed host, and on others to nothing.
 */
function bakeForceCommand(host: CompiledHost, intent: SshIntent, sudoPrefix: string): string {
  if (intent.role !== "target") return host.seal?.forceCommand ?? BASTION_COMMAND;
  return intent.purpose === "oneshot" ? bakeCommand(host, intent, sudoPrefix) : host.seal?.forceCommand ?? "";
}

/** The text that the host is to run. */
function bakeCommand(host: CompiledHost, intent: SshIntent, sudoPrefix: string): string {
  const { command } = intent;
  if (watchesStdin(host, intent)) return stopOnDisconnect(sudoPrefix, command);
  return sudoPrefix === "" ? command : elevateCommand(sudoPrefix, command);
}

// A terminal ends its command itself when it is hung up, and a transfer reads the standard input.
function watchesStdin({ stopOnDisconnect }: CompiledHost, { pty, fileTransfer }: SshIntent): boolean {
  return stopOnDisconnect && !pty && !fileTransfer;
}

/** Only a transfer that says what it writes has an input. */
function stdinOf(host: CompiledHost, intent: SshIntent): string {
  if (watchesStdin(host, intent)) return "watch";
  return intent.fileTransfer && intent.contentSha256 !== "" ? intent.contentSha256 : "none";
}

function clampTtl(requested: number, cap: number): number {
  return requested > 0 && requested <= cap ? requested : cap;
}
