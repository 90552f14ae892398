import type { AuditEntry } from "@gateway/shared/audit";
import { AppError, errorText } from "@gateway/shared/errors";
import { elevationLabel } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import { type Random, within } from "@gateway/shared/clock";
import { type HostInfo, SESSION_MODES, type SessionMode } from "@gateway/shared/wire";
import { audited, type Events } from "../request/records.ts";
import { findRoute, type Route, routeSignature, targetOf } from "../request/route.ts";
import { approvalRequired, clampTtl, obtainRoute, type RouteAuthority } from "../request/obtain.ts";
import type { ConnectSession } from "./connect_session.ts";
import { NO_LINK } from "./link.ts";
import { checkRoute, hasOwnCertificates, type PreflightPorts } from "./preflight.ts";
import type { StartRecording } from "./recordings.ts";
import type { SessionRegistry } from "./registry.ts";
import { type Asker, type Renewal, Session, type SessionInfo } from "./session.ts";

export interface OpenRequest extends Asker {
  readonly host: string;
  /** `exec` when empty. */
  readonly mode: string;
  /** The certificate's life; the maximum when 0, negative, or above it. The session can outlive it. */
  readonly ttlSeconds: number;
  readonly sudo: boolean;
  /** Root when empty. */
  readonly sudoUser: string;
  /** Told what a long request is waiting for. */
  readonly onProgress?: ((text: string) => void) | undefined;
}

/** A session that has been opened. */
export interface Opened {
  readonly sessionId: string;
  /** `undefined`: each command gets a certificate of its own. */
  readonly serial: bigint | undefined;
}

/** What it takes to open a session. */
export interface OpenPorts extends PreflightPorts {
  readonly registry: SessionRegistry;
  readonly events: Events;
  readonly random: Random;
  readonly connect: ConnectSession;
  /** Absent where nothing is recorded. */
  readonly startRecording: StartRecording | undefined;
  /** After how long a session is closed: what an approver is told. */
  readonly sessionMaxSeconds: number;
}

const ID_BYTES = 12;

/**
 * Opens a session: refreshes the hosts, takes a place, gets the certificates, connects, starts the recording and
 * records it.
 *
 * @throws {AppError} with a text that a caller may see
 */
export async function openSession(
  ports: OpenPorts,
  request: OpenRequest,
  signal: AbortSignal,
): Promise<Opened> {
  const { events, registry } = ports;
  const route = await findRoute(ports, {
    host: request.host,
    describe: (host) => describe(request, request.mode, host),
    signal,
  });
  const mode = readMode(request.mode);
  const entry = describe(request, mode, targetOf(route).host);
  try {
    registry.enter(request.caller);
  } catch (error) {
    await events.bestEffort({ ...entry, outcome: "denied", err: errorText(error) });
    throw error;
  }
  let session: Session;
  try {
    session = await establish(ports, { request, mode, route, entry }, signal);
    registry.add(session);
  } catch (error) {
    registry.leave(request.caller);
    throw error;
  }
  return await announce(ports, session);
}

/** What the audit log says of a session that would be recorded if that were possible. */
const NOT_RECORDED = "the session is not recorded";

/** A session whose opening is not in the audit log is closed before anybody can use it. */
async function announce(ports: OpenPorts, session: Session): Promise<Opened> {
  const { events, registry, startRecording } = ports;
  const isMissed = startRecording !== undefined && session.info.mode !== "exec" &&
    session.recorder === undefined;
  try {
    await events.require({
      ...session.entry,
      outcome: "session_open",
      warning: isMissed ? NOT_RECORDED : "",
    });
  } catch (error) {
    await registry.drop(session);
    throw error;
  }
  return { sessionId: session.info.id, serial: session.info.serial };
}

async function establish(
  ports: OpenPorts,
  { request, mode, route: known, entry: asked }: {
    readonly request: OpenRequest;
    readonly mode: SessionMode;
    readonly route: Route;
    readonly entry: Omit<AuditEntry, "outcome">;
  },
  signal: AbortSignal,
): Promise<Session> {
  const { events, clock } = ports;
  const id = ports.random.bytes(ID_BYTES).toHex();
  const { caller, host, sudo, sudoUser } = request;
  const opening = { id, caller, host, mode, sudo, sudoUser };
  if (hasOwnCertificates(mode, known)) {
    const none = { serial: undefined, otherSerials: [], elevationPrefix: "", shim: undefined };
    const info = { ...opening, ...none, routeSignature: routeSignature(known) };
    return new Session({
      info,
      link: NO_LINK,
      recorder: undefined,
      entry: { ...asked, session_id: id },
      clock,
    });
  }
  const { route, hops, serial, bastionSerials, elevationPrefix, shim } = await audited(
    events,
    { entry: { ...asked, session_id: id, outcome: "error" }, signal },
    () => obtainSession(ports, { request, mode, id, route: known }, signal),
  );
  const info: SessionInfo = {
    ...{ ...opening, serial, elevationPrefix, shim },
    otherSerials: bastionSerials,
    routeSignature: routeSignature(route),
  };
  const entry = { ...describe(request, mode, targetOf(route).host), session_id: id, serial };
  return await audited(events, { entry: { ...entry, outcome: "error" }, signal }, async () => {
    const link = await ports.connect({ hops, mode, elevationPrefix, signal });
    try {
      const recorder = mode === "exec"
        ? undefined
        : await ports.startRecording?.({ sessionId: id, caller, host, serial, startedAt: clock.now() });
      return new Session({ info, link, recorder, entry, clock });
    } catch (error) {
      await link.close();
      throw error;
    }
  });
}

