/**
 * The files that the clusters of a config name, read when it is loaded.
 *
 * ```ts ignore
 * import { loadClusterFiles } from "@gateway/shared/kubernetes/cluster_files";
 *
 * const cas = await loadClusterFiles(policy.clusters);
 * ```
 *
 * @module
 */
import { X509Certificate } from "node:crypto";
import { AppError } from "../errors.ts";
import { readNamedFile, readNamedText } from "../files.ts";
import type { CompiledCluster } from "../policy/clusters.ts";
import { quoteText } from "../quote.ts";

/**
 * The CAs of clusters by their names; that the credential for tokens can be read is checked, but it is not kept: it
 * is read anew for each token.
 *
 * @throws {AppError} `invalid_config` naming cluster, key and file
 */
export async function loadClusterFiles(
  clusters: ReadonlyMap<string, CompiledCluster>,
): Promise<ReadonlyMap<string, string>> {
  const entries = await Promise.all([...clusters.values()].map(async ({ name, caCert, tokenFile }) => {
    const keyOf = (key: string) => `kubernetes.clusters.${name}.${key}`;
    await readNamedFile(keyOf("token_file"), tokenFile);
    const pem = await readNamedText(keyOf("ca_cert"), caCert);
    try {
      new X509Certificate(pem);
    } catch (cause) {
      const message = `Cannot use ${keyOf("ca_cert")} ${quoteText(caCert)}: not a certificate in PEM`;
      throw new AppError("invalid_config", message, { cause });
    }
    return [name, pem] as const;
  }));
  return new Map(entries);
}
