import type { AuditEntry } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import { canonicalSudoUser, elevationLabel } from "@gateway/shared/policy";
import { quoteText, visibleText } from "@gateway/shared/text";
import type { HostInfo, WireDecision } from "@gateway/shared/wire";
import type { KeptBytes } from "../ssh/output.ts";
import type { CommandResult, RunCommandOptions } from "../ssh/run_command.ts";
import { describeContent } from "./transfer.ts";
import {
  approvalRequired,
  clampTtl,
  type Intent,
  obtainDecision,
  type ObtainPorts,
  obtainRoute,
} from "./obtain.ts";
import { audited, describeDecision, type Events, recordPreview } from "./records.ts";
import { findRoute, targetOf } from "./route.ts";

/** One command on one host. */
export interface ExecuteRequest {
  /** The constant of the stdio frontend, or the CN of the agent's certificate. */
  readonly caller: string;
  /** The caller's groups, if the frontend knows any. `null`: no filter by groups. */
  readonly callerGroups: readonly string[] | null;
  /** The caller's own token: a secret, for the signer only. */
  readonly bearerToken?: string | undefined;
  readonly host: string;
  readonly command: string;
  /** The certificate's lifetime; the maximum when 0, negative, or above it. */
  readonly ttlSeconds: number;
  readonly sudo: boolean;
  /** The account to elevate to; root when empty. */
  readonly sudoUser: string;
  readonly pty: boolean;
  /** Requests the decision only: no certificate, no connection. */
  readonly dryRun: boolean;
  /** The command moves a file: the host has to permit that. */
  readonly fileTransfer?: boolean;
  /** What the command reads; absent: nothing. */
  readonly stdin?: Uint8Array;
  /** The reason in the caller's words, for the approver. */
  readonly reason?: string | undefined;
  /** What is kept of its output; absent: its beginning, up to the limit of the specification. */
  readonly output?: KeptBytes;
  /** A human has approved exactly this request. */
  readonly consent?: { readonly via: "elicitation"; readonly rule: string };
  /** Absent if there is no human at the client. */
  readonly askHuman?: AskHuman | undefined;
  /** Called with the event that a long request waits for. */
  readonly onProgress?: ((text: string) => void) | undefined;
}

/** Asks the human at the client to say yes or no. Never rejects: every failure is a no. */
export type AskHuman = (question: string) => Promise<HumanAnswer>;

export type HumanAnswer =
  | { readonly kind: "approved" }
  | { readonly kind: "declined"; readonly why: string };

/** The end of a request that nothing has stopped. */
export type ExecuteResult =
  | CommandResult & {
    readonly kind: "executed";
    readonly serial: bigint;
    /** The warnings of a policy in audit mode. */
    readonly warnings: readonly string[];
    /** The host as it was known when the command ran. */
    readonly host: HostInfo;
  }
  | { readonly kind: "decided"; readonly decision: WireDecision };

/** The policy requires a human's approval, and no human has been asked yet. */
interface Gated {
  readonly kind: "needs_approval";
  readonly rule: string;
  readonly host: HostInfo;
}

/** Runs one command, or previews the decision about it. */
export type Execute = (request: ExecuteRequest, signal: AbortSignal) => Promise<ExecuteResult>;

interface ExecutePorts extends ObtainPorts {
  readonly runCommand: (options: RunCommandOptions) => Promise<CommandResult>;
  readonly events: Events;
  /** The longest certificate lifetime to request. */
  readonly maxTtlSeconds: number;
}

/**
 * Runs one command, or previews the decision about it. If the policy requires approval, the human at the client is
 * asked once, and the command starts again from the beginning: hosts and policy may have changed by then.
 *
 * @throws {AppError} `upstream_failure`, `unknown_host`, `invalid_request`, `denied`, `frozen`,
 * `approval_required`, `audit_unavailable` or `canceled`, with a text that a caller may see
 */
export async function execute(
  ports: ExecutePorts,
  request: ExecuteRequest,
  signal: AbortSignal,
): Promise<ExecuteResult> {
  const first = await attempt(ports, request, signal);
  if (first.kind !== "needs_approval") return first;
  if (request.askHuman === undefined) throw approvalRequired(request.host, first.rule);
  const consented = { ...request, consent: { via: "elicitation", rule: first.rule } as const };
  const answer = await request.askHuman(questionFor(request, first.rule));
  if (answer.kind === "approved") {
    const second = await attempt(ports, consented, signal);
    if (second.kind !== "needs_approval") return second;
    throw approvalRequired(request.host, second.rule, "approved");
  }
  await ports.events.bestEffort({
    ...describeRequest(consented, first.host),
    outcome: "approval_declined",
    policy_rule: first.rule,
    err: answer.why,
  });
  throw new AppError(
    "denied",
    `approval declined: ${quoteText(request.command)} was not run on ${quoteText(request.host)}`,
  );
}

