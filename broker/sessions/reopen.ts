import { within } from "@gateway/shared/clock";
import type { Route } from "../request/route.ts";
import { obtainSession, type OpenPorts } from "./open.ts";
import { checkRoute } from "./preflight.ts";
import type { Asker, Renewal, Session } from "./session.ts";

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
