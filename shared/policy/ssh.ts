// The decision about one SSH intent: whether a caller gets a certificate for a host, and its contents. The
// checks have a fixed order, and the first that fails is the reason of the denial. `mayUseHost`, the check of
// groups by the callers table, comes before all of them.
import { isUnsafe, quoteText, withoutEmpty } from "../text.ts";
import { finish, type Steps } from "../clock.ts";
import {
  PURPOSES,
  type Role,
  ROLES,
  SESSION_MODES,
  type SignRequest,
  type WireDecision,
} from "../wire/sign.ts";
import type { CompiledCaller, CompiledHost, CompiledPolicy } from "./compile.ts";
import {
  type AllowedCommand,
  decideHostCommand,
  type DeniedCommand,
  type GatedCommand,
  type LiveGrants,
  NO_GRANTS,
} from "./grants.ts";
import type { PolicyConfig } from "./model.ts";
import { elevateCommand, elevationLabel, resolveElevation, stopOnDisconnect } from "./shell.ts";

/** A denied intent, with the host if it exists. */
export interface DeniedSsh extends DeniedCommand {
  readonly host: CompiledHost | undefined;
}

/** An allowed intent, with the contents of its certificate. */
export interface AllowedSsh extends AllowedCommand {
  readonly host: CompiledHost;
  readonly role: Role;
  /** The force-command of the certificate, with the elevation if sudo was requested; empty: none. */
  readonly forceCommand: string;
  /** On a sealed host: the command of a session as its envelope contains it. Otherwise empty. */
  readonly sealedCommand: string;
  /** The standard input of that command in an envelope of v3: `none`, `watch` or a SHA-256. */
  readonly sealedStdin: string;
  /** The prefix for the commands of a session; empty for a one-shot command. */
  readonly elevationPrefix: string;
  /** The prefix for the KeyId, also of one-shot commands; empty: not elevated. */
  readonly sudoPrefix: string;
  readonly elevation: string;
  readonly ttlSeconds: number;
  readonly pty: boolean;
}

/** The decision about an intent. */
export type SshDecision = DeniedSsh | AllowedSsh;

/** A caller's intent. `role`, `purpose` and `sessionMode` are unchecked: unknown values are denied. */
export interface SshIntent extends GatedCommand {
  /** `null`: no filter by groups. `[]`: the user is in no group, so every host is denied. */
  readonly endUserGroups: readonly string[] | null;
  readonly role: string;
  readonly purpose: string;
  readonly sessionMode: string;
  /** The requested lifetime. The cap replaces a value that is not positive or above the cap. */
  readonly ttlSeconds: number;
  readonly pty: boolean;
}

/**
 * The force-command of a bastion's certificate: any shell ends immediately. sshd opens forwarding channels without the
 * force-command. A builtin needs no PATH.
 */
export const BASTION_COMMAND = "exit 1";

/**
 * Decides an intent. Total and pure. A lone surrogate in the command counts as U+FFFD, also in the signed
 * command.
 */
export function decideSsh(
  policy: CompiledPolicy,
  request: SshIntent,
  live: LiveGrants = { grants: NO_GRANTS, now: 0 },
): SshDecision {
  return finish(decideSshSteps(policy, request, live));
}

/** {@linkcode decideSsh} in steps, for a service that answers requests in the meantime. */
export function* decideSshSteps(
  policy: CompiledPolicy,
  request: SshIntent,
  live: LiveGrants,
): Steps<SshDecision> {
  const intent = { ...request, command: request.command.toWellFormed() };
  const host = policy.hosts.get(intent.host);
  const deny = (reason: string): DeniedSsh => ({
    kind: "denied",
    reason,
    matchedRule: "",
    enforcement: "",
    host,
  });
  if (host === undefined) return deny(`no policy for host: ${quoteText(intent.host)}`);
  const early = firstDenial(EARLY_RULES, host, intent);
  if (early !== undefined) return deny(early);
  const elevation = intent.role === "target" ? resolveElevation(host, intent) : undefined;
  if (elevation?.kind === "denied") return deny(elevation.reason);
  const late = firstDenial(LATE_RULES, host, intent);
  if (late !== undefined) return deny(late);
  const verdict = yield* decideHostCommand(host, intent, live);
  if (verdict.kind === "denied") return { ...verdict, host };
  // Check this even for a dry run, which must not allow an intent whose certificate would be denied.
  if (host.principal === "") return deny("principal is required");
  return allow(host, intent, elevation, verdict);
}

