import type { AuditEntry } from "@gateway/shared/audit";
import type { Clock } from "@gateway/shared/clock";
import type { Peer, PeerHandler } from "@gateway/shared/http";
import { createRouter, routesFor } from "@gateway/shared/http/routes";
import { currentRequestId, outsideRequests } from "@gateway/shared/service";
import {
  handleUiDecide,
  handleUiDetail,
  handleUiList,
  handleUiPasskey,
  redirectToList,
} from "./pages/handle_pages.ts";
import { LIST_PATH } from "./pages/page.tsx";
import { handleDecide, handleListApprovals } from "./routes/decide.ts";
import {
  handleClusters,
  handleHosts,
  handleReportSessions,
  handleRevocations,
  handleRevokeRequests,
  handleRevokeSerials,
} from "./routes/hosts.ts";
import type { ControlPlaneOptions, ControlPlanePorts, Handler } from "./routes/ports.ts";
import { handleResult } from "./routes/result.ts";
import { handleSign } from "./routes/sign.ts";

export const CONTROL_PLANE_ROUTES = routesFor<ControlPlanePorts, { readonly peer: Peer }>()({
  "/v1/sign": {
    POST: (ports, { request, peer }) => ports.timings.sign.measure(() => handleSign(ports, request, peer)),
  },
  // The result is served once, and a HEAD response without a body would lose it.
  "/v1/sign/result/:id": { GET: fresh(handleResult), HEAD: "refused" },
  "/v1/hosts": { GET: handleHosts },
  "/v1/clusters": { GET: handleClusters },
  "/v1/revocations": { GET: handleRevocations },
  "/v1/revocations/serials": { POST: handleRevokeSerials },
  "/v1/revocations/requests": { POST: handleRevokeRequests },
  "/v1/sessions": { POST: handleReportSessions },
  "/v1/approvals": { GET: fresh(handleListApprovals) },
  "/v1/approvals/:id": { POST: fresh(handleDecide) },
  "/": { GET: redirectToList },
  "/ui": { GET: redirectToList },
  "/ui/": { GET: redirectToList },
  "/ui/approvals/": { GET: redirectToList },
  "/ui/passkey": { GET: handleUiPasskey },
  "/ui/approvals": { GET: fresh(handleUiList) },
  "/ui/approvals/:id": { GET: fresh(handleUiDetail), POST: fresh(handleUiDecide) },
});

type Routes = Parameters<typeof createRouter<ControlPlanePorts, { readonly peer: Peer }>>[0];

const PAGE_ROUTES: Routes = Object.fromEntries(
  Object.entries<Routes[string]>(CONTROL_PLANE_ROUTES).filter(([path]) =>
    path === "/" || path === "/ui" || path.startsWith("/ui/")
  ),
);

interface ControlPlaneApp {
  /** The routes behind the mTLS listener. */
  readonly handler: PeerHandler;
  /** The pages alone, for people who have signed in at the address `url`, and the ports of the pages. */
  pagesAt(url: string): { readonly pages: PeerHandler; readonly ports: ControlPlanePorts };
}

export function createControlPlaneApp(options: ControlPlaneOptions): ControlPlaneApp {
  const ports = createPorts(options);
  const noRoute = "no such route";
  const answer = createRouter(CONTROL_PLANE_ROUTES, ports, { noRoute });
  return {
    handler: (request, peer) => answer(request, { peer }),
    pagesAt(url) {
      const { config } = ports;
      // Decisions are accepted only from the address of the page.
      const approval = { ...config.approval, approval_url_template: `${url}${LIST_PATH}/{id}` };
      const own = { ...ports, config: { ...config, approval }, hasSessions: true };
      const answerPages = createRouter(PAGE_ROUTES, own, { noRoute });
      return { pages: (request, peer) => answerPages(request, { peer }), ports: own };
    },
  };
}

/** Waits for the approvals that other control planes have parked, decided or collected. */
function fresh<Param extends string>(handler: Handler<Param>): Handler<Param> {
  return async (ports, request) => {
    const { instances } = ports;
    if (instances.isShared) {
      await instances.caughtUp();
      instances.requireFresh();
    }
    return await handler(ports, request);
  };
}

/** After kill -9, records of this last period can be missing. */
const LATE_MS = 20;

function createPorts(options: ControlPlaneOptions): ControlPlanePorts {
  const { gate, metrics, registry } = options;
  const events = metrics.counter("controlplane_events_total", "Audit events by outcome", ["outcome"]);
  metrics.gauge("controlplane_approvals_pending", "Pending approval requests", () => registry.pendingCount());
  const late = new BatchedRecords({
    append: (entry) => gate.bestEffort(entry),
    clock: options.clock,
    delayMs: options.lateMs ?? LATE_MS,
    signal: options.stopping,
  });
  const timings = {
    sign: metrics.histogram("controlplane_sign_duration_seconds", "Duration of sign requests", "exchange"),
    approval: metrics.histogram(
      "controlplane_approval_wait_seconds",
      "Time to a decision or expiry",
      "human",
    ),
  };
  const counted = (append: (entry: AuditEntry) => Promise<void>) => (entry: AuditEntry) => {
    events.inc({ outcome: entry.outcome });
    return append(entry);
  };
  const inOrder = (append: (entry: AuditEntry) => Promise<void>) =>
    counted((entry) => {
      late.flush();
      return append(entry);
    });
  return {
    ...{ ...options, hasSessions: false, timings, recordSoon: counted((entry) => late.add(entry)) },
    record: inOrder((entry) => gate.bestEffort(entry)),
    require: inOrder((entry) => gate.require(entry)),
  };
}

/** If more records are queued because the disk hangs, adding a record waits. */
const MAX_UNWRITTEN = 1024;

interface LateOptions {
  /** Appends a record. Never rejects. */
  readonly append: (entry: AuditEntry) => Promise<void>;
  readonly clock: Clock;
  /** How long a record waits for others to share its sync; 0: no wait. */
  readonly delayMs: number;
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

/**
 * Appends records without a waiting request in groups. Each sync of this log delays the signer's log on the same disk,
 * and every certificate waits for the signer's log.
 */
export class BatchedRecords {
  readonly #options: LateOptions;
  readonly #waiting: AuditEntry[] = [];
  #unwritten = 0;
  #last: Promise<void> = Promise.resolve();

  constructor(options: LateOptions) {
    this.#options = options;
  }

  /**
   * Adds a record. Resolves immediately, or after the append if too many records are queued. Never rejects.
   */
  add(entry: AuditEntry): Promise<void> {
    // The append happens outside of this request, so store the request's ID in the record.
    this.#waiting.push({ request_id: currentRequestId() ?? "", ...entry });
    if (this.#options.delayMs === 0 || this.#unwritten >= MAX_UNWRITTEN) this.flush();
    else if (this.#waiting.length === 1) void outsideRequests(() => this.#flushLater());
    return this.#unwritten > MAX_UNWRITTEN ? this.#last : Promise.resolve();
  }

  /** Appends the waiting records, so that the next record comes after them. */
  flush(): void {
    for (const entry of this.#waiting.splice(0)) {
      this.#unwritten += 1;
      this.#last = this.#options.append(entry).finally(() => this.#unwritten -= 1);
    }
  }

  async #flushLater(): Promise<void> {
    const { clock, delayMs, signal } = this.#options;
    await clock.sleep(delayMs, signal).catch(() => {});
    this.flush();
  }
}
