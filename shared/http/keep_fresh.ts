/**
 * Certificates and keys that are replaced while a service runs: what lies in the files is taken when it has changed
 * and is sound. What is not sound, such as a certificate whose key is still the former one, changes nothing.
 *
 * ```ts ignore
 * import { keepFresh } from "@gateway/shared/http";
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
import type { ServiceLogger } from "../service/log.ts";
import type { MtlsServer } from "./mtls_server.ts";
import { type ListenerTls, loadDeniedCallers, loadListenerCredentials, readPemFile } from "./tls_material.ts";
import { X509Certificate } from "node:crypto";
import type { LabelledValue, Metrics } from "../service/metrics.ts";

/** How often is looked, in seconds. */
export const FRESH_SECONDS = 10;

interface KeepFreshOptions<T> {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Told of what is taken, and of what is not. */
  readonly logger: Pick<ServiceLogger, "info" | "warn">;
  readonly what: string;
  /** What is in force at the beginning. */
  readonly current: T;
}

/** Where fresh material comes from and goes to; what either throws leaves in force what was. */
interface FreshMaterial<T> {
  /** Reads and checks what lies in the files. */
  readonly load: () => Promise<T>;
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

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * Adds the time of expiry of the certificates in these files, by the config key that names them; of a file with several,
 * such as a list of CAs, the first that expires. An empty path is no file.
 *
 * @returns reads the files again; of one that can't be read the time stays
 * @throws {AppError} `invalid_config` for a file that can't be read, or is no PEM file
 */
export async function addCertificateMetrics(
  metrics: Metrics,
  files: Readonly<Record<string, string>>,
): Promise<() => Promise<void>> {
  const ends = new Map<string, number>();
  const named = Object.entries(files).filter(([, path]) => path !== "");
  const read = async ([certificate, path]: readonly [string, string]) => {
    const found = (await readPemFile(certificate, path)).match(CERTIFICATE) ?? [];
    const times = found.map((pem) => Date.parse(new X509Certificate(pem).validTo) / 1000);
    if (times.length > 0) ends.set(certificate, Math.min(...times));
  };
  await Promise.all(named.map(read));
  metrics.gauges(
    "certificate_expiry_timestamp_seconds",
    "When the first certificate of a file expires, since the epoch",
    ["certificate"],
    () =>
      named.flatMap(([certificate]): LabelledValue[] => {
        const value = ends.get(certificate);
        return value === undefined ? [] : [{ labels: { certificate }, value }];
      }),
  );
  return async () => void await Promise.allSettled(named.map(read));
}
