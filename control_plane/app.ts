import type { AuditEntry } from "@gateway/shared/audit";
import { createRouter, routesFor } from "@gateway/shared/http/routes";
import type { Peer, PeerHandler, RouteHandler } from "@gateway/shared/http";
import { handleDecide, handleListApprovals } from "./routes/decide.ts";
import {
  handleClusters,
  handleHosts,
  handleRevocations,
  handleRevokeRequests,
  handleRevokeSerials,
} from "./routes/hosts.ts";
import { handleResult } from "./routes/result.ts";
import { handleSign } from "./routes/sign.ts";
import { handleUiDecide, handleUiDetail, handleUiList, leadToList } from "./pages/handle_pages.ts";
import type { ControlPlaneOptions, ControlPlanePorts } from "./routes/ports.ts";
import type { Clock } from "@gateway/shared/clock";
import { currentRequestId, outsideRequests } from "@gateway/shared/service";

export const CONTROL_PLANE_ROUTES = routesFor<ControlPlanePorts, { readonly peer: Peer }>()({
  "/v1/sign": {
    POST: (ports, { request, peer }) => ports.timings.sign.measure(() => handleSign(ports, request, peer)),
  },
  "/v1/sign/result/:id": {
    GET: fresh((ports, { request, peer, param }) => handleResult(ports, request, peer, param("id"))),
    // The result is served once: an answer without a body would lose it.
    HEAD: "refused",
  },
  "/v1/hosts": { GET: (ports, { request, peer }) => handleHosts(ports, request, peer) },
  "/v1/clusters": { GET: (ports, { request, peer }) => handleClusters(ports, request, peer) },
  "/v1/revocations": { GET: (ports, { peer }) => handleRevocations(ports, peer) },
  "/v1/revocations/serials": {
    POST: (ports, { request, peer }) => handleRevokeSerials(ports, request, peer),
  },
  "/v1/revocations/requests": {
    POST: (ports, { request, peer }) => handleRevokeRequests(ports, request, peer),
  },
  "/v1/approvals": { GET: fresh((ports, { peer }) => handleListApprovals(ports, peer)) },
  "/v1/approvals/:id": {
    POST: fresh((ports, { request, peer, param }) => handleDecide(ports, request, peer, param("id"))),
  },
  "/": { GET: leadToList },
  "/ui": { GET: leadToList },
  "/ui/": { GET: leadToList },
  "/ui/approvals/": { GET: leadToList },
  "/ui/approvals": { GET: fresh((ports, { request, peer }) => handleUiList(ports, request, peer)) },
  "/ui/approvals/:id": {
    GET: fresh((ports, { request, peer, param }) => handleUiDetail(ports, request, peer, param("id"))),
    POST: fresh((ports, { request, peer, param }) => handleUiDecide(ports, request, peer, param("id"))),
  },
});

/** The control plane's routes behind the mTLS listener. */
export function createControlPlaneApp(options: ControlPlaneOptions): PeerHandler {
  const answer = createRouter(CONTROL_PLANE_ROUTES, createPorts(options), { noRoute: "no such route" });
  return (request, peer) => answer(request, { peer });
}

type ControlPlaneHandler<Param extends string> = RouteHandler<
  ControlPlanePorts,
  { readonly peer: Peer },
  Param
>;

/** Answers from approvals that are up to date: another control plane may have parked, decided or collected one. */
function fresh<Param extends string>(handler: ControlPlaneHandler<Param>): ControlPlaneHandler<Param> {
  return async (ports, request) => {
    const { instances } = ports;
    if (instances.isShared) {
      await instances.caughtUp();
      instances.requireFresh();
    }
    return await handler(ports, request);
  };
}

/** As long as a record that nobody waits for can be missing after kill -9. */
const LATE_MS = 20;

function createPorts(options: ControlPlaneOptions): ControlPlanePorts {
  const { gate, metrics, registry } = options;
  const events = metrics.counter("controlplane_events_total", "Audit events by outcome", ["outcome"]);
  metrics.gauge(
    "controlplane_approvals_pending",
    "Requests whose approval nobody has decided",
    () => registry.pendingCount(),
  );
  const count = ({ outcome }: AuditEntry) => events.inc({ outcome });
  const late = new LateRecords({
    append: (entry) => gate.bestEffort(entry),
    clock: options.clock,
    delayMs: options.lateMs ?? LATE_MS,
    signal: options.stopping,
  });
  const timings = {
    sign: metrics.histogram(
      "controlplane_sign_duration_seconds",
      "Sign requests, all that they take",
      "exchange",
    ),
    approval: metrics.histogram(
      "controlplane_approval_wait_seconds",
      "From the request for an approval to its decision, or to its expiry when somebody asks",
      "human",
    ),
  };
  return {
    ...options,
    timings,
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

/** What {@linkcode LateRecords} needs. */
interface LateRecordsOptions {
  /** Appends one record; never rejects. */
  readonly append: (entry: AuditEntry) => Promise<void>;
  readonly clock: Clock;
  /** How long a record waits for others, in milliseconds; 0: not at all. */
  readonly delayMs: number;
  /** Aborted when nothing is to wait any longer. */
  readonly signal: AbortSignal;
}

/** Records on their way to a disk that hangs: beyond, whoever adds one waits for it. */
const MAX_UNWRITTEN = 1024;

/**
 * Records that nobody waits for, appended some at a time: each sync of this log is one that the signer's log,
 * which every certificate waits for, does not get from the disk.
 */
export class LateRecords {
  readonly #options: LateRecordsOptions;
  readonly #waiting: AuditEntry[] = [];
  #unwritten = 0;
  #last: Promise<void> = Promise.resolve();

  constructor(options: LateRecordsOptions) {
    this.#options = options;
  }

  /** Resolves at once, or when very many are on their way, after this one's append. Never rejects. */
  add(entry: AuditEntry): Promise<void> {
    // It is appended within another request, or none.
    this.#waiting.push({ request_id: currentRequestId() ?? "", ...entry });
    if (this.#options.delayMs === 0 || this.#unwritten >= MAX_UNWRITTEN) this.flush();
    else if (this.#waiting.length === 1) void outsideRequests(() => this.#flushLater());
    return this.#unwritten > MAX_UNWRITTEN ? this.#last : Promise.resolve();
  }

  /** Appends those that wait, so that what is appended next comes after them. */
  flush(): void {
    for (const entry of this.#waiting.splice(0)) {
      this.#unwritten += 1;
      this.#last = this.#options.append(entry).finally(() => this.#unwritten -= 1);
    }
  }

  async #flushLater(): Promise<void> {
    const { clock, delayMs, signal } = this.#options;
    try {
      await clock.sleep(delayMs, signal);
    } catch {
      // The process is to end: now, then.
    }
    this.flush();
  }
}
