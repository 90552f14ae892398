import { AppError, errorText } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { within } from "@gateway/shared/clock";
import type { HostInfo, SessionMode, WireDecision } from "@gateway/shared/wire";
import type { SignAnswer } from "../authority/authority.ts";
import { buildRoute, type Hop, type Route, routeSignature, targetOf } from "../request/route.ts";
import { createSignRequest, type ObtainPorts, obtainRoute, type RouteAuthority } from "../request/obtain.ts";
import type { Asker, SessionInfo } from "./session.ts";

/** What it takes to ask again. */
export interface PreflightPorts extends ObtainPorts {
  readonly maxTtlSeconds: number;
}

/** A command that a session may run now. */
export interface Cleared {
  readonly decision: WireDecision;
  /** The command as a sealed host will have it; absent on others. */
  readonly envelope: string | undefined;
  /** The host as it is now. */
  readonly host: HostInfo;
  /** The way to it, which is that of the session. */
  readonly route: Route;
  /** It came after a wait for a human. */
  readonly waited: boolean;
  /** The certificates of this command alone, where the host's sessions have none; they are locked to it. */
  readonly own?: RouteAuthority;
}

/** What to do with a command that a human has to approve. */
export const ONE_SHOT_INSTEAD = "use ssh_execute for approval-gated commands";

const REOPEN = "close this session and open a new one";

/**
 * Whether a session may run a command as hosts and policy are now: the way to the host is what it was, every
 * bastion on it may still be used, and the command is allowed. The first objection ends it.
 *
 * @throws {AppError} `denied`, `approval_required`, `upstream_failure`, or `canceled`
 */
export async function preflight(
  ports: PreflightPorts,
  { session, asker, command }: {
    readonly session: SessionInfo;
    readonly asker: Asker;
    readonly command: string;
  },
  signal: AbortSignal,
): Promise<Cleared> {
  let route = await currentRoute(ports, session, signal);
  if (hasOwnCertificates(session.mode, route)) {
    return await obtainOwn(ports, { session, asker, command, route }, signal);
  }
  let waited = false;
  const ask = async (hop: Hop, what: string) => {
    const answer = await saying(what, () => askAgain(ports, { hop, session, asker, command }, signal));
    waited ||= answer.kind === "decided" && answer.waited === true;
    return answer;
  };
  for (const hop of route) {
    if (hop.role === "bastion") {
      checkBastion(hop.name, await ask(hop, `session bastion preflight for ${quoteText(hop.name)}`));
    }
  }
  const cleared = checkTarget(await ask(targetOf(route), "session command policy preflight"));
  // A human took their time: the way to the host may be another by now.
  if (waited) route = await currentRoute(ports, session, signal);
  return { ...cleared, host: targetOf(route).host, route, waited };
}

/** Whether each command of a session on this route gets certificates of its own. */
export function hasOwnCertificates(mode: SessionMode, route: Route): boolean {
  return mode === "exec" && targetOf(route).host.unsealed_sessions === false;
}

/** The signer decides when it issues: a preflight before would count the command twice. */
async function obtainOwn(
  ports: PreflightPorts,
  { session, asker, command, route: known }: {
    readonly session: SessionInfo;
    readonly asker: Asker;
    readonly command: string;
    readonly route: Route;
  },
  signal: AbortSignal,
): Promise<Cleared> {
  const { id: sessionId, sudo, sudoUser } = session;
  const intent = {
    ...asker,
    sessionId,
    purpose: "oneshot" as const,
    ttlSeconds: ports.maxTtlSeconds,
    target: { command, ...(sudo ? { sudo } : {}), ...(sudoUser === "" ? {} : { sudo_user: sudoUser }) },
  };
  const own = await saying("session command", () => obtainRoute(ports, { route: known, intent }, { signal }));
  if (own.kind === "needs_approval") throw commandGated(own.rule);
  const { route, decision = { allowed: true } } = own;
  checkRoute(route, session);
  return { decision, envelope: undefined, host: targetOf(route).host, route, waited: false, own };
}

