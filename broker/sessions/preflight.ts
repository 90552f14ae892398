import { within } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { SessionMode, WireDecision } from "@gateway/shared/wire";
import type { Requester, SignAnswer } from "../authority/authority.ts";
import {
  createSignRequest,
  describeElevation,
  type ObtainPorts,
  obtainRoute,
  type RouteAuthority,
} from "../request/obtain.ts";
import { buildRoute, type Hop, type Route, routeSignature, targetOf } from "../request/route.ts";
import type { SessionInfo } from "./session.ts";

export interface PreflightPorts extends ObtainPorts {
  readonly maxTtlSeconds: number;
}

export interface PreflightResult {
  readonly decision: WireDecision;
  /** The command for a sealed host. */
  readonly envelope?: string | undefined;
  /** The current route, which has the signature of the session's route. */
  readonly route: Route;
  /** Whether a human has approved the command. */
  readonly waited: boolean;
  /** The certificates that are locked to this command, on a host whose sessions have none. */
  readonly own?: RouteAuthority;
}

export const ONE_SHOT_INSTEAD = "use ssh_execute for approval-gated commands";

const REOPEN = "close this session and open a new one";

/** Decides a command by the current hosts and policy: route, bastions, then the command. */
export async function preflight(
  ports: PreflightPorts,
  { session, requester, command }: {
    readonly session: SessionInfo;
    readonly requester: Requester;
    readonly command: string;
  },
  signal: AbortSignal,
): Promise<PreflightResult> {
  let route = await currentRoute(ports, session, signal);
  const intent = { ...requester, sessionId: session.id, ttlSeconds: ports.maxTtlSeconds };
  if (hasOwnCertificates(session.mode, route)) {
    // The signer decides again when it issues the certificate. A preflight in addition would count the
    // command twice.
    const target = { command, ...describeElevation({ ...session, pty: false }) };
    const oneshot = { ...intent, purpose: "oneshot" as const, target };
    const own = await inContext(
      "session command",
      () => obtainRoute(ports, { route, intent: oneshot }, { signal }),
    );
    if (own.kind === "needs_approval") throw commandGated(own.rule);
    checkRoute(own.route, session);
    return { decision: own.decision ?? { allowed: true }, route: own.route, waited: false, own };
  }
  let waited = false;
  const decide = async (hop: Hop, what: string, gated: (rule: string) => AppError) => {
    const target = { command, ...targetOfSession(session) };
    const key = ports.createKey().publicKeyLine;
    const request = createSignRequest(hop, { ...intent, purpose: "session", target }, key);
    const asked = { ...request, dry_run: true, preflight: true };
    const answer = await inContext(
      what,
      async () => checkDecided(await ports.authority.sign(asked, { signal })),
    );
    if (answer.kind !== "decided") throw gated("rule" in answer ? answer.rule : `id ${answer.approvalId}`);
    waited ||= answer.waited === true;
    return answer;
  };
  for (const hop of route) {
    if (hop.role !== "bastion") continue;
    const bastion = `session bastion ${quoteText(hop.name)}`;
    const gated = () =>
      new AppError(
        "approval_required",
        `${bastion} requires human approval; ${REOPEN} after policy is updated`,
      );
    const { decision } = await decide(hop, `session bastion preflight for ${quoteText(hop.name)}`, gated);
    if (!decision.allowed) {
      const why = decision.reason ? `: ${decision.reason}` : " by signer policy";
      throw new AppError("denied", `${bastion} not allowed${why}`);
    }
    if (decision.require_approval) throw gated();
  }
  const { decision, envelope } = await decide(
    targetOf(route),
    "session command policy preflight",
    commandGated,
  );
  const { allowed, reason = "", matched_rule: rule = "" } = decision;
  if (!allowed) {
    const why = reason === "" ? `not allowed by command_policy (${rule})` : `not allowed: ${reason}`;
    throw new AppError("denied", `session command ${why}`);
  }
  if (decision.require_approval) throw commandGated(rule);
  // The route may have changed while a human decided.
  if (waited) route = await currentRoute(ports, session, signal);
  return { decision, envelope, route, waited };
}

export function hasOwnCertificates(mode: SessionMode, route: Route): boolean {
  return mode === "exec" && targetOf(route).host.unsealed_sessions === false;
}

/** The fields of a sign request for a session's target. */
export function targetOfSession({ mode, sudo, sudoUser }: Pick<SessionInfo, "mode" | "sudo" | "sudoUser">) {
  return { session_mode: mode, ...describeElevation({ sudo, sudoUser, pty: mode === "pty" }) };
}

/** @throws {AppError} `denied` if the route is not the session's */
export function checkRoute(route: Route, { host, routeSignature: known }: SessionInfo): void {
  if (routeSignature(route) === known) return;
  throw new AppError("denied", `session host connectivity changed for ${quoteText(host)}; ${REOPEN}`);
}

async function currentRoute(
  { hosts: view, clock }: PreflightPorts,
  session: SessionInfo,
  signal: AbortSignal,
): Promise<Route> {
  const route = await inContext("session connectivity preflight", async () => {
    const hosts = await within({ clock, signal }, view.refreshAgain());
    return buildRoute(hosts, session.host);
  });
  checkRoute(route, session);
  return route;
}

function commandGated(rule: string): AppError {
  return new AppError(
    "approval_required",
    `session command requires human approval (${rule}); ${ONE_SHOT_INSTEAD}`,
  );
}

function checkDecided(
  answer: SignAnswer,
): Extract<SignAnswer, { kind: "decided" | "needs_approval" | "undecided" }> {
  switch (answer.kind) {
    case "not_granted":
    case "rejected":
      throw new AppError("denied", `signing rejected (${answer.status}): ${answer.detail}`);
    case "issued":
      // The signer is of a version that does not support preflights.
      throw new AppError("upstream_failure", "signing service returned no decision");
    default:
      return answer;
  }
}

async function inContext<T>(what: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (cause) {
    const code = cause instanceof AppError ? cause.code : "upstream_failure";
    throw new AppError(code, `${what}: ${errorText(cause)}`, { cause });
  }
}
