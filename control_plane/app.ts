import { Hono } from "@hono/hono";
import type { AuditEntry } from "@gateway/shared/audit/entry";
import { AppError } from "@gateway/shared/errors";
import type { Peer, PeerHandler } from "@gateway/shared/http/mtls_server";
import { problemResponse } from "@gateway/shared/http/problem";
import { handleDecide, handleListApprovals } from "./handlers/approvals.ts";
import { handleClusters, handleHosts } from "./handlers/hosts.ts";
import { handleResult } from "./handlers/result.ts";
import { handleRevocations } from "./handlers/revocations.ts";
import { handleSign } from "./handlers/sign.ts";
import { handleUiDecide, handleUiDetail, handleUiList } from "./handlers/ui.ts";
import { LateRecords } from "./late_records.ts";
import type { ControlPlaneOptions, ControlPlanePorts } from "./ports.ts";

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
