/**
 * The TokenRequest API of Kubernetes: what is asked of an API server, and what is made of its answer.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { tokenPath } from "@gateway/shared/kubernetes";
 *
 * assert.equal(
 *   tokenPath({ namespace: "gateway", serviceAccount: "reader" }),
 *   "/api/v1/namespaces/gateway/serviceaccounts/reader/token",
 * );
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { AppError } from "../errors.ts";
import { parseJson } from "../json.ts";
import { type ApiAnswer, faultOf } from "./api_answer.ts";
import type { CompiledBinding, CompiledCluster } from "../policy/clusters.ts";

/** The Secret that a token ends with. */
export interface BoundSecret {
  readonly name: string;
  /** Another Secret of the name is not it. */
  readonly uid: string;
}

/** Where the tokens of an account are made. */
export function tokenPath({ namespace, serviceAccount }: TokenWish["account"]): string {
  return `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${
    encodeURIComponent(serviceAccount)
  }/token`;
}

/** The body of the request; without audiences, so that the token is for the API server itself. */
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
/** What goes into one line of a header, and nothing else. */
const TOKEN = /^[\x21-\x7e]{1,65536}$/;
const JTI = /^[\w.-]{1,128}$/;

/**
 * The token of an answer.
 *
 * @param doing for messages: `minting token for gateway/reader on "prod"`
 * @throws {AppError} `denied` where the API server refuses, `upstream_failure` where there is no token in its answer
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

/** The id of a JSON web token, which is not verified: it comes from whoever made it. */
function readId(token: string): string {
  try {
    const payload = Uint8Array.fromBase64(token.split(".")[1] ?? "", { alphabet: "base64url" });
    const { jti } = claimsSchema.parse(parseJson(new TextDecoder().decode(payload)));
    return JTI.test(jti) ? jti : "";
  } catch {
    // Older servers give tokens without one, and it only serves to join two logs.
    return "";
  }
}

/** What a token of a cluster is for. */
export interface TokenWish {
  readonly cluster: CompiledCluster;
  /** The cluster's CAs, PEM. */
  readonly ca: string;
  readonly account: Pick<CompiledBinding, "namespace" | "serviceAccount">;
  /** Whose freeze has to reach it. */
  readonly holder: TokenHolder;
  /** By which it can be frozen; absent: nobody is told of it. */
  readonly serial?: bigint;
  /** How long it may take, in milliseconds. */
  readonly waitMs: number;
}

/** Who gets a token. */
export interface TokenHolder {
  readonly caller: string;
  /** Empty: none. */
  readonly endUser: string;
  readonly peer: string;
}

/** A token of a cluster. */
export interface IssuedToken {
  readonly token: string;
  /** When it ends, RFC 3339. */
  readonly expiry: string;
  /** Its id in the API server's log; empty: it has none. */
  readonly jti: string;
}
