import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/quote";
import { within } from "@gateway/shared/within";
import { type Route, routeSignature } from "../route.ts";
import { obtainSession, type OpenPorts } from "./open.ts";
import type { Asker, Renewal, Session } from "./session.ts";

/**
 * Connects an exec session anew, because its host has been sealed, or is not any more: its certificate is locked to
 * the wrong thing. Nothing of such a session is kept on the host, so the caller need not know. The new certificate is
 * in the audit log before it is used.
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
    route: known,
  }, signal);
  if (routeSignature(route) !== info.routeSignature) {
    const text = `session host connectivity changed for ${quoteText(host)}`;
    throw new AppError("denied", `${text}; close this session and open a new one`);
  }
  const link = await ports.connect({ hops, mode, elevationPrefix, signal });
  try {
    const warning = `opened anew: the host is ${shim === undefined ? "not sealed any more" : "sealed now"}`;
    await ports.events.require({ ...entry, serial, outcome: "session_open", warning });
  } catch (error) {
    await link.close();
    throw error;
  }
  return { link, serial, bastionSerials, elevationPrefix, shim };
}