function allow(
  host: CompiledHost,
  intent: SshIntent,
  elevation: { readonly user: string; readonly prefix: string } | undefined,
  verdict: AllowedCommand,
): AllowedSsh {
  const { seal, stop_on_disconnect: stops = false, maxTtlSeconds } = host;
  const { command, pty, fileTransfer, contentSha256, ttlSeconds } = intent;
  const isTarget = intent.role === "target";
  const isOneshot = intent.purpose === "oneshot";
  const sudoPrefix = elevation?.prefix ?? "";
  // sshd hangs up a terminal itself, and a transfer reads the standard input.
  const watchesStdin = stops && !pty && !fileTransfer;
  const text = () => {
    if (watchesStdin) return stopOnDisconnect(sudoPrefix, command);
    return sudoPrefix === "" ? command : elevateCommand(sudoPrefix, command);
  };
  return {
    ...verdict,
    host,
    role: isTarget ? "target" : "bastion",
    // The commands of a session are decided one by one, so only the shim of a sealed host can restrict its
    // certificate.
    forceCommand: isTarget && isOneshot ? text() : seal?.forceCommand ?? (isTarget ? "" : BASTION_COMMAND),
    sealedCommand: isTarget && !isOneshot && seal !== undefined && command !== "" ? text() : "",
    sealedStdin: watchesStdin ? "watch" : fileTransfer && contentSha256 !== "" ? contentSha256 : "none",
    elevationPrefix: isOneshot ? "" : sudoPrefix,
    sudoPrefix,
    elevation: elevationLabel(elevation !== undefined, elevation?.user),
    ttlSeconds: ttlSeconds > 0 && ttlSeconds <= maxTtlSeconds ? ttlSeconds : maxTtlSeconds,
    pty,
  };
}

/** A check. Returns the reason of a denial, or nothing. */
type Rule = (host: CompiledHost, intent: SshIntent) => string | false | undefined;

function firstDenial(rules: readonly Rule[], host: CompiledHost, intent: SshIntent): string | undefined {
  for (const rule of rules) {
    const reason = rule(host, intent);
    if (typeof reason === "string") return reason;
  }
  return undefined;
}

const isOneOf = (values: readonly string[], value: string) => values.includes(value);

// The order is part of the contract: the first denial is reported and audited.
const EARLY_RULES: readonly Rule[] = [
  (_host, { role }) => !isOneOf(ROLES, role) && `unknown role: ${quoteText(role)}`,
  (_host, { purpose }) => !isOneOf(PURPOSES, purpose) && `unknown purpose: ${quoteText(purpose)}`,
  checkSealedSession,
  checkSessionMode,
  // Both names are in the KeyId, whose fields are separated by spaces. A caller `x role=bastion` would add a
  // field.
  (_host, { caller }) => isUnsafe(caller) && `caller ${quoteText(caller)} contains disallowed characters`,
  (_host, { endUser }) =>
    isUnsafe(endUser) && `end_user ${quoteText(endUser)} contains disallowed characters`,
  checkCommandText,
  // Without a command, the certificate would have no force-command and would allow any command.
  (_host, { role, purpose, command }) =>
    purpose === "oneshot" && role === "target" && command.trim() === "" &&
    "one-shot command must not be empty",
  findListDenial,
  (host, { role }) =>
    role === "bastion" && host.allow_as_bastion !== true &&
    `host ${quoteText(host.name)} is not allowed as a bastion`,
  // Compilation rejects such a host. Without this check, a bastion certificate would give a shell without
  // rules.
  (host, { role }) =>
    role !== "target" && host.commands.restricts &&
    `host ${quoteText(host.name)}: command-policy hosts cannot be used as bastions`,
];

const LATE_RULES: readonly Rule[] = [
  (host, { pty }) => pty && host.allow_pty !== true && forbids(host, "PTY", "allow_pty"),
  (host, { fileTransfer }) =>
    fileTransfer && host.allow_file_transfer !== true &&
    forbids(host, "file transfer", "allow_file_transfer"),
];