function commandGated(rule: string): AppError {
  return new AppError(
    "approval_required",
    `session command requires human approval (${rule}); ${ONE_SHOT_INSTEAD}`,
  );
}

/** @throws {AppError} `denied` for another way than that of the session */
export function checkRoute(route: Route, { host, routeSignature: known }: SessionInfo): void {
  if (routeSignature(route) === known) return;
  throw new AppError("denied", `session host connectivity changed for ${quoteText(host)}; ${REOPEN}`);
}

async function currentRoute(
  { hosts: view, clock }: PreflightPorts,
  session: SessionInfo,
  signal: AbortSignal,
): Promise<Route> {
  const route = await saying("session connectivity preflight", async () => {
    const hosts = await within({ clock, signal }, view.refreshAnew());
    return buildRoute(hosts, session.host);
  });
  checkRoute(route, session);
  return route;
}

async function askAgain(
  { authority, createKey, maxTtlSeconds }: PreflightPorts,
  { hop, session, asker, command }: {
    readonly hop: Hop;
    readonly session: SessionInfo;
    readonly asker: Asker;
    readonly command: string;
  },
  signal: AbortSignal,
): Promise<SignAnswer> {
  const { id: sessionId, mode, sudo, sudoUser } = session;
  const request = createSignRequest(hop, {
    ...asker,
    sessionId,
    purpose: "session",
    ttlSeconds: maxTtlSeconds,
    target: {
      session_mode: mode,
      command,
      ...(sudo ? { sudo } : {}),
      ...(sudoUser === "" ? {} : { sudo_user: sudoUser }),
      ...(mode === "pty" ? { pty: true } : {}),
    },
  }, createKey().publicKeyLine);
  return await authority.sign({ ...request, dry_run: true, preflight: true }, { signal });
}

function checkBastion(name: string, answer: SignAnswer): void {
  const bastion = `session bastion ${quoteText(name)}`;
  const gated = `${bastion} requires human approval; ${REOPEN} after policy is updated`;
  const { decision } = decisionOf(answer, {
    failed: `session bastion preflight for ${quoteText(name)}`,
    gated: () => gated,
  });
  if (!decision.allowed) {
    throw new AppError(
      "denied",
      `${bastion} not allowed${decision.reason ? `: ${decision.reason}` : " by signer policy"}`,
    );
  }
  if (decision.require_approval) throw new AppError("approval_required", gated);
}

function checkTarget(answer: SignAnswer): Pick<Cleared, "decision" | "envelope"> {
  const gated = (rule: string) => commandGated(rule).message;
  const { decision, envelope } = decisionOf(answer, { failed: "session command policy preflight", gated });
  const { allowed, reason = "", matched_rule: rule = "" } = decision;
  if (!allowed) {
    const why = reason === "" ? `not allowed by command_policy (${rule})` : `not allowed: ${reason}`;
    throw new AppError("denied", `session command ${why}`);
  }
  if (decision.require_approval) throw commandGated(rule);
  return { decision, envelope };
}

function decisionOf(
  answer: SignAnswer,
  { failed, gated }: { readonly failed: string; readonly gated: (rule: string) => string },
): Extract<SignAnswer, { kind: "decided" }> {
  switch (answer.kind) {
    case "decided":
      return answer;
    case "needs_approval":
      throw new AppError("approval_required", gated(answer.rule));
    case "undecided":
      throw new AppError("approval_required", gated(`id ${answer.approvalId}`));
    case "not_granted":
    case "rejected":
      throw new AppError("denied", `${failed}: signing rejected (${answer.status}): ${answer.detail}`);
    case "issued":
      // Nobody asked for a certificate: whoever sends one does not know what a preflight is.
      throw new AppError("upstream_failure", `${failed}: signing service returned no decision`);
    default:
      return answer satisfies never;
  }
}

/** Takes a step, and says in its error what it was for. */
async function saying<T>(what: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (cause) {
    const code = cause instanceof AppError ? cause.code : "upstream_failure";
    throw new AppError(code, `${what}: ${errorText(cause)}`, { cause });
  }
}
