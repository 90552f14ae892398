import type { AuditEntry } from "@gateway/shared/audit";
import { type Random, within } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import type { Redactor } from "@gateway/shared/redact";
import { quoteText } from "@gateway/shared/text";
import { SESSION_MODES, type SessionMode } from "@gateway/shared/wire";
import { describeRequest } from "../request/execute.ts";
import { approvalRequired, clampTtl, obtainRoute, type RouteAuthority } from "../request/obtain.ts";
import type { Requester } from "../authority/authority.ts";
import { audited, type Events } from "../request/records.ts";
import { findRoute, type Route, routeSignature, targetOf } from "../request/route.ts";
import type { ConnectSession } from "./connect_session.ts";
import { checkRoute, hasOwnCertificates, type PreflightPorts, targetOfSession } from "./preflight.ts";
import type { StartRecording } from "./recorder.ts";
import type { SessionRegistry } from "./registry.ts";
import { NO_LINK, Session, type SessionInfo, type SessionLink } from "./session.ts";

export interface OpenRequest extends Requester {
  readonly host: string;
  /** `exec` when empty. */
  readonly mode: string;
  /**
   * The certificate's lifetime. The maximum replaces a value that is 0, negative or above the maximum. The
   * session can outlive its certificate.
   */
  readonly ttlSeconds: number;
  readonly sudo: boolean;
  readonly sudoUser: string;
}

export interface OpenPorts extends PreflightPorts {
  readonly registry: SessionRegistry;
  readonly events: Events;
  readonly random: Random;
  readonly redact: Redactor;
  readonly connect: ConnectSession;
  readonly startRecording: StartRecording | undefined;
  readonly sessionMaxSeconds: number;
}

/** Opens a session. Without a serial, each command gets its own certificate. A caller may see the text of its `AppError`. */
export async function openSession(
  ports: OpenPorts,
  request: OpenRequest,
  signal: AbortSignal,
): Promise<{ readonly sessionId: string; readonly serial: bigint | undefined }> {
  const { events, registry } = ports;
  const route = await findRoute(ports, {
    host: request.host,
    describe: (host) => describeRequest(modeRequest(request, request.mode), host),
    signal,
  });
  const mode = readMode(request.mode);
  const entry = describeRequest(modeRequest(request, mode), targetOf(route).host);
  const sessionId = ports.random.bytes(12).toHex();
  const refused = { entry: { ...entry, outcome: "denied" }, signal };
  await audited(events, refused, () => Promise.resolve(registry.enter(sessionId, request.caller)));
  let session: Session;
  try {
    session = await establish(ports, request, { id: sessionId, mode, route, entry }, signal);
    registry.add(session);
  } catch (error) {
    registry.leave(sessionId);
    throw error;
  }
  const { startRecording } = ports;
  const isMissed = startRecording !== undefined && mode !== "exec" && session.recorder === undefined;
  const warning = isMissed ? "the session is not recorded" : "";
  try {
    await events.require({ ...session.entry, outcome: "session_open", warning });
  } catch (error) {
    await registry.drop(session);
    throw error;
  }
  return { sessionId, serial: session.info.serial };
}

