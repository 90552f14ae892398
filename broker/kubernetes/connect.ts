import type { Clock } from "@gateway/shared/clock";
import { ApiServer } from "@gateway/shared/kubernetes";
import type { ClusterInfo } from "@gateway/shared/wire";
import type { OwnedConnection } from "./clusters.ts";

/** The connections to a cluster's API server. */
export function connectTo(clock: Clock): (cluster: ClusterInfo) => OwnedConnection {
  return ({ api_server: url, ca_cert_pem: ca }) => new ApiServer({ url, ca, clock });
}
