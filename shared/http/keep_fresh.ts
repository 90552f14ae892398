/**
 * Certificates and keys that are replaced while a service runs: what lies in the files is taken when it has changed
 * and is sound. What is not sound, such as a certificate whose key is still the former one, changes nothing.
 *
 * ```ts ignore
 * import { keepFresh } from "@gateway/shared/http/keep_fresh";
 *
 * await keepFresh({ clock, signal, logger, what: "the listener's certificate", current: tls }, {
 *   load: () => loadListenerTls(config),
 *   take: (tls) => server.renew(tls),
 * });
 * ```
 *
 * @module
 */
import { type Clock, every } from "../clock.ts";
import { errorText } from "../errors.ts";
import type { ServiceLogger } from "../log.ts";

/** How often is looked, in seconds. */
export const FRESH_SECONDS = 10;

/** What is kept fresh. */
export interface KeepFreshOptions<T> {
  /** Measures the pauses. */
  readonly clock: Clock;
  /** Ends it. */
  readonly signal: AbortSignal;
  /** Told of what is taken, and of what is not. */
  readonly logger: Pick<ServiceLogger, "info" | "warn">;
  /** For the log. */
  readonly what: string;
  /** What is in force at the beginning. */
  readonly current: T;
}

/** Where fresh material comes from and goes to; what either throws leaves in force what was. */
export interface FreshMaterial<T> {
  /** Reads and checks what lies in the files. */
  readonly load: () => Promise<T>;
  /** Puts it into force. */
  readonly take: (material: T) => void;
}

/** Looks every {@linkcode FRESH_SECONDS}, until the signal is aborted. A failure is logged once, not at each look. */
export async function keepFresh<T>(
  { clock, signal, logger, what, current }: KeepFreshOptions<T>,
  { load, take }: FreshMaterial<T>,
): Promise<void> {
  let inForce = fingerprint(current);
  let lastFailure = "";
  await every({ clock, seconds: FRESH_SECONDS, signal }, async () => {
    try {
      const material = await load();
      const found = fingerprint(material);
      if (found !== inForce) take(material);
      lastFailure = "";
      if (found === inForce) return;
      inForce = found;
      logger.info(`${what}: what lies in its files now is in force`);
    } catch (error) {
      const failure = errorText(error);
      if (failure !== lastFailure) logger.warn(`${what}: its files are not taken`, { error });
      lastFailure = failure;
    }
  });
}

/** In memory only, as the material itself. */
function fingerprint(material: unknown): string {
  return JSON.stringify(material, (_key, value: unknown) => value instanceof Set ? [...value] : value);
}
