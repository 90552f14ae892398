import { Hono } from "@hono/hono";
import type { AuditEntry } from "@gateway/shared/audit/entry";
import type { AuditGate } from "@gateway/shared/audit/gate";
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import type { Peer, PeerHandler } from "@gateway/shared/http/mtls_server";
import { problemResponse } from "@gateway/shared/http/problem";
import type { ServiceLogger } from "@gateway/shared/log";
import type { Metrics } from "@gateway/shared/metrics";
import type { ApprovalRegistry } from "./approval/registry.ts";
import type { Guardrails } from "./behavior/guardrails.ts";
import type { ControlPlaneConfig } from "./config.ts";
import { handleDecide, handleListApprovals } from "./handlers/approvals.ts";
import { handleClusters, handleHosts } from "./handlers/hosts.ts";
import { handleResult } from "./handlers/result.ts";
import { handleRevocations } from "./handlers/revocations.ts";
import { handleSign } from "./handlers/sign.ts";
import { handleUiDecide, handleUiDetail, handleUiList } from "./handlers/ui.ts";
import { LateRecords } from "./late_records.ts";
import type { Notifier } from "./notify/notifier.ts";
import type { SignerClient } from "./signer_client.ts";

/** What the control plane's routes are given from outside. */
export interface ControlPlaneOptions {
  readonly config: ControlPlaneConfig;
  readonly registry: ApprovalRegistry;
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

/** What the handlers work with. */
export interface ControlPlanePorts extends ControlPlaneOptions {
  /** Counts and appends a record that nothing hangs on. Never rejects; a failure is logged and counted. */
  readonly record: (entry: AuditEntry) => Promise<void>;
  /**
   * Likewise, in the same order, a moment later and without waiting for the disk unless very many do: for what the
   * signer has recorded durably itself.
   */
  readonly recordSoon: (entry: AuditEntry) => Promise<void>;
  /**
   * Counts and appends a record without which there may be no effect.
   *
   * @throws {AppError} `audit_unavailable` in fail mode closed
   */
  readonly require: (entry: AuditEntry) => Promise<void>;
}

/** The methods of each route, for whoever uses another one. */
const METHODS = [
  ["/v1/sign", "POST"],
  ["/v1/sign/result/:id", "GET"],
  ["/v1/hosts", "GET"],
  ["/v1/clusters", "GET"],
  ["/v1/revocations", "GET"],
  ["/v1/approvals", "GET"],
  ["/v1/approvals/:id", "POST"],
  ["/ui/approvals", "GET"],
  ["/ui/approvals/:id", "GET", "POST"],
] as const;

interface Env {
  Bindings: { readonly peer: Peer };
}

/** The control plane's routes behind the mTLS listener. */
export function createControlPlaneApp(options: ControlPlaneOptions): PeerHandler {
  const ports = createPorts(options);
  const app = new Hono<Env>();
  app.post("/v1/sign", (c) => handleSign(ports, c.req.raw, c.env.peer));
  app.get("/v1/sign/result/:id", (c) => handleResult(ports, c.req.raw, c.env.peer, c.req.param("id")));
  app.get("/v1/hosts", (c) => handleHosts(ports, c.env.peer));
  app.get("/v1/clusters", (c) => handleClusters(ports, c.env.peer));
  app.get("/v1/revocations", (c) => handleRevocations(ports, c.env.peer));
  app.get("/v1/approvals", (c) => handleListApprovals(ports, c.env.peer));
  app.post("/v1/approvals/:id", (c) => handleDecide(ports, c.req.raw, c.env.peer, c.req.param("id")));
  app.get("/ui/approvals", (c) => handleUiList(ports, c.req.raw, c.env.peer));
  app.get("/ui/approvals/:id", (c) => handleUiDetail(ports, c.req.raw, c.env.peer, c.req.param("id")));
  app.post("/ui/approvals/:id", (c) => handleUiDecide(ports, c.req.raw, c.env.peer, c.req.param("id")));
  for (const [path, ...allow] of METHODS) {
    app.all(path, () => problemResponse(new AppError("method_not_allowed", "method not allowed"), { allow }));
  }
  app.notFound(() => problemResponse(new AppError("not_found", "no such route")));
  app.onError((error) => {
    throw error;
  });
  return (request, peer) => app.fetch(request, { peer });
}

/** As long as a record that nobody waits for can be missing after kill -9. */
const LATE_MS = 20;

function createPorts(options: ControlPlaneOptions): ControlPlanePorts {
  const { gate, metrics, registry } = options;
  const events = metrics.counter("controlplane_events_total", "Audit events by outcome", ["outcome"]);
  metrics.gauge(
    "controlplane_approvals_pending",
    "Approvals that nobody has decided",
    () => registry.pendingCount(),
  );
  const count = ({ outcome }: AuditEntry) => events.inc({ outcome });
  const late = new LateRecords({
    append: (entry) => gate.bestEffort(entry),
    clock: options.clock,
    delayMs: options.lateMs ?? LATE_MS,
    signal: options.stopping,
  });
  return {
    ...options,
    record(entry) {
      count(entry);
      late.flush();
      return gate.bestEffort(entry);
    },
    recordSoon(entry) {
      count(entry);
      return late.add(entry);
    },
    require(entry) {
      count(entry);
      late.flush();
      return gate.require(entry);
    },
  };
}
