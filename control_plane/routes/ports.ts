import type { AuditEntry, AuditGate } from "@gateway/shared/audit";
import type { Clock } from "@gateway/shared/clock";
import type { InstanceGroup } from "@gateway/shared/instances";
import type { Histogram, Metrics, ServiceLogger } from "@gateway/shared/service";
import type { ApprovalRegistry } from "../approvals/registry.ts";
import type { Guardrails } from "../guardrails/guardrails.ts";
import type { ControlPlaneConfig } from "../config/config.ts";
import type { Notifier } from "../notify/notifier.ts";
import type { SignerClient } from "./signer_client.ts";

/** What the control plane's routes are given from outside. */
export interface ControlPlaneOptions {
  readonly config: ControlPlaneConfig;
  readonly registry: ApprovalRegistry;
  /** The control planes that share the approvals. */
  readonly instances: InstanceGroup;
  readonly guardrails: Guardrails;
  readonly notifier: Notifier;
  readonly signer: SignerClient;
  readonly gate: AuditGate;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  /** Aborted when the process is to end: nobody waits any longer then. */
  readonly stopping: AbortSignal;
  /** How long records that nobody waits for are gathered, in milliseconds; default 20. */
  readonly lateMs?: number;
}

export interface ControlPlanePorts extends ControlPlaneOptions {
  /** How long it takes to answer a sign request, and until a human has decided on one. */
  readonly timings: { readonly sign: Histogram; readonly approval: Histogram };
  /** Counts and appends a record that nothing hangs on. Never rejects; a failure is logged and counted. */
  readonly record: (entry: AuditEntry) => Promise<void>;
  /**
   * Likewise, in the same order, a moment later and without waiting for the disk unless very many do: for what the
   * signer has recorded durably itself.
   */
  readonly recordSoon: (entry: AuditEntry) => Promise<void>;
  /**
   * Counts and appends a record that must be written before anything takes effect.
   *
   * @throws {AppError} `audit_unavailable` in fail mode closed
   */
  readonly require: (entry: AuditEntry) => Promise<void>;
}
