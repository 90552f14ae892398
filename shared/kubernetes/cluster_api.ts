// The API servers of the clusters of a config, with its credentials, and the TokenRequest API.
import * as z from "@zod/zod";
import { X509Certificate } from "node:crypto";
import type { Clock } from "../clock.ts";
import { AppError } from "../errors.ts";
import { readNamedFile, readNamedText } from "../files/files.ts";
import { parseJson } from "../json.ts";
import type { CompiledBinding, CompiledCluster } from "../policy/compile_cluster.ts";
import { quoteText } from "../text.ts";
import { type ApiAnswer, type ApiRequest, ApiServer, faultOf } from "./api_server.ts";

/** The API server of one cluster. */
export interface ClusterAddress {
  readonly cluster: Pick<CompiledCluster, "name" | "apiServer" | "tokenFile">;
  readonly ca: string;
}

/** A client of API servers. */
export interface ClusterApi {
  /** Sends a request with the given token, or with the credential of `token_file`, which is read again. */
  request(
    at: ClusterAddress,
    request: Omit<ApiRequest, "token"> & { readonly token?: string },
  ): Promise<ApiAnswer>;
  close(): void;
}

const CREDENTIAL = /^[\x21-\x7e]+$/;

/** Connects over the network. Connections are kept while a cluster's address and CAs stay the same. */
export function connectClusters(
  { clock, readText = readNamedText }: {
    readonly clock: Clock;
    /** Reads the file of a credential. */
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
    // The old server may be in use. Its connections close when they have been idle.
    const server = new ApiServer({ url, ca, clock });
    servers.set(name, { url, ca, server });
    return server;
  };
  const reading = new Map<string, Promise<string>>();
  /** Requests during one read of the file share its result. */
  const readCredential = ({ name, tokenFile }: ClusterAddress["cluster"]): Promise<string> => {
    const id = `${name} ${tokenFile}`;
    const key = `kubernetes.clusters.${name}.token_file`;
    const read = reading.get(id) ?? readText(key, tokenFile).then((text) => {
      const token = text.trim();
      if (CREDENTIAL.test(token)) return token;
      throw new AppError("invalid_config", `Cannot use ${key} ${quoteText(tokenFile)}: not a token`);
    }).finally(() => reading.delete(id));
    reading.set(id, read);
    return read;
  };
  return {
    async request(at, { token, ...request }) {
      let bearer = token;
      try {
        bearer ??= await readCredential(at.cluster);
      } catch (cause) {
        return { kind: "no_credential", cause };
      }
      return await serverOf(at).request({ ...request, token: bearer });
    },
    close() {
      for (const { server } of servers.values()) server.close();
    },
  };
}

/**
 * Reads the CAs of clusters, by name. Also checks that each credential is readable, without keeping it.
 *
 * @throws {AppError} `invalid_config` with cluster, key and file
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

/** The Secret that a token is bound to: deleting it invalidates the token. */
export interface BoundSecret {
  readonly name: string;
  /** Tells the Secret from another of the same name. */
  readonly uid: string;
}

/** The path that creates tokens of an account. */
export function tokenPath({ namespace, serviceAccount }: TokenWish["account"]): string {
  const [space, account] = [namespace, serviceAccount].map(encodeURIComponent);
  return `/api/v1/namespaces/${space}/serviceaccounts/${account}/token`;
}

/** The body of the request. Without audiences the token is for the API server itself. */
export function tokenRequest(seconds: number, bound?: BoundSecret): unknown {
  return {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    spec: {
      expirationSeconds: seconds,
      ...(bound !== undefined && {
        boundObjectRef: { apiVersion: "v1", kind: "Secret", name: bound.name, uid: bound.uid },
      }),
    },
  };
}

const answerSchema = z.object({
  status: z.object({ token: z.string(), expirationTimestamp: z.iso.datetime({ offset: true }) }),
});
const claimsSchema = z.object({ jti: z.string() });
/** One line of a header. */
const TOKEN = /^[\x21-\x7e]{1,65536}$/;
const JTI = /^[\w.-]{1,128}$/;

/**
 * Reads the token of an answer.
 *
 * @param doing for messages: `minting token for gateway/reader on "prod"`
 * @throws {AppError} `denied` if the API server refuses, `upstream_failure` without a token in the answer
 */
export function readToken(answer: ApiAnswer, doing: string): IssuedToken {
  if (answer.kind !== "answered" || answer.status < 200 || answer.status > 299) throw faultOf(answer, doing);
  let value: unknown;
  try {
    value = parseJson(answer.text);
  } catch (cause) {
    throw new AppError("upstream_failure", `${doing}: the API server's answer is not JSON`, { cause });
  }
  const parsed = answerSchema.safeParse(value);
  if (!parsed.success || !TOKEN.test(parsed.data.status.token)) {
    throw new AppError("upstream_failure", `${doing}: there is no token in the API server's answer`);
  }
  const { token, expirationTimestamp: expiry } = parsed.data.status;
  return { token, expiry, jti: readId(token) };
}

/** The unverified ID of a token. It only joins two logs, and older servers set none. */
function readId(token: string): string {
  try {
    const payload = Uint8Array.fromBase64(token.split(".")[1] ?? "", { alphabet: "base64url" });
    const { jti } = claimsSchema.parse(parseJson(new TextDecoder().decode(payload)));
    return JTI.test(jti) ? jti : "";
  } catch {
    return "";
  }
}

/** A request for a token of a cluster. */
export interface TokenWish {
  readonly cluster: CompiledCluster;
  /** The cluster's CAs, PEM. */
  readonly ca: string;
  readonly account: Pick<CompiledBinding, "namespace" | "serviceAccount">;
  /** A freeze of the holder has to reach the token. */
  readonly holder: TokenHolder;
  /** For a freeze by serial. */
  readonly serial?: bigint;
  readonly waitMs: number;
}

/** The holder of a token. */
export interface TokenHolder {
  readonly caller: string;
  /** Empty: none. */
  readonly endUser: string;
  readonly peer: string;
}

/** A token of a cluster. */
export interface IssuedToken {
  readonly token: string;
  /** RFC 3339. */
  readonly expiry: string;
  /** The ID in the API server's log; empty: none. */
  readonly jti: string;
}
