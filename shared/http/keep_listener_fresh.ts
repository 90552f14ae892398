/**
 * What a listener with client certificates takes from files while it runs: its certificate, and the callers that are
 * denied. Each on its own, so that a renewal that failed half-way keeps no list of denied callers from counting, and a
 * list that is broken keeps no certificate from being renewed. Of each, what was sound last stays in force.
 *
 * ```ts ignore
 * import { keepListenerFresh } from "@gateway/shared/http/keep_listener_fresh";
 *
 * await keepListenerFresh({ clock, signal, logger, current: tls }, config, server);
 * ```
 *
 * @module
 */
import { keepFresh, type KeepFreshOptions } from "./keep_fresh.ts";
import type { MtlsServer } from "./mtls_server.ts";
import { type ListenerTls, loadDeniedCallers, loadListenerCredentials } from "./tls_material.ts";

/** Looks until the signal is aborted, as `keepFresh` does. */
export async function keepListenerFresh(
  { current: { denied, ...credentials }, ...options }: Omit<KeepFreshOptions<ListenerTls>, "what">,
  config: Parameters<typeof loadListenerCredentials>[0] & { readonly denied_callers: string },
  server: Pick<MtlsServer, "renew" | "deny">,
): Promise<void> {
  await Promise.all([
    keepFresh({ ...options, what: "the listener's certificates", current: credentials }, {
      load: () => loadListenerCredentials(config),
      take: (fresh) => server.renew(fresh),
    }),
    keepFresh({ ...options, what: "denied_callers", current: denied }, {
      load: () => loadDeniedCallers(config.denied_callers),
      take: (fresh) => server.deny(fresh),
    }),
  ]);
}
