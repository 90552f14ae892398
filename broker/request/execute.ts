import type { AuditEntry } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import { canonicalSudoUser, elevationLabel } from "@gateway/shared/policy";
import { quoteText, visibleText } from "@gateway/shared/text";
import type { HostInfo, SignRequest, WireDecision } from "@gateway/shared/wire";
import type { Requester } from "../authority/authority.ts";
import type { KeptBytes } from "../ssh/output.ts";
import type { CommandResult, RunCommandOptions } from "../ssh/run_command.ts";
import {
  approvalRequired,
  badRequest,
  clampTtl,
  describeElevation,
  obtainDecision,
  type ObtainPorts,
  obtainRoute,
  prefixed,
  type RouteAuthority,
} from "./obtain.ts";
import { audited, describeDecision, type Events } from "./records.ts";
import { findRoute, targetOf } from "./route.ts";

/** The fields of an audit record that are the same in every outcome. */
type Entry = Omit<AuditEntry, "outcome">;

type Decided = { readonly kind: "decided"; readonly decision: WireDecision };
type Gated = { readonly kind: "needs_approval"; readonly rule: string };
type Issued = {
  readonly kind: "issued";
  readonly serial: bigint;
  readonly decision: WireDecision | undefined;
};

/** The parts of a result that are recorded and returned for every action. */
type Ran = { readonly exitCode?: number; readonly warnings?: readonly string[] };

/** An action that ran, the serial of its certificate or token, and the warnings of a policy in audit mode. */
type Executed<Result> = Result & {
  readonly kind: "executed";
  readonly serial: bigint;
  readonly warnings: readonly string[];
};

/**
 * The steps of every action on a host or cluster: authority, run, record, return.
 * @param steps `describe` returns the fields of every record, `refused` the outcome of a failure before `run`, and
 * `gated` the further fields of the record of an action that a human has to approve
 */
export async function perform<Grant extends Issued, Result extends object>(
  events: Events,
  { describe, refused, gated, obtain, run }: {
    readonly describe: (grant?: Grant) => Entry;
    readonly refused: "denied" | "error";
    readonly gated: (rule: string) => Pick<AuditEntry, "err" | "policy_rule">;
    readonly obtain: () => Promise<Grant | Decided | Gated>;
    readonly run: (grant: Grant) => Promise<Result & Ran>;
  },
  signal: AbortSignal,
): Promise<Executed<Result> | Decided | Gated> {
  const asked = describe();
  const grant = await audited(events, { entry: { ...asked, outcome: refused }, signal }, obtain);
  if (grant.kind === "decided") {
    const { decision } = grant;
    const outcome = decision.allowed ? "dry_run_allowed" : "dry_run_denied";
    await events.bestEffort({ ...asked, ...describeDecision(decision), outcome });
    return { kind: "decided", decision };
  }
  if (grant.kind === "needs_approval") {
    await events.bestEffort({ ...asked, outcome: refused, ...gated(grant.rule) });
    return grant;
  }
  const { serial, decision } = grant;
  const entry = { ...describe(grant), serial };
  const result = await audited(events, { entry, signal }, () => run(grant));
  const { exitCode, warnings = [] } = result;
  const exit = exitCode !== undefined && { exit_code: exitCode };
  await events.require({ ...entry, outcome: "executed", ...exit, ...describeDecision(decision) });
  const warning = decision?.warning ? [decision.warning] : [];
  return { ...result, kind: "executed", serial, warnings: [...warning, ...warnings] };
}

export interface ExecuteRequest extends Requester {
  readonly host: string;
  readonly command: string;
  /** The certificate's lifetime. The maximum replaces a value that is 0, negative or above the maximum. */
  readonly ttlSeconds: number;
  readonly sudo: boolean;
  readonly sudoUser: string;
  readonly pty: boolean;
  /** Requests the decision only: no certificate, no connection. */
  readonly dryRun: boolean;
  /**
   * Present if the command transfers a file, which the host must permit: the facts about the content to
   * write.
   */
  readonly fileTransfer?: Partial<Pick<SignRequest, "content_sha256" | "content_bytes" | "content_head">>;
  readonly stdin?: Uint8Array | undefined;
  /** The part of the output to keep; absent: the beginning, up to the limit of the specification. */
  readonly output?: KeptBytes;
  readonly consent?: { readonly via: "elicitation"; readonly rule: string };
  readonly askHuman?: AskHuman | undefined;
}

/** Asks the human at the client for approval. Never rejects: every failure declines. */
export type AskHuman = (question: string) => Promise<HumanAnswer>;

export type HumanAnswer =
  | { readonly kind: "approved" }
  | { readonly kind: "declined"; readonly why: string };

/** The result of a command, with the host as it was known when the command ran. */
type ExecuteResult = Executed<CommandResult & { readonly host: HostInfo }> | Decided;

export type Execute = (request: ExecuteRequest, signal: AbortSignal) => Promise<ExecuteResult>;

