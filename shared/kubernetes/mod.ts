/**
 * Kubernetes API: requests, tokens, clusters, masking of Secrets.
 *
 * @module
 */

import * as z from "@zod/zod";
import { type Clock, within } from "../clock.ts";
import { AppError, configError } from "../errors.ts";
import { AnswerTooLarge, ClientConnections } from "../http/client.ts";
import { checkCaCertificates } from "../http/tls_files.ts";
import { parseJson, stringifyJson } from "../json.ts";
import { quoteText, shortenText, visibleText } from "../text.ts";
import { X509Certificate } from "node:crypto";
import { readNamedFile, readNamedText } from "../files/mod.ts";
import type { CompiledBinding, CompiledCluster } from "../policy/compile_cluster.ts";

export { maskObject, maskText } from "./secrets.ts";

// Requests to the API server of one cluster: with a bearer token, over TLS that trusts only the cluster's own
// CAs, bounded in time and size, without redirects and retries. Failures are described without addresses.

/** One request. */
export interface ApiRequest {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Encoded, with its leading slash and its query. */
  readonly path: string;
  /** The bearer token: a secret, for this request alone. */
  readonly token: string;
  readonly body?: { readonly type: string; readonly bytes: Uint8Array };
  /** By default `application/json`. */
  readonly accept?: string;
  /** The time limit for the whole exchange. */
  readonly timeoutMs: number;
  /** The longest accepted answer, in bytes. */
  readonly maxBytes: number;
  /** Ends the exchange, and closes its connection. */
  readonly signal?: AbortSignal | undefined;
}

/** The outcome of a request, without any address. */
export type ApiOutcome =
  | {
    readonly kind: "answered";
    readonly status: number;
    /** By lowercase name. */
    readonly headers: Readonly<Record<string, string>>;
    /** Invalid UTF-8 becomes U+FFFD, and the token of the request `[token]`. */
    readonly text: string;
  }
  | { readonly kind: "too_large" | "timed_out" | "canceled" }
  /** `untrusted`: a certificate of another CA or address. `unreachable`: no connection, or no whole answer. */
  | { readonly kind: "untrusted" | "unreachable"; readonly cause: unknown };

/** One line of visible characters. Anything else would become a header. */
const CREDENTIAL = /^[\x21-\x7e]+$/;

/**
 * The shortest token to mask. A shorter one is not a secret worth masking, and may be an ordinary word of the
 * answer.
 */
const MIN_TOKEN_LENGTH = 16;

const TIMED_OUT = new Error("timed out");
const CANCELED = new Error("canceled");

const decoder = new TextDecoder();

/** The connections to one API server, over TLS 1.2 at least: some balancers support no newer version. */
export class ApiServer implements Disposable {
  readonly #clock: Clock;
  readonly #connections: ClientConnections;

  /**
   * Connects with the first request.
   *
   * @throws {AppError} `invalid_config` if the URL is not `https:`, or a CA cannot be used
   */
  constructor({ url, ca, clock, maxConnections = 16 }: {
    /** `https://host:port`, optionally with a path prefix. */
    readonly url: string;
    /** The cluster's CAs, PEM. */
    readonly ca: string;
    readonly clock: Clock;
    readonly maxConnections?: number;
  }) {
    const parsed = URL.parse(url);
    if (parsed?.protocol !== "https:" || parsed.hostname === "") {
      throw configError("Cannot use the API server's URL: expected https://…");
    }
    checkCaCertificates(ca);
    this.#clock = clock;
    this.#connections = new ClientConnections({ url: parsed, ca, minVersion: "TLSv1.2", maxConnections });
  }

