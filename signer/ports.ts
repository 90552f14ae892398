import type { AuditEntry, AuditGate } from "@gateway/shared/audit";
import type { Clock, Random } from "@gateway/shared/clock";
import type { Histogram, Metrics, ServiceLogger } from "@gateway/shared/service";
import type { ClusterAction, CompiledCluster } from "@gateway/shared/policy";
import type { FreezeSubject, K8sDiff } from "@gateway/shared/wire";
import type { ConfigFile } from "./config_file.ts";
import type { DecisionTurns } from "./decision_turns.ts";
import type { IssuedToken, TokenWish } from "@gateway/shared/kubernetes";
import type { InstanceGroup } from "@gateway/shared/instances";
import type { KnownSubjects } from "./known_subjects.ts";
import type { KrlReaders } from "./krl/readers.ts";
import type { PolicySource } from "./policy_source.ts";
import type { RevocationList } from "./krl/revocation_list.ts";
import type { LiveState } from "./live_state.ts";
import type { SignLimit } from "./sign_limit.ts";
import type { SignerState } from "./state.ts";

export interface TokenIssuer {
  /** @throws {AppError} `denied` where the API server refuses, `upstream_failure` where it can't be had */
  issue(wish: TokenWish): Promise<IssuedToken>;
}

/** What an apply is, and with whose rights it is looked at. */
export interface PreviewWish {
  readonly cluster: CompiledCluster;
  /** The cluster's CAs, PEM. */
  readonly ca: string;
  readonly action: ClusterAction;
  readonly manifest: string;
  /** A token of the ServiceAccount that the apply would be done as. */
  readonly token: string;
  /** The fields that the apply may take over from other managers. */
  readonly forceFields: readonly string[];
}

/** Finds out what an apply would change. */
export interface Previewer {
  /** Never rejects for what an API server answers: it is `unknown` then. */
  preview(wish: PreviewWish): Promise<K8sDiff>;
}

interface TokenRevoker {
  /**
   * Resolves when it is certain that the subject's tokens will be revoked. Never rejects.
   *
   * @returns how many tokens
   */
  revoke(subject: FreezeSubject): Promise<number>;
}

/** What the signer's routes are given from outside. */
export interface SignerOptions {
  readonly state: SignerState;
  readonly live: LiveState;
  /** The signers that share the state. */
  readonly instances: InstanceGroup;
  readonly configFile: ConfigFile;
  readonly policySource: PolicySource;
  readonly gate: AuditGate;
  /** The certificates that are valid, and the list of those that are revoked. */
  readonly krl: RevocationList;
  readonly krlReaders: KrlReaders;
  readonly signLimit: SignLimit;
  readonly turns: DecisionTurns;
  readonly tokens: TokenIssuer;
  readonly leases: TokenRevoker;
  readonly previewer: Previewer;
  readonly knownSubjects: KnownSubjects;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: ServiceLogger;
}

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
