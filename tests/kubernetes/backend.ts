import type { ApiCredential } from "./api.ts";
import type { ContainerLogs } from "./kubelet.ts";

/** A running API server, and what a {@linkcode Cluster} needs of it. */
export interface ClusterBackend extends AsyncDisposable {
  /** kube-apiserver with etcd, or the server of this directory. */
  readonly kind: "real" | "embedded";
  /** Such as `https://127.0.0.1:6443`. */
  readonly apiServer: string;
  /** The CA that the server's certificate is from. */
  readonly caPem: string;
  readonly admin: ApiCredential;
  /** The API server's own audit log, one event a line (`audit.k8s.io/v1`, level Metadata). */
  readonly auditLog: string;
  /** Makes a node that hands out logs, and gives its name. */
  startNode(logs: ContainerLogs): Promise<string>;
}
