import type { AuditEntry, AuditGate } from "@gateway/shared/audit";
import type { Clock, Random } from "@gateway/shared/clock";
import type { Histogram, Metrics, ServiceLogger } from "@gateway/shared/service";
import type { ConfigFile } from "../config/config_file.ts";
import type { DecisionTurns } from "./decision_turns.ts";
import type { ApiPreviewer } from "../kubernetes/preview.ts";
import type { ApiTokenIssuer } from "../kubernetes/token_issuer.ts";
import type { TokenLeases } from "../live/token_leases.ts";
import type { InstanceGroup } from "@gateway/shared/instances";
import type { KnownSubjects } from "./known_subjects.ts";
import type { KrlReaders } from "../live/krl/readers.ts";
import type { PolicySource } from "../live/policy_source.ts";
import type { RevocationList } from "../live/krl/revocation_list.ts";
import type { LiveState } from "../live/live_state.ts";
import type { SignLimit } from "./sign_limit.ts";
import type { SignerState } from "../live/signer_state.ts";

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
  readonly tokens: ApiTokenIssuer;
  readonly leases: TokenLeases;
  readonly previewer: ApiPreviewer;
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