async function establish(
  ports: OpenPorts,
  request: OpenRequest,
  { id, mode, route: known, entry: asked }: {
    readonly id: string;
    readonly mode: SessionMode;
    readonly route: Route;
    readonly entry: Omit<AuditEntry, "outcome">;
  },
  signal: AbortSignal,
): Promise<Session> {
  const { events, clock } = ports;
  const { caller, host, sudo, sudoUser } = request;
  const opening = { id, caller, host, mode, sudo, sudoUser };
  if (hasOwnCertificates(mode, known)) {
    const none = { serial: undefined, otherSerials: [], elevationPrefix: "", shim: undefined };
    const info = { ...opening, ...none, routeSignature: routeSignature(known) };
    return new Session({ info, link: NO_LINK, entry: { ...asked, session_id: id }, clock });
  }
  const { route, hops, serial, bastionSerials, elevationPrefix, shim } = await audited(
    events,
    { entry: { ...asked, session_id: id }, signal },
    () => obtainSession(ports, opening, { requester: request, route: known }, signal),
  );
  const certified = { serial, elevationPrefix, shim, otherSerials: bastionSerials };
  const info = { ...opening, ...certified, routeSignature: routeSignature(route) };
  const described = describeRequest(modeRequest(request, mode), targetOf(route).host);
  const entry = { ...described, session_id: id, serial };
  const connect = () =>
    connectWith(ports, { hops, mode, elevationPrefix, signal }, async (link) => {
      const recorder = mode === "exec"
        ? undefined
        : await ports.startRecording?.({ sessionId: id, caller, host, serial, startedAt: clock.now() });
      return new Session({ info, link, recorder, entry, clock });
    });
  return await audited(events, { entry, signal }, connect);
}

/** Connects and runs a step. If the step fails, the connection is closed. */
async function connectWith<T>(
  { connect }: OpenPorts,
  options: Parameters<ConnectSession>[0],
  step: (link: SessionLink) => Promise<T>,
): Promise<T> {
  const link = await connect(options);
  try {
    return await step(link);
  } catch (error) {
    await link.close();
    throw error;
  }
}

async function obtainSession(
  ports: OpenPorts,
  opening: Pick<SessionInfo, "id" | "host" | "mode" | "sudo" | "sudoUser">,
  { requester, route }: {
    readonly requester: Requester & Partial<Pick<OpenRequest, "ttlSeconds">>;
    readonly route: Route;
  },
  signal: AbortSignal,
): Promise<RouteAuthority> {
  const { sudo } = opening;
  const intent = {
    ...requester,
    sessionId: opening.id,
    purpose: "session" as const,
    ttlSeconds: clampTtl(requester.ttlSeconds ?? 0, ports.maxTtlSeconds),
    target: { session_max_seconds: ports.sessionMaxSeconds, ...targetOfSession(opening) },
  };
  const obtained = await obtainRoute(ports, { route, intent }, { signal, onProgress: requester.onProgress });
  if (obtained.kind === "needs_approval") throw approvalRequired(opening.host, obtained.rule);
  if ((obtained.elevationPrefix !== "") !== sudo) {
    const returned = sudo ? "no elevation" : "an elevation that was not requested";
    throw new AppError("upstream_failure", `upstream failure: signing service returned ${returned}`);
  }
  return obtained;
}

function readMode(text: string): SessionMode {
  const mode = SESSION_MODES.find((known) => known === (text || "exec"));
  if (mode !== undefined) return mode;
  throw new AppError("invalid_request", `invalid mode: ${quoteText(text)} (exec|shell|pty)`);
}

/** The request text in the audit records of opening a session. */
function modeRequest(request: OpenRequest, mode: string) {
  return { ...request, command: `mode=${mode}`, pty: mode === "pty", dryRun: false };
}

/**
 * Reconnects an exec session whose host was sealed or unsealed. An exec session has no state on the host, so
 * the caller does not notice the new connection.
 */
export async function reopenSession(
  ports: OpenPorts,
  session: Session,
  { requester, route }: { readonly requester: Requester; readonly route: Route },
  signal: AbortSignal,
): Promise<void> {
  const { info, entry } = session;
  const renewing = session.renew(async (signal) => {
    const obtained = await obtainSession(ports, info, { requester, route }, signal);
    checkRoute(obtained.route, info);
    const { hops, serial, elevationPrefix, shim } = obtained;
    return await connectWith(ports, { hops, mode: info.mode, elevationPrefix, signal }, async (link) => {
      const warning = `reopened: the host is now ${shim === undefined ? "not sealed" : "sealed"}`;
      await ports.events.require({ ...entry, serial, outcome: "session_open", warning });
      return { ...obtained, link };
    });
  });
  // The renewal continues for the other commands of the session when this one is canceled.
  await within({ clock: ports.clock, signal }, renewing);
}
