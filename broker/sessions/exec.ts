import { stopOnDisconnect } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import { AppError } from "@gateway/shared/errors";
import type { KeptBytes, Output } from "../ssh/output.ts";
import type { CommandResult } from "../ssh/run_command.ts";
import { audited, canceledBy } from "../request/records.ts";
import { type OpenPorts, reopenSession } from "./open.ts";
import { NO_LINK } from "./link.ts";
import { type Cleared, ONE_SHOT_INSTEAD, preflight } from "./preflight.ts";
import type { Asker, Session, SessionInfo } from "./session.ts";
import { explainShimRefusal } from "./shim_refusal.ts";

/** One command in an open session. */
export interface ExecRequest extends Asker {
  readonly sessionId: string;
  readonly command: string;
  /** What is kept of its output; absent: its beginning, up to the limit of the specification. */
  readonly output?: KeptBytes;
}

export interface Executed {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly exitCode: number;
  /** Of the certificate that the session was opened with, or of the command's own. */
  readonly serial: bigint;
  /** What an audit-mode policy has to say. */
  readonly warnings: readonly string[];
}

/**
 * Runs a command in a session, after asking again whether it may. Whose session it is comes before anything else.
 *
 * @throws {AppError} with a text that a caller may see
 */
export async function execInSession(
  ports: OpenPorts,
  request: ExecRequest,
  signal: AbortSignal,
): Promise<Executed> {
  const { registry, events } = ports;
  const { command } = request;
  const session = registry.findForUse(request.sessionId, request.caller);
  checkCommand(session.info, command);
  const recorded = <T>(outcome: string, signal: AbortSignal, step: () => Promise<T>) =>
    audited(events, { entry: { ...session.entry, command, outcome }, signal }, step);
  return await session.use(signal, async (signal) => {
    await recorded("error", signal, () => checkLink(session));
    const clear = () =>
      recorded(
        "session_exec_denied",
        signal,
        () => preflight(ports, { session: session.info, asker: request, command }, signal),
      );
    let cleared = await clear();
    if (!fits(session, cleared)) {
      const { route } = cleared;
      await recorded("error", signal, async () => {
        refuseApproved(session.info, cleared);
        await reopenSession(ports, { session, asker: request, route }, signal);
      });
      // The envelope is good for seconds, and to connect may have taken them.
      cleared = await clear();
    }
    const { decision, own } = cleared;
    if (own !== undefined) session.keepOwn(own);
    const { info, link, recorder } = session;
    await recorded("error", signal, () => Promise.resolve(refuseMismatch({ info, link }, cleared)));
    const serial = own?.serial ?? info.serial;
    if (serial === undefined) throw new TypeError("The command of a session has no certificate");
    const entry = { ...session.entry, command, serial };
    const result = await audited(events, { entry, signal }, async () => {
      if (own === undefined) return await run({ info, link, recorder }, { cleared, request }, signal);
      const { hops, elevationPrefix } = own;
      const ownLink = await ports.connect({ hops, mode: "exec", elevationPrefix, signal });
      return await session.runOwn(
        ownLink,
        (link) => run({ info, link, recorder }, { cleared, request }, signal),
      );
    });
    const refusal = info.shim === undefined ? undefined : explainShimRefusal(result, info.shim);
    const warnings = [decision.warning ?? "", refusal ?? ""].filter((text) => text !== "");
    await events.require({
      ...entry,
      outcome: "session_exec",
      exit_code: result.exitCode,
      policy_rule: decision.matched_rule ?? "",
      warning: warnings.join("; "),
    });
    return {
      stdout: result.stdout,
      stderr: result.stderr,
      exitCode: result.exitCode,
      serial,
      warnings,
    };
  });
}

/** Whether the signer's answer is for a session like this: a plain shell must not be sent an envelope. */
function fits({ info, link }: Pick<Session, "info" | "link">, { envelope, own }: Cleared): boolean {
  if (own !== undefined || info.mode !== "exec") return true;
  return link !== NO_LINK && (info.shim !== undefined) === (envelope !== undefined);
}

/** What a human has approved comes without an envelope, so that it would run once at most where it was asked for. */
function refuseApproved({ shim }: SessionInfo, { waited }: Cleared): void {
  if (shim === undefined || !waited) return;
  throw new AppError(
    "approval_required",
    `the host is sealed: what a human has approved does not run in its sessions; ${ONE_SHOT_INSTEAD}`,
  );
}

/** After a session has been opened anew, something between it and the signer is at fault. */
function refuseMismatch(session: Pick<Session, "info" | "link">, cleared: Cleared): void {
  if (fits(session, cleared)) return;
  const { info } = session;
  refuseApproved(info, cleared);
  throw new AppError(
    "upstream_failure",
    info.shim === undefined
      ? `session execution: the signer sent an envelope for ${
        quoteText(info.host)
      }, whose certificates it does not seal`
      : `session execution: ${
        quoteText(info.host)
      } is sealed, but the signer's answer has no envelope; a control ` +
        "plane that does not pass envelopes on has to be upgraded",
  );
}

function checkCommand({ mode }: SessionInfo, command: string): void {
  if (command === "") throw new AppError("invalid_request", "command is required");
  if (mode !== "exec" && /[\r\n]/.test(command)) {
    throw new AppError("invalid_request", "command contains newlines; not allowed in shell/pty sessions");
  }
}

/** Nobody is asked about a command that can't be run. */
function checkLink({ link }: Session): Promise<void> {
  const { broken } = link;
  if (broken === undefined) return Promise.resolve();
  return Promise.reject(new AppError("upstream_failure", `session execution: ${broken}`));
}

async function run(
  { info, link, recorder }: Pick<Session, "info" | "link" | "recorder">,
  { cleared, request }: { readonly cleared: Cleared; readonly request: ExecRequest },
  signal: AbortSignal,
): Promise<CommandResult> {
  const line = await commandLine(info, request.command, cleared);
  // The connection of a session that has just been killed may still be open.
  if (signal.aborted) throw canceledBy(signal);
  try {
    return await link.run(line, {
      signal,
      stopsAtStdinEnd: isStopped(info, cleared),
      tap: recorder,
      output: request.output,
    });
  } catch (cause) {
    if (!(cause instanceof AppError) || cause.code !== "upstream_failure") throw cause;
    throw new AppError("upstream_failure", `session ${cause.message}`, { cause });
  }
}

/** Whether the command watches its standard input, as the signer has it for one-shots of such a host. */
function isStopped({ mode }: SessionInfo, { host }: Cleared): boolean {
  return mode === "exec" && host.stop_on_disconnect === true;
}

/** A sealed host opens the envelope itself, elevation included; a shell has been elevated as a whole. */
async function commandLine(info: SessionInfo, command: string, cleared: Cleared): Promise<string> {
  const { mode, elevationPrefix } = info;
  // The host runs what a command's own certificate is locked to, whatever it is sent.
  if (mode !== "exec" || cleared.own !== undefined) return command;
  if (cleared.envelope !== undefined) return cleared.envelope;
  if (isStopped(info, cleared)) return stopOnDisconnect(elevationPrefix, command);
  if (elevationPrefix === "") return command;
  // Loaded only where commands are elevated: it brings the parser of commands with it.
  const { elevateCommand } = await import("@gateway/shared/policy");
  return elevateCommand(elevationPrefix, command);
}
