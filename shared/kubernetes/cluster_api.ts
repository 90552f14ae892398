/**
 * The API servers of the clusters of a config, with the credentials that it names.
 *
 * ```ts ignore
 * import { connectClusters } from "@gateway/shared/kubernetes";
 *
 * const api = connectClusters({ clock });
 * const answer = await api.request({ cluster, ca }, { method: "GET", path: "/version", timeoutMs: 5000, maxBytes: 65_536 });
 * ```
 *
 * @module
 */
import { readNamedFile, readNamedText } from "../files/files.ts";
import type { Clock } from "../clock.ts";
import { AppError } from "../errors.ts";
import { type ApiRequest, ApiServer } from "./api_server.ts";
import type { CompiledCluster } from "../policy/clusters.ts";
import { quoteText } from "../text.ts";
import type { ApiAnswer } from "./api_answer.ts";
import { X509Certificate } from "node:crypto";

/** The API server of one cluster, as a config describes it. */
export interface ClusterAddress {
  /** Where it is, and the file with the credential. */
  readonly cluster: Pick<CompiledCluster, "name" | "apiServer" | "tokenFile">;
  /** PEM. */
  readonly ca: string;
}

/** Asks API servers of clusters. */
export interface ClusterApi {
  /** Sends a request with the credential of `token_file`, read anew, or with a token that was made. */
  request(
    at: ClusterAddress,
    request: Omit<ApiRequest, "token"> & { readonly token?: string },
  ): Promise<ApiAnswer>;
  close(): void;
}

/** A visible token, in one line: what else is in the file would become a header. */
const CREDENTIAL = /^[\x21-\x7e]+$/;

/** API servers over the network; connections are kept for as long as a cluster's address and CAs are the same. */
export function connectClusters(
  { clock, readText = readNamedText }: {
    readonly clock: Clock;
    /** Reads the file of a credential; the disk's by default. */
    readonly readText?: typeof readNamedText;
  },
): ClusterApi {
  const servers = new Map<
    string,
    { readonly url: string; readonly ca: string; readonly server: ApiServer }
  >();
  const serverOf = ({ cluster: { name, apiServer: url }, ca }: ClusterAddress): ApiServer => {
    const kept = servers.get(name);
    if (kept?.url === url && kept.ca === ca) return kept.server;
    // The old one may be in use: its connections close when they have been idle.
    const server = new ApiServer({ url, ca, clock });
    servers.set(name, { url, ca, server });
    return server;
  };
  const reading = new Map<string, Promise<string>>();
  /** Requests that come while the file is being read take what is found in it. */
  const readCredential = (cluster: ClusterAddress["cluster"]): Promise<string> => {
    const key = `${cluster.name} ${cluster.tokenFile}`;
    const underWay = reading.get(key);
    if (underWay !== undefined) return underWay;
    const read = readToken(cluster, readText).finally(() => reading.delete(key));
    reading.set(key, read);
    return read;
  };
  return {
    async request(at, { token, ...request }) {
      let bearer = token;
      if (bearer === undefined) {
        try {
          bearer = await readCredential(at.cluster);
        } catch (cause) {
          return { kind: "no_credential", cause };
        }
      }
      return await serverOf(at).request({ ...request, token: bearer });
    },
    close() {
      for (const { server } of servers.values()) server.close();
    },
  };
}

/** @throws {AppError} `invalid_config` naming cluster, key and file */
async function readToken(
  { name, tokenFile }: Pick<CompiledCluster, "name" | "tokenFile">,
  readText: typeof readNamedText,
): Promise<string> {
  const key = `kubernetes.clusters.${name}.token_file`;
  const token = (await readText(key, tokenFile)).trim();
  if (!CREDENTIAL.test(token)) {
    throw new AppError("invalid_config", `Cannot use ${key} ${quoteText(tokenFile)}: not a token`);
  }
  return token;
}

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