/** The steps of a request: route, authority, connect and run, record, return. */
async function attempt(
  ports: ExecutePorts,
  request: ExecuteRequest,
  signal: AbortSignal,
): Promise<ExecuteResult | Gated> {
  const { events, maxTtlSeconds } = ports;
  const { consent, onProgress } = request;
  const describe = (host?: HostInfo) => describeRequest(request, host);
  const route = await findRoute(ports, { host: request.host, describe, signal });
  if (request.command === "") throw new AppError("invalid_request", "bad request: command is required");
  const known = targetOf(route).host;
  const asked = describe(known);
  if (consent !== undefined) {
    await events.require({ ...asked, outcome: "approval_granted", policy_rule: consent.rule });
  }
  const intent = intentOf(request, maxTtlSeconds);
  const options = { signal, onProgress };
  const obtained = await audited(
    events,
    { entry: asked, signal },
    async () =>
      request.dryRun
        ? await obtainDecision(ports, { hop: targetOf(route), intent }, options)
        : await obtainRoute(ports, { route, intent }, options),
  );
  if (obtained.kind === "needs_approval") {
    const { rule } = obtained;
    const { message } = approvalRequired(request.host, rule, consent === undefined ? "unasked" : "approved");
    await events.bestEffort({ ...asked, outcome: "error", err: message });
    return { kind: "needs_approval", rule, host: known };
  }
  if (obtained.kind === "decided") {
    await recordPreview(events, asked, obtained.decision);
    return { kind: "decided", decision: obtained.decision };
  }
  const { host } = targetOf(obtained.route);
  const { hops, serial, decision } = obtained;
  const entry = { ...describe(host), serial };
  const result = await audited(events, { entry, signal }, () => run(ports, { request, hops, host }, signal));
  const { exitCode } = result;
  await events.require({ ...entry, outcome: "executed", exit_code: exitCode, ...describeDecision(decision) });
  return { kind: "executed", ...result, serial, warnings: decision?.warning ? [decision.warning] : [], host };
}

async function run(
  { clock, runCommand }: ExecutePorts,
  { request, hops, host }: Pick<RunCommandOptions, "hops"> & {
    readonly request: ExecuteRequest;
    readonly host: HostInfo;
  },
  signal: AbortSignal,
): Promise<CommandResult> {
  const { command, pty, stdin, output, fileTransfer = false } = request;
  try {
    return await runCommand({
      ...{ clock, hops, command, pty, signal },
      ...(stdin === undefined ? {} : { stdin }),
      ...(output === undefined ? {} : { output }),
      // The signer does not wrap transfers: they end with their own input.
      stopsAtStdinEnd: host.stop_on_disconnect === true && !pty && !fileTransfer,
    });
  } catch (cause) {
    if (!(cause instanceof AppError) || cause.code !== "upstream_failure") throw cause;
    throw new AppError("upstream_failure", `upstream failure: ${cause.message}`, { cause });
  }
}

function intentOf(request: ExecuteRequest, maxTtlSeconds: number): Intent {
  const { caller, callerGroups, bearerToken, reason } = request;
  return {
    ...{ caller, callerGroups, bearerToken, reason, purpose: "oneshot" },
    ttlSeconds: clampTtl(request.ttlSeconds, maxTtlSeconds),
    target: {
      command: request.command,
      ...(request.sudo ? { sudo: true } : {}),
      ...(request.sudoUser === "" ? {} : { sudo_user: request.sudoUser }),
      ...(request.pty ? { pty: true } : {}),
      ...(request.fileTransfer ? { file_transfer: true } : {}),
      ...(request.fileTransfer && request.stdin !== undefined ? describeContent(request.stdin) : {}),
      ...(request.dryRun ? { dry_run: true } : {}),
      ...(request.consent === undefined ? {} : { approved: true }),
    },
  };
}

/** The fields of every record of the request; `host` is the address once the host is known. */
export function describeRequest(
  request: Omit<ExecuteRequest, "stdin">,
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

/** Shows the exact command: nothing in it can hide, control a terminal or end the quotes. */
function questionFor({ command, host, sudo, sudoUser, pty }: ExecuteRequest, rule: string): string {
  const elevation = sudo ? ` with sudo as ${quoteText(canonicalSudoUser(sudo, sudoUser))}` : "";
  const terminal = pty ? " in a terminal" : "";
  return `Approve running ${quoteText(command)} on ${quoteText(host)}${elevation}${terminal}? ` +
    `Host policy requires approval (${visibleText(rule)}).`;
}
