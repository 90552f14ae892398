import type { ApiCredential } from "./api.ts";
import type { ContainerLogs } from "./kubelet.ts";

/** A running API server with the properties that a {@linkcode Cluster} needs. */
export interface ClusterBackend extends AsyncDisposable {
  /** kube-apiserver with etcd, or the server of this directory. */
  readonly kind: "real" | "embedded";
  /** For example `https://127.0.0.1:6443`. */
  readonly apiServer: string;
  /** The CA of the server's certificate. */
  readonly caPem: string;
  readonly admin: ApiCredential;
  /** The API server's own audit log, one event a line (`audit.k8s.io/v1`, level Metadata). */
  readonly auditLog: string;
  /** Creates a node that serves logs and returns its name. */
  startNode(logs: ContainerLogs): Promise<string>;
}
