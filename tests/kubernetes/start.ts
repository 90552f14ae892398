import type { ClusterBackend } from "./backend.ts";
import { Cluster } from "./cluster.ts";
import { connectReal, findAssets } from "./real.ts";

/**
 * Gives a test an API server: the real one where KUBEBUILDER_ASSETS says where it is, shared by all tests of the
 * process (the first to ask waits about 5 s for it).
 *
 * @throws {Error} when there is none
 */
export async function startCluster(kind: ClusterBackend["kind"] = "real"): Promise<Cluster> {
  const assets = findAssets();
  if (kind !== "real" || "problem" in assets) {
    throw new Error(`Cannot start the API server: ${"problem" in assets ? assets.problem : kind}`);
  }
  return new Cluster(await connectReal(assets.folder));
}
