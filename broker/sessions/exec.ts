import { stopOnDisconnect } from "@gateway/shared/policy/stop_on_disconnect";
import { AppError } from "@gateway/shared/errors";
import type { Events } from "../events.ts";
import type { KeptBytes, Output } from "../ssh/output_buffer.ts";
import type { CommandResult } from "../ssh/run_command.ts";
import { audited, canceledBy } from "../audited.ts";
import { type Cleared, preflight, type PreflightPorts } from "./preflight.ts";
import type { SessionRegistry } from "./registry.ts";
import type { Asker, Session, SessionInfo } from "./session.ts";

/** One command in an open session. */
export interface ExecRequest extends Asker {
  readonly sessionId: string;
  readonly command: string;
  /** What is kept of its output; absent: its beginning, up to the limit of the specification. */
  readonly output?: KeptBytes;
}

/** What the command came to. */
export interface Executed {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly exitCode: number;
  /** Of the certificate that the session was opened with. */
  readonly serial: bigint;
  /** What an audit-mode policy has to say. */
  readonly warnings: readonly string[];
}

/** What it takes to run a command in a session. */
export interface ExecPorts extends PreflightPorts {
  readonly registry: SessionRegistry;
  readonly events: Events;
}

/**
 * Runs a command in a session, after asking again whether it may. Whose session it is comes before anything else.
 *
 * @throws {AppError} with a text that a caller may see
 */
export async function execInSession(
  ports: ExecPorts,
  request: ExecRequest,
  signal: AbortSignal,
): Promise<Executed> {
  const { registry, events } = ports;
  const session = registry.findForUse(request.sessionId, request.caller);
  checkCommand(session.info, request.command);
  const entry = { ...session.entry, command: request.command };
  return await session.use(signal, async (signal) => {
    const step = { entry: { ...entry, outcome: "error" }, signal };
    await audited(events, step, () => checkLink(session));
    const cleared = await audited(
      events,
      { entry: { ...entry, outcome: "session_exec_denied" }, signal },
      () => preflight(ports, { session: session.info, asker: request, command: request.command }, signal),
    );
    const { decision } = cleared;
    const result = await audited(events, step, () => run(session, { cleared, request }, signal));
    await events.require({
      ...entry,
      outcome: "session_exec",
      exit_code: result.exitCode,
      policy_rule: decision.matched_rule ?? "",
      warning: decision.warning ?? "",
    });
    return {
      stdout: result.stdout,
      stderr: result.stderr,
      exitCode: result.exitCode,
      serial: session.info.serial,
      warnings: decision.warning ? [decision.warning] : [],
    };
  });
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
  { info, link, recorder }: Session,
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
function isStopped({ mode }: SessionInfo, { envelope, host }: Cleared): boolean {
  return mode === "exec" && envelope === undefined && host.stop_on_disconnect === true;
}

/** A sealed host opens the envelope itself, elevation included; a shell has been elevated as a whole. */
async function commandLine(info: SessionInfo, command: string, cleared: Cleared): Promise<string> {
  const { mode, elevationPrefix } = info;
  if (mode !== "exec") return command;
  if (cleared.envelope !== undefined) return cleared.envelope;
  if (isStopped(info, cleared)) return stopOnDisconnect(elevationPrefix, command);
  if (elevationPrefix === "") return command;
  // Loaded only where commands are elevated: it brings the parser of commands with it.
  const { elevateCommand } = await import("@gateway/shared/policy/elevation");
  return elevateCommand(elevationPrefix, command);
}
