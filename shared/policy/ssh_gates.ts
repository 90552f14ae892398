/**
 * The gates of an SSH intent that come before elevation and command policy, in their order.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { compileSample, sampleConfig, sampleIntent } from "../testing/sample_policy.ts";
 * import { findEarlyDenial } from "./ssh_gates.ts";
 *
 * const host = compileSample(sampleConfig()).hosts.get("web01");
 * assert(host !== undefined);
 * assert.equal(findEarlyDenial(host, sampleIntent()), undefined);
 * assert.equal(findEarlyDenial(host, sampleIntent({ role: "root" })), 'unknown role: "root"');
 * ```
 *
 * @module
 */
import { isUnsafe } from "../characters.ts";
import { quoteText } from "../quote.ts";
import { PURPOSES, ROLES, SESSION_MODES } from "../wire/sign.ts";
import type { CompiledHost } from "./compile.ts";
import { isAllowedCaller } from "./rbac.ts";
import type { SshIntent } from "./ssh_intent.ts";

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
export function findEarlyDenial(host: CompiledHost, intent: SshIntent): string | undefined {
  return firstDenial(EARLY_GATES, host, intent);
}

/** The reason of the first gate that denies between elevation and command policy, or undefined. */
export function findLateDenial(host: CompiledHost, intent: SshIntent): string | undefined {
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