/**
 * Denies sessions on a sealed host that an envelope cannot protect: an envelope does not cover the input that
 * a shell or a program on a terminal reads from the broker.
 */
function checkSealedSession(
  { name, seal }: CompiledHost,
  { role, purpose, sessionMode, pty }: SshIntent,
): string | undefined {
  if (seal === undefined || role !== "target" || purpose !== "session") return undefined;
  const sealed = `host ${quoteText(name)} has sealed_exec: sessions`;
  if (sessionMode !== "exec") return `${sealed} require mode="exec"`;
  return pty ? `${sealed} have no PTY; use a one-shot command` : undefined;
}

function checkSessionMode(
  _host: CompiledHost,
  { role, purpose, sessionMode }: SshIntent,
): string | undefined {
  if (purpose !== "session" || isOneOf(SESSION_MODES, sessionMode)) return undefined;
  // A hop before a session has no mode.
  if (role === "bastion" && sessionMode === "") return undefined;
  return `unknown session mode: ${quoteText(sessionMode)}`;
}

function checkCommandText(host: CompiledHost, { purpose, command }: SshIntent): string | undefined {
  const isRuled = purpose === "oneshot" || host.commands.restricts;
  if (isRuled && /[\n\r]/.test(command)) return "command must not contain newline or carriage return";
  // Reject a NUL: the host's shell would run only the text before it, but the rules or the envelope would
  // cover all of it.
  const isBound = isRuled || host.seal !== undefined;
  return isBound && command.includes("\0") ? "command must not contain NUL" : undefined;
}

function forbids(host: CompiledHost, what: string, key: string): string {
  return `host ${quoteText(host.name)} does not allow ${what} (${key}=false)`;
}

/**
 * The check of groups by the callers table for the effective caller. An unknown host gives the same result as a
 * forbidden one, so that names of hosts cannot be probed.
 */
export function mayUseHost(policy: CompiledPolicy, caller: string, host: string): "ok" | "group" {
  return isInGroups(policy, caller, policy.hosts.get(host)?.groups ?? []) ? "ok" : "group";
}

/** Whether the callers table allows a caller any group. */
export function mayUseSome(policy: CompiledPolicy, caller: string): boolean {
  return findGroups(policy, caller)?.size !== 0;
}

/** Whether the callers table allows a caller one of these groups; without a table it allows all. */
export function isInGroups(policy: CompiledPolicy, caller: string, groups: readonly string[]): boolean {
  const allowed = findGroups(policy, caller);
  return allowed === undefined || groups.some((group) => allowed.has(group));
}

/** Whether a caller's requests may come from this peer: a forwarder, or the caller itself. */
export function mayComeFrom(policy: CompiledPolicy, caller: string, peer: string): boolean {
  return rowOf(policy, caller)?.only_via?.includes(peer) !== false;
}

/** The reasons of denials that apply to all hosts and clusters. */
export const CALLER_DENIALS = {
  notForwarder: "on_behalf_of not allowed for this caller",
  readsOnly: "callers in krl_callers may fetch the revocation list only",
  notDirect: "direct requests not allowed for this caller",
} as const;

/** The caller's own row, which alone decides `self_approve` and `require_verified_end_user`; `_default` never counts. */
export function ownRowOf({ callers }: CompiledPolicy, caller: string): CompiledCaller | undefined {
  return caller === "_default" ? undefined : callers.get(caller);
}

/** The number of people who have to sign the approvals of a host or cluster. */
export function requiredApprovals(
  approvals: PolicyConfig["approvals"],
  { groups, approvals_required = 0 }: {
    readonly groups: readonly string[];
    readonly approvals_required?: number | undefined;
  },
): number {
  // A config with approvals_required has approvers.
  if (approvals === undefined) return 0;
  const { required, required_by_group: byGroup } = approvals;
  // A group may be named like a member of every object.
  const ofGroups = groups.map((group) => Object.hasOwn(byGroup, group) ? byGroup[group] ?? 0 : 0);
  return Math.max(required, approvals_required, ...ofGroups);
}

