import type { AuditEntry } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import { elevationLabel } from "@gateway/shared/policy";
import type { HostInfo, WireDecision } from "@gateway/shared/wire";
import { audited } from "./audited.ts";
import type { Events } from "./events.ts";
import { findRoute } from "./fresh_hosts.ts";
import {
  approvalRequired,
  clampTtl,
  createSignRequest,
  type Intent,
  obtain,
  type ObtainPorts,
  obtainRoute,
  type RouteAuthority,
  type TargetIntent,
} from "./obtain.ts";
import { type Route, targetOf } from "./route.ts";
import { describeContent } from "./file_content.ts";
import type { KeptBytes } from "../ssh/output_buffer.ts";
import type { CommandResult, RunCommandOptions } from "../ssh/run_command.ts";

export interface OneShotRequest {
  /** Who asks: the constant of the stdio frontend, or the CN of the agent's certificate. */
  readonly caller: string;
  /** The caller's groups, where the frontend knows any. `null`: no filter by groups. */
  readonly callerGroups: readonly string[] | null;
  /** The caller's own token: a secret, for the signer and nobody else. */
  readonly bearerToken?: string;
  readonly host: string;
  readonly command: string;
  /** The certificate's life; the maximum when 0, negative, or above it. */
  readonly ttlSeconds: number;
  readonly sudo: boolean;
  /** The account to elevate to; root when empty. */
  readonly sudoUser: string;
  readonly pty: boolean;
  /** Asks for the decision alone: no certificate, no connection. */
  readonly dryRun: boolean;
  /** The command moves a file: the host has to permit that. */
  readonly fileTransfer?: boolean;
  /** What the command reads; absent: nothing. */
  readonly stdin?: Uint8Array;
  /** Why, in the caller's words: for whoever has to approve it. */
  readonly reason?: string | undefined;
  /** What is kept of its output; absent: its beginning, up to the limit of the specification. */
  readonly output?: KeptBytes;
  /** A human has approved exactly this request. */
  readonly consent?: Consent;
  /** Told what a long request is waiting for. */
  readonly onProgress?: (text: string) => void;
}

/** A human's yes at the MCP client. */
interface Consent {
  readonly via: "elicitation";
  /** The policy rule that was shown. */
  readonly rule: string;
}

/** What a request came to, when nothing was in its way. */
export type OneShotResult =
  | {
    readonly kind: "executed";
    readonly output: CommandResult;
    readonly serial: bigint;
    /** What an audit-mode policy has to say. */
    readonly warnings: readonly string[];
    /** The host that it ran on, as it was known then. */
    readonly host: HostInfo;
  }
  | { readonly kind: "decided"; readonly decision: WireDecision }
  /** The policy wants a human's approval first, and none has been asked yet. */
  | { readonly kind: "needs_approval"; readonly rule: string; readonly host: HostInfo };

/** What it takes to run one command. */
export interface OneShotPorts extends ObtainPorts {
  readonly runCommand: (options: RunCommandOptions) => Promise<CommandResult>;
  readonly events: Events;
  /** The longest certificate life to ask for. */
  readonly maxTtlSeconds: number;
}

/**
 * The one way of a one-shot: refresh the hosts, get a certificate made for the command and one for each bastion
 * (which may mean to wait for a human), run it, record it, return it.
 *
 * @throws {AppError} `upstream_failure`, `unknown_host`, `invalid_request`, `denied`, `frozen`,
 * `approval_required`, `audit_unavailable` or `canceled`, with a text that a caller may see
 */
export async function runOneShot(
  ports: OneShotPorts,
  request: OneShotRequest,
  signal: AbortSignal,
): Promise<OneShotResult> {
  const route = await findRoute(ports, {
    host: request.host,
    describe: (host) => describeRequest(request, host),
    signal,
  });
  if (request.command === "") throw new AppError("invalid_request", "bad request: command is required");
  const { consent } = request;
  const known = targetOf(route).host;
  if (consent !== undefined) {
    const outcome = "approval_granted";
    await ports.events.require({ ...describeRequest(request, known), outcome, policy_rule: consent.rule });
  }
  if (request.dryRun) return await preview(ports, { request, route }, signal);
  const intent = intentOf(request, ports.maxTtlSeconds);
  const obtained = await audited(
    ports.events,
    { entry: describeRequest(request, known), signal },
    () => obtainRoute(ports, { route, intent }, { signal, onProgress: request.onProgress }),
  );
  if (obtained.kind === "needs_approval") {
    return await recordApproval(ports, { request, host: known, rule: obtained.rule });
  }
  return await runAndRecord(ports, { request, obtained }, signal);
}

