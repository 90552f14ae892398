/**
 * When the certificates of a service expire. They are read at its start, and a new one in the same file counts with the
 * next start alone: so it is here.
 *
 * ```ts ignore
 * import { addCertificateMetrics } from "./certificate_metrics.ts";
 *
 * await addCertificateMetrics(metrics, { server_cert: config.server_cert, client_ca: config.client_ca });
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
 * @throws {AppError} `invalid_config` for a file that can't be read, or is no PEM file
 */
export async function addCertificateMetrics(
  metrics: Metrics,
  files: Readonly<Record<string, string>>,
): Promise<void> {
  const values: LabelledValue[] = [];
  for (const [certificate, path] of Object.entries(files)) {
    if (path === "") continue;
    const found = (await readPemFile(certificate, path)).match(CERTIFICATE) ?? [];
    const ends = found.map((pem) => Date.parse(new X509Certificate(pem).validTo) / 1000);
    if (ends.length > 0) values.push({ labels: { certificate }, value: Math.min(...ends) });
  }
  metrics.gauges(
    "certificate_expiry_timestamp_seconds",
    "When the first certificate of a file expires, since the epoch",
    ["certificate"],
    () => values,
  );
}