  /** Sends a request and reads the whole answer. Error statuses and redirects are answers, too. */
  async request(request: ApiRequest): Promise<ApiOutcome> {
    const { method, path, token, body, accept = "application/json", signal, timeoutMs: ms, maxBytes } =
      request;
    if (!CREDENTIAL.test(token)) throw new TypeError("not a bearer token");
    const headers = {
      accept,
      authorization: `Bearer ${token}`,
      ...(body !== undefined && { "content-type": body.type }),
    };
    const sent = { method, path, headers, maxBytes, ...(body !== undefined && { body: body.bytes }) };
    const bound = { clock: this.#clock, ms, signal, late: () => TIMED_OUT, aborted: () => CANCELED };
    try {
      const answer = await within(bound, (ended) => this.#connections.send(sent, ended).answer);
      const text = decoder.decode(answer.body);
      return {
        ...{ kind: "answered", status: answer.status, headers: answer.headers },
        // Mask the token, because a balancer may repeat the request in its answer, and answers reach agents,
        // errors and logs.
        text: token.length < MIN_TOKEN_LENGTH ? text : text.replaceAll(token, "[token]"),
      };
    } catch (cause) {
      if (cause instanceof TypeError) throw cause;
      if (cause === TIMED_OUT) return { kind: "timed_out" };
      if (cause === CANCELED) return { kind: "canceled" };
      if (cause instanceof AnswerTooLarge) return { kind: "too_large" };
      const isAboutCertificate = cause instanceof Error && /certificate/i.test(cause.message);
      return { kind: isAboutCertificate ? "untrusted" : "unreachable", cause };
    }
  }

  /** Closes all connections. Pending requests fail. */
  close(): void {
    this.#connections.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** The outcome of a request with a credential from a file. */
export type ApiAnswer =
  | ApiOutcome
  /** The file is unreadable or holds no token. The cause names the file. Show it only to the operator. */
  | { readonly kind: "no_credential"; readonly cause: unknown };

const status = z.object({ kind: z.literal("Status"), message: z.string() });

const fieldConflicts = z.object({
  details: z.object({
    causes: z.array(z.object({ reason: z.literal("FieldManagerConflict"), field: z.string() })),
  }),
});

const MAX_MESSAGE_LENGTH = 400;
const ADDRESS =
  /\bhttps?:\/\/[^\s"']+|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\[[0-9a-f.]*:[0-9a-f:.]*\](?::\d+)?/gi;

const PROBLEMS = {
  no_credential: "the signer cannot read its token_file",
  timed_out: "the API server did not answer in time",
  too_large: "the API server's answer is too large",
  unreachable: "could not reach the API server",
  untrusted: "the API server's certificate does not come from ca_cert",
  canceled: "canceled",
} as const;

/** Describes a failure for the caller and the audit log. `doing` is the text before the colon. */
export function faultOf(answer: ApiAnswer, doing: string): AppError {
  if (answer.kind !== "answered") {
    const cause = "cause" in answer ? answer.cause : undefined;
    const code = answer.kind === "canceled" ? "canceled" : "upstream_failure";
    return new AppError(code, `${doing}: ${PROBLEMS[answer.kind]}`, { cause });
  }
  const { status, text } = answer;
  if (status === 401) {
    return new AppError("denied", `${doing}: the API server rejects the credential in token_file; renew it`);
  }
  const message = readMessage(text);
  // 408 and 429 are temporary, and not rejections of the request.
  const isRefusal = status >= 400 && status < 500 && status !== 408 && status !== 429;
  return new AppError(
    isRefusal ? "denied" : "upstream_failure",
    `${doing}: ${status}${message === "" ? "" : ` ${message}`}`,
  );
}

/** The fields of other managers that an apply would change, such as `.spec.replicas`; empty for other answers. */
export function readConflicts(text: string): readonly string[] {
  try {
    return fieldConflicts.parse(parseJson(text)).details.causes.map(({ field }) => field);
  } catch {
    return [];
  }
}

/** The message of an API server in a failure; empty if it is unreadable, such as the page of a balancer. */
export function readMessage(text: string): string {
  try {
    const { message } = status.parse(parseJson(text));
    return shortenText(visibleText(message.replace(ADDRESS, "[address]")), MAX_MESSAGE_LENGTH);
  } catch {
    return "";
  }
}

// The API servers of the clusters of a config, with its credentials, and the TokenRequest API.

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
    // Requests may still use the old server. Its connections close when they have been idle.
    const server = new ApiServer({ url, ca, clock });
    servers.set(name, { url, ca, server });
    return server;
  };
  const reading = new Map<string, Promise<string>>();
  /** Reads the credential. Requests during a read of the file share its result. */
  const readCredential = ({ name, tokenFile }: ClusterAddress["cluster"]): Promise<string> => {
    const id = `${name} ${tokenFile}`;
    const key = `kubernetes.clusters.${name}.token_file`;
    const read = reading.get(id) ?? readText(key, tokenFile).then((text) => {
      const token = text.trim();
      if (CREDENTIAL.test(token)) return token;
      throw configError(`Cannot use ${key} ${quoteText(tokenFile)}: not a token`);
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
      throw configError(message, cause);
    }
    return [name, pem] as const;
  }));
  return new Map(entries);
}

/** The Secret that a token is bound to: deleting it invalidates the token. */
export interface BoundSecret {
  readonly name: string;
  /** Distinguishes the Secret from a later one with the same name. */
  readonly uid: string;
}

/** The path of the request that creates tokens for an account. */
export function tokenPath({ namespace, serviceAccount }: TokenSpec["account"]): string {
  const [space, account] = [namespace, serviceAccount].map(encodeURIComponent);
  return `/api/v1/namespaces/${space}/serviceaccounts/${account}/token`;
}

/** A value as the body of a request. */
export function jsonBody(value: unknown): NonNullable<ApiRequest["body"]> {
  return { type: "application/json", bytes: new TextEncoder().encode(stringifyJson(value)) };
}

/** The body of the request. Without audiences the token is for the API server itself. */
export function tokenRequest(seconds: number, bound?: BoundSecret): NonNullable<ApiRequest["body"]> {
  return jsonBody({
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    spec: {
      expirationSeconds: seconds,
      ...(bound !== undefined && {
        boundObjectRef: { apiVersion: "v1", kind: "Secret", name: bound.name, uid: bound.uid },
      }),
    },
  });
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
export interface TokenSpec {
  readonly cluster: CompiledCluster;
  /** The cluster's CAs, PEM. */
  readonly ca: string;
  readonly account: Pick<CompiledBinding, "namespace" | "serviceAccount">;
  /** The holder of the token, so that a freeze of the holder also revokes the token. */
  readonly holder: TokenHolder;
  /** The serial of the token, for a freeze by serial. */
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