export interface ExecutePorts extends ObtainPorts {
  readonly runCommand: (options: RunCommandOptions) => Promise<CommandResult>;
  readonly events: Events;
  readonly maxTtlSeconds: number;
}

/**
 * Runs one command, or previews the decision about it. If the policy requires approval, the human at the client is
 * asked once, and the command starts again from the beginning: hosts and policy may have changed by then.
 * @throws {AppError} `upstream_failure`, `unknown_host`, `invalid_request`, `denied`, `frozen`,
 * `approval_required`, `audit_unavailable` or `canceled`, with a text that a caller may see
 */
export async function execute(
  ports: ExecutePorts,
  request: ExecuteRequest,
  signal: AbortSignal,
): Promise<ExecuteResult> {
  const { host: name, consent, askHuman } = request;
  const describe = (host?: HostInfo) => describeRequest(request, host);
  const route = await findRoute(ports, { host: name, describe, signal });
  if (request.command === "") throw badRequest("command is required");
  const known = targetOf(route).host;
  if (consent !== undefined) {
    const { rule } = consent;
    await ports.events.require({ ...describe(known), outcome: "approval_granted", policy_rule: rule });
  }
  const intent = intentOf(request, ports.maxTtlSeconds);
  const gated = (rule: string) =>
    approvalRequired(name, rule, consent === undefined ? "unasked" : "approved");
  const result = await perform<RouteAuthority, CommandResult & { readonly host: HostInfo }>(ports.events, {
    describe: (grant) => describe(grant === undefined ? known : targetOf(grant.route).host),
    refused: "error",
    gated: (rule) => ({ err: gated(rule).message }),
    obtain: async () =>
      request.dryRun
        ? await obtainDecision(ports, { hop: targetOf(route), intent }, { ...request, signal })
        : await obtainRoute(ports, { route, intent }, { ...request, signal }),
    run: (grant) => run(ports, request, grant, signal),
  }, signal);
  if (result.kind !== "needs_approval") return result;
  const { rule } = result;
  if (consent !== undefined || askHuman === undefined) throw gated(rule);
  const consented = { ...request, consent: { via: "elicitation", rule } } as const;
  const answer = await askHuman(questionFor(request, rule));
  if (answer.kind === "approved") return await execute(ports, consented, signal);
  await ports.events.bestEffort({
    ...describeRequest(consented, known),
    outcome: "approval_declined",
    policy_rule: rule,
    err: answer.why,
  });
  throw new AppError(
    "denied",
    `approval declined: ${quoteText(request.command)} was not run on ${quoteText(name)}`,
  );
}

async function run(
  { clock, runCommand }: ExecutePorts,
  { command, pty, stdin, output, fileTransfer }: ExecuteRequest,
  { hops, route }: RouteAuthority,
  signal: AbortSignal,
) {
  const { host } = targetOf(route);
  // The signer does not wrap transfers: they end with their own input.
  const stopsAtStdinEnd = host.stop_on_disconnect === true && !pty && fileTransfer === undefined;
  const options = { clock, hops, command, pty, stdin, output, stopsAtStdinEnd, signal };
  return { ...await prefixed("upstream failure: ", () => runCommand(options)), host };
}

function intentOf(request: ExecuteRequest, maxTtlSeconds: number) {
  const { caller, callerGroups, bearerToken, reason, fileTransfer } = request;
  return {
    ...{ caller, callerGroups, bearerToken, reason, purpose: "oneshot" as const },
    ttlSeconds: clampTtl(request.ttlSeconds, maxTtlSeconds),
    target: {
      command: request.command,
      ...describeElevation(request),
      ...(fileTransfer !== undefined && { file_transfer: true, ...fileTransfer }),
      ...(request.dryRun && { dry_run: true }),
      ...(request.consent !== undefined && { approved: true }),
    },
  };
}

export function describeRequest(request: Omit<ExecuteRequest, "stdin">, host?: HostInfo): Entry {
  return {
    caller: request.caller,
    host: host?.addr ?? request.host,
    host_name: request.host,
    ...(host !== undefined && { user: host.user, addr: host.addr }),
    command: request.command,
    elevation: elevationLabel(request.sudo, request.sudoUser),
    pty: request.pty,
    dry_run: request.dryRun,
    ...(request.consent !== undefined && { approved_via: request.consent.via }),
  };
}

/** Shows the exact command: nothing in it can hide, control a terminal or end the quotes. */
function questionFor({ command, host, sudo, sudoUser, pty }: ExecuteRequest, rule: string): string {
  const elevation = sudo ? ` with sudo as ${quoteText(canonicalSudoUser(sudo, sudoUser))}` : "";
  const terminal = pty ? " in a terminal" : "";
  return `Approve running ${quoteText(command)} on ${quoteText(host)}${elevation}${terminal}? ` +
    `Host policy requires approval (${visibleText(rule)}).`;
}