async function runAndRecord(
  { clock, events, runCommand }: OneShotPorts,
  { request, obtained }: { readonly request: OneShotRequest; readonly obtained: RouteAuthority },
  signal: AbortSignal,
): Promise<OneShotResult> {
  const { host } = targetOf(obtained.route);
  const { hops, serial, decision } = obtained;
  const { command, pty, stdin, output: kept, fileTransfer = false } = request;
  const entry = { ...describeRequest(request, host), serial };
  const output = await audited(events, { entry, signal }, () =>
    connectAndRun(runCommand, {
      clock,
      hops,
      command,
      pty,
      ...(stdin === undefined ? {} : { stdin }),
      ...(kept === undefined ? {} : { output: kept }),
      // The signer leaves transfers as they are: they end with their own input.
      stopsAtStdinEnd: host.stop_on_disconnect === true && !pty && !fileTransfer,
      signal,
    }));
  await events.require({
    ...entry,
    outcome: "executed",
    exit_code: output.exitCode,
    ...describeDecision(decision),
  });
  const warnings = decision?.warning ? [decision.warning] : [];
  return { kind: "executed", output, serial, warnings, host };
}

async function preview(
  ports: OneShotPorts,
  { request, route }: { readonly request: OneShotRequest; readonly route: Route },
  signal: AbortSignal,
): Promise<OneShotResult> {
  const { authority, createKey, events, maxTtlSeconds } = ports;
  const target = targetOf(route);
  const entry = describeRequest(request, target.host);
  const intent = intentOf(request, maxTtlSeconds);
  const signRequest = createSignRequest(target, intent, createKey().publicKeyLine);
  const obtained = await audited(
    events,
    { entry, signal },
    () => obtain(authority, signRequest, { signal, onProgress: request.onProgress }),
  );
  switch (obtained.kind) {
    case "decided": {
      const outcome = obtained.decision.allowed ? "dry_run_allowed" : "dry_run_denied";
      await events.bestEffort({ ...entry, ...describeDecision(obtained.decision), outcome });
      return obtained;
    }
    case "needs_approval":
      return await recordApproval(ports, { request, host: target.host, rule: obtained.rule });
    case "issued":
      throw new TypeError("A dry run was answered with a certificate");
    default:
      return obtained satisfies never;
  }
}

async function recordApproval(
  { events }: OneShotPorts,
  { request, host, rule }: {
    readonly request: OneShotRequest;
    readonly host: HostInfo;
    readonly rule: string;
  },
): Promise<OneShotResult> {
  const asked = request.consent === undefined ? "unasked" : "approved";
  const err = approvalRequired(request.host, rule, asked).message;
  await events.bestEffort({ ...describeRequest(request, host), outcome: "error", err });
  return { kind: "needs_approval", rule, host };
}

function intentOf(request: OneShotRequest, maxTtlSeconds: number): Intent {
  const target: TargetIntent = {
    command: request.command,
    ...(request.sudo ? { sudo: true } : {}),
    ...(request.sudoUser === "" ? {} : { sudo_user: request.sudoUser }),
    ...(request.pty ? { pty: true } : {}),
    ...(request.fileTransfer ? { file_transfer: true } : {}),
    ...(request.fileTransfer && request.stdin !== undefined ? describeContent(request.stdin) : {}),
    ...(request.dryRun ? { dry_run: true } : {}),
    ...(request.consent === undefined ? {} : { approved: true }),
  };
  const { caller, callerGroups, bearerToken, reason } = request;
  const ttlSeconds = clampTtl(request.ttlSeconds, maxTtlSeconds);
  return { caller, callerGroups, bearerToken, reason, purpose: "oneshot", ttlSeconds, target };
}

function describeDecision(decision: WireDecision | undefined): Pick<AuditEntry, "policy_rule" | "warning"> {
  return { policy_rule: decision?.matched_rule ?? "", warning: decision?.warning ?? "" };
}

async function connectAndRun(
  runCommand: OneShotPorts["runCommand"],
  options: RunCommandOptions,
): Promise<CommandResult> {
  try {
    return await runCommand(options);
  } catch (cause) {
    if (!(cause instanceof AppError) || cause.code !== "upstream_failure") throw cause;
    throw new AppError("upstream_failure", `upstream failure: ${cause.message}`, { cause });
  }
}

/** What every record of the request says; `host` is the address once the host is known. */
export function describeRequest(
  request: Omit<OneShotRequest, "stdin">,
  host?: HostInfo,
): Omit<AuditEntry, "outcome"> {
  return {
    caller: request.caller,
    host: host?.addr ?? request.host,
    host_name: request.host,
    ...(host === undefined ? {} : { user: host.user, addr: host.addr }),
    command: request.command,
    elevation: elevationLabel(request.sudo, request.sudoUser),
    pty: request.pty,
    dry_run: request.dryRun,
    ...(request.consent === undefined ? {} : { approved_via: request.consent.via }),
  };
}
