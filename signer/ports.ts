import type { AuditEntry } from "@gateway/shared/audit/entry";
import type { AuditGate } from "@gateway/shared/audit/gate";
import type { Clock } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/log";
import type { Histogram, Metrics } from "@gateway/shared/metrics";
import type { CompiledBinding, CompiledCluster } from "@gateway/shared/policy/clusters";
import type { Random } from "@gateway/shared/random";
import type { ConfigFile } from "./config_file.ts";
import type { KnownSubjects } from "./known_subjects.ts";
import type { KrlReaders } from "./krl/readers.ts";
import type { RevocationList } from "./krl/revocation_list.ts";
import type { LiveState } from "./live_state.ts";
import type { SignLimit } from "./sign_limit.ts";
import type { SignerState } from "./state.ts";

/** What a token of a cluster is for. */
export interface TokenWish {
  readonly cluster: CompiledCluster;
  /** The cluster's CAs, PEM. */
  readonly ca: string;
  /** The ServiceAccount. */
  readonly account: Pick<CompiledBinding, "namespace" | "serviceAccount">;
  /** Whose freeze has to reach it. */
  readonly holder: TokenHolder;
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

/** Makes tokens of clusters' ServiceAccounts. */
export interface TokenIssuer {
  /** @throws {AppError} `denied` where the API server refuses, `upstream_failure` where it can't be had */
  issue(wish: TokenWish): Promise<IssuedToken>;
}

/** What the signer's routes are given from outside. */
export interface SignerOptions {
  readonly state: SignerState;
  readonly live: LiveState;
  readonly configFile: ConfigFile;
  readonly gate: AuditGate;
  /** The certificates that are valid, and the list of those that are revoked. */
  readonly krl: RevocationList;
  readonly krlReaders: KrlReaders;
  readonly signLimit: SignLimit;
  readonly tokens: TokenIssuer;
  readonly knownSubjects: KnownSubjects;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: ServiceLogger;
}

/** What the handlers work with. */
export interface SignerPorts extends SignerOptions {
  /** How long it takes to answer a sign request, and of that to decide. */
  readonly timings: { readonly sign: Histogram; readonly decision: Histogram };
  /** Counts a sign request by its outcome. */
  readonly countOutcome: (outcome: string) => void;
  /**
   * Makes the record of a sign request durable, then counts it, under another label where there is one.
   *
   * @throws {AppError} `audit_unavailable` in fail mode closed: the result must be withheld
   */
  readonly recordOutcome: (entry: AuditEntry, label?: string) => Promise<void>;
}
