import type { CompiledBinding, CompiledCluster } from "@gateway/shared/policy/clusters";

/** What a token of a cluster is for. */
export interface TokenWish {
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
