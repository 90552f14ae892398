import { AppError } from "@gateway/shared/errors";
import { stopOnDisconnect } from "@gateway/shared/policy";
import { quoteText, shortenText, visibleText } from "@gateway/shared/text";
import type { Requester } from "../authority/authority.ts";
import { prefixed } from "../request/obtain.ts";
import { audited, canceledBy } from "../request/records.ts";
import { targetOf } from "../request/route.ts";
import { type KeptBytes, keptBytes } from "../ssh/output.ts";
import type { CommandResult } from "../ssh/run_command.ts";
import { type OpenPorts, reopenSession } from "./open.ts";
import { ONE_SHOT_INSTEAD, preflight, type PreflightResult } from "./preflight.ts";
import { type LinkRunOptions, NO_LINK, type Session, type SessionInfo, type SessionLink } from "./session.ts";

export interface ExecRequest extends Requester {
  readonly sessionId: string;
  readonly command: string;
  readonly output?: KeptBytes;
}

/** Runs a command in a session after a new decision about it. A caller may see the text of its `AppError`. */
export async function execInSession(
  ports: OpenPorts,
  request: ExecRequest,
  signal: AbortSignal,
): Promise<CommandResult & { readonly serial: bigint; readonly warnings: readonly string[] }> {
  const { registry, events } = ports;
  const { command } = request;
  const session = registry.findForUse(request.sessionId, request.caller);
  if (command === "") throw new AppError("invalid_request", "command is required");
  if (session.info.mode !== "exec" && /[\r\n]/.test(command)) {
    throw new AppError("invalid_request", "command contains newlines; not allowed in shell/pty sessions");
  }
  return await session.use(signal, async (signal) => {
    const recorded = <T>(step: () => T | Promise<T>, outcome = "error") =>
      audited(events, { entry: { ...session.entry, command, outcome }, signal }, async () => await step());
    const clear = () =>
      recorded(
        () => preflight(ports, { session: session.info, requester: request, command }, signal),
        "session_exec_denied",
      );
    await recorded(() => {
      const { broken } = session.link;
      if (broken !== undefined) throw new AppError("upstream_failure", `session execution: ${broken}`);
    });
    let cleared = await clear();
    if (!fits(session, cleared)) {
      await recorded(() => {
        refuseApproved(session, cleared);
        return reopenSession(ports, session, { requester: request, route: cleared.route }, signal);
      });
      // An envelope is valid for seconds, and the connection may have taken them.
      cleared = await clear();
    }
    const { decision, own } = cleared;
    if (own !== undefined) session.keepOwn(own);
    // Concurrent commands can replace the connection from here on.
    const { info, link, recorder } = session;
    await recorded(() => refuseMismatch({ info, link }, cleared));
    const serial = own?.serial ?? info.serial;
    if (serial === undefined) throw new TypeError("The command of a session has no certificate");
    session.lastCommand = shortenText(ports.redact(command), MAX_SHOWN);
    const entry = { ...session.entry, command, serial };
    const result = await audited(events, { entry, signal }, async () => {
      const line = await commandLine(info, command, cleared);
      const stopsAtStdinEnd = info.mode === "exec" && stopsOnDisconnect(cleared);
      const options = { signal, stopsAtStdinEnd, tap: recorder, output: request.output };
      const runOn = (link: SessionLink) => run(link, line, options);
      if (own === undefined) return await runOn(link);
      const { hops, elevationPrefix } = own;
      const ownLink = await ports.connect({ hops, mode: "exec", elevationPrefix, signal });
      return await session.runOwn(ownLink, () => runOn(ownLink));
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
    return { ...result, serial, warnings };
  });
}

/** Whether the decision fits the connection: a plain shell must not receive an envelope. */
function fits({ info, link }: Pick<Session, "info" | "link">, { envelope, own }: PreflightResult): boolean {
  if (own !== undefined || info.mode !== "exec") return true;
  return link !== NO_LINK && (info.shim !== undefined) === (envelope !== undefined);
}

/** Rejects an approved command. It has no envelope, because an approved command may run only once. */
function refuseApproved({ info: { shim } }: Pick<Session, "info">, { waited }: PreflightResult): void {
  if (shim === undefined || !waited) return;
  throw new AppError(
    "approval_required",
    `the host is sealed and its sessions do not run approved commands; ${ONE_SHOT_INSTEAD}`,
  );
}

/** If a new connection does not fit either, a service between the broker and the signer is at fault. */
function refuseMismatch(session: Pick<Session, "info" | "link">, cleared: PreflightResult): void {
  if (fits(session, cleared)) return;
  refuseApproved(session, cleared);
  const host = quoteText(session.info.host);
  throw new AppError(
    "upstream_failure",
    "session execution: " +
      (session.info.shim === undefined
        ? `the signer sent an envelope for ${host}, which is not sealed`
        : `${host} is sealed, but the signer's answer has no envelope; upgrade a control plane that drops envelopes`),
  );
}

async function run(link: SessionLink, line: string, options: LinkRunOptions): Promise<CommandResult> {
  // The connection of a session that has just been killed may still be open.
  if (options.signal.aborted) throw canceledBy(options.signal);
  return await prefixed("session ", () => link.run(line, options));
}

function stopsOnDisconnect({ route }: PreflightResult): boolean {
  return targetOf(route).host.stop_on_disconnect === true;
}

async function commandLine(
  { mode, elevationPrefix }: SessionInfo,
  command: string,
  cleared: PreflightResult,
): Promise<string> {
  // A shell was elevated when it started. A certificate for one command is already locked to the elevated
  // command.
  if (mode !== "exec" || cleared.own !== undefined) return command;
  if (cleared.envelope !== undefined) return cleared.envelope;
  if (stopsOnDisconnect(cleared)) return stopOnDisconnect(elevationPrefix, command);
  if (elevationPrefix === "") return command;
  const { elevateCommand } = await import("@gateway/shared/policy");
  return elevateCommand(elevationPrefix, command);
}

const REFUSED = 126;
const NOT_FOUND = 127;
const MAX_SHOWN = 200;
/** The form of the shim's last line. The account's shell may print text before it. */
const REFUSAL = /(?:^|\n)[^\s:]+: refused: (?<reason>[^\n]+)\n?$/;

/** The first pattern that matches the shim's reason selects the fix. */
const FIXES: readonly (readonly [pattern: RegExp, fix: string])[] = [
  [/replay|already used/i, "if the command did not run, send it again: an envelope is valid once"],
  [/expir|clock|future/i, "ask an operator to compare the clocks of signer and host"],
  [/nonce|store|record/i, "ask an operator to check the shim's store of used envelopes"],
  [
    /signature|\bkeys?\b|cannot read/i,
    "ask an operator to install the signer's key (broker-ctl envelope pubkey)",
  ],
  [/another host|host mismatch/i, "ask an operator why certificate and envelope name different hosts"],
];
const OTHER_FIX =
  "ask an operator to compare the host's shim with envelope, envelope_domain and shim_command in the signer's config";
/** An agent must know this before it acts on text from a host. */
const FORGEABLE = "a command can print the same text";

/** Explains to an agent that the shim of a sealed host refused its command; `undefined` for other results. */
export function explainShimRefusal(
  { exitCode, stdout, stderr }: CommandResult,
  shim: string,
): string | undefined {
  if (stdout.totalBytes > 0) return undefined;
  const printed = new TextDecoder().decode(keptBytes(stderr));
  if (exitCode === NOT_FOUND && printed.includes(shim)) {
    return `the host is sealed, but its shell did not find ${quoteText(shim)}, so the command did not run ` +
      `(${FORGEABLE}): ask an operator to install the shim`;
  }
  const reason = exitCode === REFUSED ? REFUSAL.exec(printed)?.groups?.["reason"] : undefined;
  if (reason === undefined) return undefined;
  const shown = quoteText(shortenText(visibleText(reason), MAX_SHOWN));
  const fix = FIXES.find(([pattern]) => pattern.test(reason))?.[1] ?? OTHER_FIX;
  return `the shim of the sealed host rejected the command, which did not run (${FORGEABLE}): ${shown}; ${fix}`;
}
