import type { AuditEntry, AuditGate } from "@gateway/shared/audit";
import type { Clock } from "@gateway/shared/clock";
import type { Peer, RouteHandler } from "@gateway/shared/http";
import type { InstanceGroup } from "@gateway/shared/instances";
import type { Histogram, Metrics, ServiceLogger } from "@gateway/shared/service";
import type { ApprovalRegistry } from "../approvals/registry.ts";
import type { ControlPlaneConfig } from "../config/config.ts";
import type { Guardrails } from "../guardrails/guardrails.ts";
import type { Notifier } from "../notify/notifier.ts";
import type { SignerClient } from "./signer_client.ts";

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
  /** Aborted at the end of the process, to end all waits. */
  readonly stopping: AbortSignal;
  /** How long records wait to share a sync, in milliseconds; default 20. */
  readonly lateMs?: number;
}

export interface ControlPlanePorts extends ControlPlaneOptions {
  /** True on the listener whose peers have signed in with the company's account: each of them is an approver. */
  readonly hasSessions: boolean;
  readonly timings: { readonly sign: Histogram; readonly approval: Histogram };
  /**
   * Counts and appends a record that no action depends on. Never rejects; a failure is logged and counted.
   */
  readonly record: (entry: AuditEntry) => Promise<void>;
  /** Like `record`, a moment later and without waiting for the disk, for requests that the signer has recorded durably. */
  readonly recordSoon: (entry: AuditEntry) => Promise<void>;
  /**
   * Counts and appends a record before anything takes effect.
   *
   * @throws {AppError} `audit_unavailable` in fail mode closed
   */
  readonly require: (entry: AuditEntry) => Promise<void>;
}

export type Handler<Param extends string = never> = RouteHandler<
  ControlPlanePorts,
  { readonly peer: Peer },
  Param
>;
