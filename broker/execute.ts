import type { AuditEntry } from "@gateway/shared/audit/entry";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/quote";
import type { WireDecision } from "@gateway/shared/wire/sign";
import type { Authority } from "./authority/authority.ts";
import type { Events } from "./events.ts";
import type { Hosts, HostsView } from "./hosts_view.ts";
import { obtain } from "./obtain.ts";
import { outputText } from "./output_text.ts";
import type { EphemeralKey } from "./ssh/ephemeral_key.ts";
import type { CommandResult, RunCommandOptions } from "./ssh/run_command.ts";

/** One command on one host. */
export interface ExecuteRequest {
  /** Who asks: the constant of the stdio frontend, or the CN of the agent's certificate. */
  readonly caller: string;
  /** The caller's groups, where the frontend knows any. `null`: no filter by groups. */
  readonly callerGroups: readonly string[] | null;
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
}

/** What a request came to, when nothing was in its way. */
export type ExecuteResult =
  | {
    readonly kind: "executed";
    readonly stdout: string;
    readonly stderr: string;
    readonly exitCode: number;
    readonly serial: bigint;
    /** What an audit-mode policy has to say. */
    readonly warnings: readonly string[];
  }
  | { readonly kind: "decided"; readonly decision: WireDecision };

/** What it takes to execute. */
export interface ExecutePorts {
  readonly authority: Authority;
  readonly hosts: HostsView;
  readonly createKey: () => EphemeralKey;
  readonly runCommand: (options: RunCommandOptions) => Promise<CommandResult>;
  readonly events: Events;
  /** The longest certificate life to ask for. */
  readonly maxTtlSeconds: number;
}

/** Runs one command, or previews the decision about it. */
export type Execute = (request: ExecuteRequest, signal: AbortSignal) => Promise<ExecuteResult>;

/**
 * The one way of a one-shot: refresh the hosts, get a certificate made for the command, run it, record it,
 * return it.
 *
 * @throws {AppError} `upstream_failure`, `unknown_host`, `invalid_request`, `not_supported`, `denied`,
 * `approval_required`, `audit_unavailable` or `canceled`, with a text that a caller may see
 */
export async function execute(
  ports: ExecutePorts,
  request: ExecuteRequest,
  signal: AbortSignal,
): Promise<ExecuteResult> {
  const asked = describeRequest(request);
  const hosts = await audited(ports.events, asked, signal, () => refreshHosts(ports.hosts, signal));
  const host = hosts.get(request.host);
  if (host === undefined) {
    await ports.events.bestEffort({ ...asked, outcome: "denied", err: "unknown host" });
    throw new AppError("unknown_host", `unknown host: ${quoteText(request.host)}`);
  }
  if (request.command === "") throw new AppError("invalid_request", "bad request: command is required");

  const entry = { ...asked, host: host.addr, user: host.user };
  if (host.jump) {
    // Connecting to it directly could reach another machine: refuse until hops are built.
    await ports.events.bestEffort({ ...entry, outcome: "denied", err: "bastion not supported" });
    throw new AppError(
      "not_supported",
      `host ${quoteText(request.host)} is reached through a bastion: not supported yet`,
    );
  }
  const key = ports.createKey();
  const { maxTtlSeconds } = ports;
  const obtained = await audited(
    ports.events,
    entry,
    signal,
    () => obtain(ports.authority, { request, publicKey: key.publicKeyLine, maxTtlSeconds }, signal),
  );
  if (obtained.kind === "decided") {
    const { decision } = obtained;
    await ports.events.bestEffort({
      ...entry,
      ...describeDecision(decision),
      outcome: decision.allowed ? "dry_run_allowed" : "dry_run_denied",
    });
    return { kind: "decided", decision };
  }

  const { certificate, serial, decision } = obtained;
  const result = await audited(ports.events, { ...entry, serial }, signal, () =>
    connectAndRun(ports, {
      host: { addr: host.addr, hostKey: host.host_key },
      user: host.user,
      certificate,
      key,
      command: request.command,
      pty: request.pty,
      signal,
    }));
  await ports.events.require({
    ...entry,
    outcome: "executed",
    serial,
    exit_code: result.exitCode,
    ...describeDecision(decision),
  });
  return {
    kind: "executed",
    stdout: outputText(result.stdout),
    stderr: outputText(result.stderr),
    exitCode: result.exitCode,
    serial,
    warnings: decision?.warning ? [decision.warning] : [],
  };
}

function describeDecision(decision: WireDecision | undefined): Pick<AuditEntry, "policy_rule" | "warning"> {
  return { policy_rule: decision?.matched_rule ?? "", warning: decision?.warning ?? "" };
}

/** Always asks anew: a host that was removed must not be used once more. */
async function refreshHosts(view: HostsView, signal: AbortSignal): Promise<Hosts> {
  try {
    return await untilAborted(view.refresh(), signal);
  } catch (cause) {
    throw new AppError("upstream_failure", `upstream failure: refreshing host list: ${textOf(cause)}`, {
      cause,
    });
  }
}

async function connectAndRun(ports: ExecutePorts, options: RunCommandOptions): Promise<CommandResult> {
  try {
    return await ports.runCommand(options);
  } catch (cause) {
    if (!(cause instanceof AppError) || cause.code !== "upstream_failure") throw cause;
    throw new AppError("upstream_failure", `upstream failure: ${cause.message}`, { cause });
  }
}

/** What every record of the request says; `host` becomes the address once the host is known. */
function describeRequest(request: ExecuteRequest): Omit<AuditEntry, "outcome"> {
  return {
    caller: request.caller,
    host: request.host,
    command: request.command,
    elevation: request.sudo ? `sudo:${request.sudoUser || "root"}` : "",
    pty: request.pty,
    dry_run: request.dryRun,
  };
}

/** Takes a step and records its failure. */
async function audited<T>(
  events: Events,
  entry: Omit<AuditEntry, "outcome">,
  signal: AbortSignal,
  step: () => Promise<T>,
): Promise<T> {
  try {
    return await step();
  } catch (cause) {
    const error = signal.aborted ? new AppError("canceled", "canceled", { cause }) : cause;
    await events.bestEffort({ ...entry, outcome: "error", err: textOf(error) });
    throw error;
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Stops waiting when the signal is aborted; what is waited for is shared with others and goes on. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
    if (signal.aborted) onAbort();
  });
}
