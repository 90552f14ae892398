/**
 * What a token of a cluster is made for, and what is made.
 *
 * ```ts
 * import type { IssuedToken } from "@gateway/shared/kubernetes/token_wish";
 *
 * const issued: IssuedToken = { token: "secret", expiry: "2026-01-02T03:04:05Z", jti: "" };
 * ```
 *
 * @module
 */
import type { CompiledBinding, CompiledCluster } from "../policy/clusters.ts";

/** What a token of a cluster is for. */
export interface TokenWish {
  /** As its policy says. */
  readonly cluster: CompiledCluster;
  /** The cluster's CAs, PEM. */
  readonly ca: string;
  /** The ServiceAccount. */
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
  /** The effective caller. */
  readonly caller: string;
  /** Empty: none. */
  readonly endUser: string;
  /** The CN of the connection. */
  readonly peer: string;
}

/** A token of a cluster. */
export interface IssuedToken {
  /** A secret. */
  readonly token: string;
  /** When it ends, RFC 3339. */
  readonly expiry: string;
  /** Its id in the API server's log; empty: it has none. */
  readonly jti: string;
}