/**
 * Gets the certificates of a session.
 *
 * @throws {AppError} with a text that a caller may see
 */
async function obtainSession(
  ports: OpenPorts,
  { request, mode, id, route }: {
    readonly request: OpenRequest;
    readonly mode: SessionMode;
    readonly id: string;
    readonly route: Route;
  },
  signal: AbortSignal,
): Promise<RouteAuthority> {
  const { caller, callerGroups, bearerToken, reason, sudo, sudoUser, onProgress } = request;
  const intent = {
    ...{ caller, callerGroups, bearerToken, reason, sessionId: id },
    purpose: "session" as const,
    ttlSeconds: clampTtl(request.ttlSeconds, ports.maxTtlSeconds),
    target: {
      session_mode: mode,
      session_max_seconds: ports.sessionMaxSeconds,
      ...(sudo ? { sudo } : {}),
      ...(sudoUser === "" ? {} : { sudo_user: sudoUser }),
      ...(mode === "pty" ? { pty: true } : {}),
    },
  };
  const obtained = await obtainRoute(ports, { route, intent }, { signal, onProgress });
  if (obtained.kind === "needs_approval") throw approvalRequired(request.host, obtained.rule);
  if ((obtained.elevationPrefix !== "") !== sudo) {
    throw new AppError(
      "upstream_failure",
      sudo
        ? "upstream failure: signing service returned no elevation"
        : "upstream failure: signing service returned an elevation that nobody asked for",
    );
  }
  return obtained;
}

function readMode(text: string): SessionMode {
  const wanted = text === "" ? "exec" : text;
  const mode = SESSION_MODES.find((known) => known === wanted);
  if (mode !== undefined) return mode;
  throw new AppError("invalid_request", `invalid mode: ${quoteText(text)} (exec|shell|pty)`);
}

/** What every record of the session says; `host` is the address once the host is known. */
function describe(request: OpenRequest, mode: string, host?: HostInfo): Omit<AuditEntry, "outcome"> {
  return {
    caller: request.caller,
    host: host?.addr ?? request.host,
    host_name: request.host,
    ...(host === undefined ? {} : { user: host.user, addr: host.addr }),
    command: `mode=${mode}`,
    elevation: elevationLabel(request.sudo, request.sudoUser),
    pty: mode === "pty",
  };
}

/**
 * Connects an exec session again, because its host was sealed or unsealed, or its sessions get certificates again: the
 * session has none that fits. Nothing of such a session is kept on the host, so the caller need not know. The new
 * certificate is in the audit log before it is used.
 *
 * @throws {AppError} with a text that a caller may see; the session is what it was then
 */
export async function reopenSession(
  ports: OpenPorts,
  { session, asker, route }: { readonly session: Session; readonly asker: Asker; readonly route: Route },
  signal: AbortSignal,
): Promise<void> {
  const { link } = session;
  const renewing = session.renew(link, (ended) => connectAnew(ports, { session, asker, route }, ended));
  // It goes on for the other commands of the session when this one is canceled.
  await within({ clock: ports.clock, signal }, renewing);
}

async function connectAnew(
  ports: OpenPorts,
  { session: { info, entry }, asker, route: known }: {
    readonly session: Session;
    readonly asker: Asker;
    readonly route: Route;
  },
  signal: AbortSignal,
): Promise<Renewal> {
  const { host, mode, sudo, sudoUser } = info;
  const { route, hops, serial, bastionSerials, elevationPrefix, shim } = await obtainSession(ports, {
    request: { ...asker, host, mode, ttlSeconds: 0, sudo, sudoUser },
    mode,
    id: info.id,
    route: known,
  }, signal);
  checkRoute(route, info);
  const link = await ports.connect({ hops, mode, elevationPrefix, signal });
  try {
    const warning = `opened again: the host is ${shim === undefined ? "not sealed" : "sealed"} now`;
    await ports.events.require({ ...entry, serial, outcome: "session_open", warning });
  } catch (error) {
    await link.close();
    throw error;
  }
  return { link, serial, bastionSerials, elevationPrefix, shim };
}
