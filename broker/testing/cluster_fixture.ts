import { AuditGate } from "@gateway/shared/audit";
import { createRedactor } from "@gateway/shared/redact";
import { FakeClock, FixedRandom, MemoryAuditLog } from "@gateway/shared/testing";
import type { ClusterInfo } from "@gateway/shared/wire";
import { Clusters } from "../kubernetes/clusters.ts";
import { type ActionRequest, type RunAction, runAction } from "../kubernetes/run_action.ts";
import { TEST_LIMITS } from "./broker_fixture.ts";
import { FakeAuthority } from "./fake_authority.ts";
import { FakeConnection } from "./fake_cluster.ts";

/** A cluster as a signer lists it. */
export const CLUSTER: ClusterInfo = {
  api_server: "https://10.0.0.5:6443",
  ca_cert_pem: "PEM",
  groups: ["web"],
  extra_resources: [{
    resource: "widgets",
    group: "example.com",
    version: "v2",
    kind: "Widget",
    namespaced: true,
  }],
};

/** The parts of a broker that clusters need, without network and disk. */
export class ClusterFixture {
  readonly authority = new FakeAuthority();
  readonly connection = new FakeConnection();
  readonly log = new MemoryAuditLog();
  readonly clock = new FakeClock();
  /** The clusters with a connection, and the number of closed connections. */
  readonly connected: ClusterInfo[] = [];
  closed = 0;
  readonly clusters: Clusters;
  readonly runAction: RunAction;
  readonly random = new FixedRandom([0xab]);
  readonly limits = TEST_LIMITS;
  readonly currentClusters = () => this.clusters.inventory.current();

  constructor() {
    this.authority.clusterList = () => ({ prod: CLUSTER });
    const { authority, clock, connection } = this;
    this.clusters = new Clusters({
      clock,
      fetch: () => authority.clusters(),
      connect: (cluster) => {
        this.connected.push(cluster);
        return { request: (request) => connection.request(request), close: () => this.closed += 1 };
      },
    });
    const events = new AuditGate({
      log: this.log,
      failMode: "closed",
      onAppendFailure: () => {},
      onBlocked: () => {},
    });
    const ports = {
      authority,
      clusters: this.clusters,
      events,
      clock,
      redact: createRedactor(undefined),
      maxOutputBytes: TEST_LIMITS.maxOutputBytes,
    };
    this.runAction = (request, signal) => runAction(ports, request, signal);
  }

  /** Reads the pod `web-1`, with the given fields changed. */
  run(
    { asked, ...request }: Omit<Partial<ActionRequest>, "asked"> & {
      readonly asked?: Partial<ActionRequest["asked"]>;
    } = {},
    signal: AbortSignal = new AbortController().signal,
  ) {
    return this.runAction({
      caller: "agent-1",
      callerGroups: null,
      cluster: "prod",
      options: {},
      dryRun: false,
      ...request,
      asked: { verb: "get", resource: "pods", group: "", namespace: "prod", name: "web-1", ...asked },
    }, signal);
  }
}
