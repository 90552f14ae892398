/**
 * When the certificates of a service expire, as its files have them.
 *
 * ```ts ignore
 * import { addCertificateMetrics } from "./certificate_metrics.ts";
 *
 * const readAgain = await addCertificateMetrics(metrics, { server_cert: config.server_cert, client_ca: config.client_ca });
 * ```
 *
 * @module
 */
import { X509Certificate } from "node:crypto";
import type { LabelledValue, Metrics } from "../metrics.ts";
import { readPemFile } from "./pem_file.ts";

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
