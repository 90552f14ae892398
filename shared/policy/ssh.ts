/**
 * The decision about one SSH intent: whether a caller may have a certificate for a host, and with what in it.
 *
 * The gates stand in a fixed order and the first that fails names the denial. Group RBAC by the callers table
 * ({@linkcode mayUseHost}) is a gate of its own in front of these.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { compilePolicy } from "@gateway/shared/policy";
 * import { decideSsh, toWireDecision } from "@gateway/shared/policy";
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
import { isUnsafe, quoteText } from "../text.ts";
import { finish, type Steps } from "../clock.ts";
import type { CompiledHost, CompiledPolicy } from "./compile.ts";
import { elevateCommand, type Elevation, elevationLabel, resolveElevation } from "./elevation.ts";
import { type LiveGrants, NO_GRANTS } from "./grants.ts";
import { decideHostCommand, type HostCommandVerdict } from "./host_command.ts";
import { stopOnDisconnect } from "./stop_on_disconnect.ts";
import type { AllowedSsh, DeniedSsh, SshDecision, SshIntent } from "./ssh_decision.ts";
import { PURPOSES, ROLES, SESSION_MODES, type WireDecision } from "../wire/sign.ts";
import { isAllowedCaller } from "./rbac.ts";

export { visibleRules } from "./host_rules.ts";
export { mayComeFrom, mayUseHost, mayUseSome, visibleHosts } from "./rbac.ts";
export type { AllowedSsh, DeniedSsh, SshDecision } from "./ssh_decision.ts";
export type { SshIntent } from "./ssh_decision.ts";

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

/** Says why it does not let an intent pass, or nothing. */
type Gate = (host: CompiledHost, intent: SshIntent) => string | undefined;

// The order is part of the contract: the first denial is the one that is told and audited.
const EARLY_GATES: readonly Gate[] = [
  (_host, { role }) => isOneOf(ROLES, role) ? undefined : `unknown role: ${quoteText(role)}`,
  (_host, { purpose }) => isOneOf(PURPOSES, purpose) ? undefined : `unknown purpose: ${quoteText(purpose)}`,
  checkSealedSession,
  checkSessionMode,
  checkIdentities,
  checkCommandText,
  checkCommandPresent,
  (host, { caller }) =>
    isAllowedCaller(host, caller)
      ? undefined
      : `caller ${quoteText(caller)} not authorised for ${quoteText(host.name)}`,
  checkEndUserGroups,
  (host, { role }) =>
    role === "bastion" && !host.allowAsBastion
      ? `host ${quoteText(host.name)} is not allowed as a bastion`
      : undefined,
  // Compilation refuses such a host; without this gate a bastion certificate would be a shell past its rules.
  (host, { role }) =>
    role !== "target" && host.commands.restricts
      ? `host ${quoteText(host.name)}: command-policy hosts cannot be used as bastions`
      : undefined,
];

const LATE_GATES: readonly Gate[] = [
  (host, { pty }) => pty && !host.allowPty ? forbids(host, "PTY", "allow_pty") : undefined,
  (host, { fileTransfer }) =>
    fileTransfer && !host.allowFileTransfer
      ? forbids(host, "file transfer", "allow_file_transfer")
      : undefined,
];

/** The reason of the first gate that denies before elevation, or undefined. */
function findEarlyDenial(host: CompiledHost, intent: SshIntent): string | undefined {
  return firstDenial(EARLY_GATES, host, intent);
}

/** The reason of the first gate that denies between elevation and command policy, or undefined. */
function findLateDenial(host: CompiledHost, intent: SshIntent): string | undefined {
  return firstDenial(LATE_GATES, host, intent);
}

function firstDenial(gates: readonly Gate[], host: CompiledHost, intent: SshIntent): string | undefined {
  for (const gate of gates) {
    const reason = gate(host, intent);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

/** Nothing in an envelope binds what a shell or a program on a terminal reads from the broker. */
function checkSealedSession(
  host: CompiledHost,
  { role, purpose, sessionMode, pty }: SshIntent,
): string | undefined {
  if (host.seal === undefined || role !== "target" || purpose !== "session") return undefined;
  const sealed = `host ${quoteText(host.name)} has sealed_exec: sessions`;
  if (sessionMode !== "exec") return `${sealed} require mode="exec"`;
  return pty ? `${sealed} have no PTY; use a one-shot command` : undefined;
}

function checkSessionMode(
  _host: CompiledHost,
  { role, purpose, sessionMode }: SshIntent,
): string | undefined {
  if (purpose !== "session" || isOneOf(SESSION_MODES, sessionMode)) return undefined;
  // The hop in front of a session has no mode of its own.
  if (role === "bastion" && sessionMode === "") return undefined;
  return `unknown session mode: ${quoteText(sessionMode)}`;
}

// Both stand in the KeyId, whose fields are divided by blanks: `x role=bastion` would add a field.
function checkIdentities(_host: CompiledHost, { caller, endUser }: SshIntent): string | undefined {
  if (isUnsafe(caller)) return `caller ${quoteText(caller)} contains disallowed characters`;
  return isUnsafe(endUser) ? `end_user ${quoteText(endUser)} contains disallowed characters` : undefined;
}

function checkCommandText(host: CompiledHost, { purpose, command }: SshIntent): string | undefined {
  const isRuled = purpose === "oneshot" || host.commands.restricts;
  if (isRuled && /[\n\r]/.test(command)) return "command must not contain newline or carriage return";
  // The host's shell would be given the text up to the NUL, and the rules, or who signs an envelope, saw all of it.
  const isBound = isRuled || host.seal !== undefined;
  return isBound && command.includes("\0") ? "command must not contain NUL" : undefined;
}

// Without a command the certificate would have no force-command, and so be a free shell.
function checkCommandPresent(_host: CompiledHost, { role, purpose, command }: SshIntent): string | undefined {
  return purpose === "oneshot" && role === "target" && command.trim() === ""
    ? "one-shot command must not be empty"
    : undefined;
}

function checkEndUserGroups(host: CompiledHost, { endUser, endUserGroups }: SshIntent): string | undefined {
  if (endUserGroups === null || endUserGroups.some((group) => host.groups.includes(group))) return undefined;
  return `user ${quoteText(endUser)} not authorised for ${quoteText(host.name)} (groups)`;
}

function forbids(host: CompiledHost, what: string, key: string): string {
  return `host ${quoteText(host.name)} does not allow ${what} (${key}=false)`;
}

function isOneOf(values: readonly string[], value: string): boolean {
  return values.includes(value);
}

/** The wire form of a decision. A denial carries no force-command and no ttl. */
export function toWireDecision(decision: SshDecision): WireDecision {
  const rule = {
    ...(decision.matchedRule !== "" && { matched_rule: decision.matchedRule }),
  };
  const enforcement = {
    ...(decision.enforcement !== "" && { enforcement: decision.enforcement }),
  };
  switch (decision.kind) {
    case "denied":
      return { allowed: false, reason: decision.reason, ...rule, ...enforcement };
    case "allowed":
      return {
        allowed: true,
        ...(decision.requireApproval && { require_approval: true }),
        ...rule,
        ...(decision.forceCommand !== "" && { force_command: decision.forceCommand }),
        ttl_seconds: decision.ttlSeconds,
        ...(decision.elevationPrefix !== "" && { elevation: decision.elevationPrefix }),
        ...enforcement,
        ...(decision.warning !== "" && { warning: decision.warning }),
        ...(decision.wouldDeny && { would_deny: true }),
        ...(decision.wouldRequireApproval && { would_require_approval: true }),
      };
    default:
      return decision satisfies never;
  }
}