/** The lists of a host or cluster that restrict its callers. */
interface Listed {
  readonly name: string;
  readonly groups: readonly string[];
  /** Empty: any caller. */
  readonly allowed_callers?: readonly string[] | undefined;
}

/** Whether a caller sees a host or cluster in a list. */
export function isListedFor(policy: CompiledPolicy, caller: string, listed: Listed): boolean {
  return isInGroups(policy, caller, listed.groups) && isAllowedCaller(listed, caller);
}

function isAllowedCaller({ allowed_callers = [] }: Listed, caller: string): boolean {
  return allowed_callers.length === 0 || allowed_callers.includes(caller);
}

/** The reason why the lists of a host or cluster deny a caller or an end user; `undefined` if they do not. */
export function findListDenial(
  listed: Listed,
  { caller, endUser, endUserGroups }: Pick<SshIntent, "caller" | "endUser" | "endUserGroups">,
): string | undefined {
  const name = quoteText(listed.name);
  if (!isAllowedCaller(listed, caller)) return `caller ${quoteText(caller)} not authorised for ${name}`;
  return endUserGroups === null || endUserGroups.some((group) => listed.groups.includes(group))
    ? undefined
    : `user ${quoteText(endUser)} not authorised for ${name} (groups)`;
}

/** The caller's groups. Undefined if there is no callers table, and therefore no restriction. */
function findGroups(policy: CompiledPolicy, caller: string): ReadonlySet<string> | undefined {
  return policy.callers.size === 0 ? undefined : rowOf(policy, caller)?.groups ?? new Set();
}

function rowOf({ callers }: CompiledPolicy, caller: string): CompiledCaller | undefined {
  return callers.get(caller) ?? callers.get("_default");
}

/** The decision on the wire. A denial has no force-command and no lifetime. */
export function toWireDecision(decision: SshDecision): WireDecision {
  const rule = decision.matchedRule !== "" && { matched_rule: decision.matchedRule };
  const mode = decision.enforcement !== "" && { enforcement: decision.enforcement };
  if (decision.kind === "denied") return { allowed: false, reason: decision.reason, ...rule, ...mode };
  const { requireApproval, forceCommand, ttlSeconds, elevationPrefix, warning, wouldDeny } = decision;
  return {
    allowed: true,
    ...withoutEmpty({ require_approval: requireApproval }),
    ...rule,
    ...withoutEmpty({ force_command: forceCommand }),
    ttl_seconds: ttlSeconds,
    ...withoutEmpty({ elevation: elevationPrefix }),
    ...mode,
    ...withoutEmpty({
      warning,
      would_deny: wouldDeny,
      would_require_approval: decision.wouldRequireApproval,
    }),
  };
}

/** The intent of a sign request for the effective caller. */
export function intentOf(request: SignRequest, caller: string): SshIntent {
  return {
    caller,
    endUser: request.end_user,
    endUserGroups: request.end_user_groups,
    host: request.host,
    role: request.role,
    purpose: request.purpose,
    sessionMode: request.session_mode,
    command: request.command,
    ttlSeconds: request.ttl_seconds,
    sudo: request.sudo,
    sudoUser: request.sudo_user,
    pty: request.pty,
    fileTransfer: request.file_transfer,
    contentSha256: request.content_sha256,
  };
}

/** The `command` of an audit record, exactly as in the reference: never the command itself. */
export function describeSignRequest(request: SignRequest): string {
  const { role, purpose, session_mode, end_user, sudo, sudo_user, pty, file_transfer } = request;
  return `role=${role} purpose=${purpose}` +
    (session_mode === "" ? "" : ` session_mode=${session_mode}`) +
    (end_user === "" ? "" : ` user=${end_user}`) +
    (sudo ? ` elev=${elevationLabel(sudo, sudo_user)}` : "") +
    (pty ? " pty=1" : "") + (file_transfer ? " ft=1" : "");
}

/** The `ext` of the audit records of a request. */
export function factsOfRequest(
  { command, content_sha256, host, reason, session_id }: SignRequest,
):
  & Pick<SignRequest, "content_sha256" | "reason" | "session_id">
  & Record<"command_line" | "host_name", string> {
  return { command_line: command, content_sha256, host_name: host, reason, session_id };
}
