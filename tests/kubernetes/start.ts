import type { ClusterBackend } from "./backend.ts";
import { Cluster } from "./cluster.ts";
import { startEmbedded } from "./embedded/embedded.ts";
import { connectReal, findAssets } from "./real.ts";

/**
 * Starts an API server for a test. With KUBEBUILDER_ASSETS it is the real one, shared by all tests of the
 * process (the first one waits about 5 s for it). Otherwise it is an embedded one for this test only.
 *
 * @throws {Error} if it cannot start, or if REQUIRE_REAL_SERVERS=1 and there is no real one
 */
export async function startCluster(kind?: ClusterBackend["kind"]): Promise<Cluster> {
  const assets = findAssets();
  if (kind === "embedded") return new Cluster(await startEmbedded());
  if ("folder" in assets) return new Cluster(await connectReal(assets.folder));
  if (kind === "real" || requiresRealServers()) {
    throw new Error(`Cannot start the API server: ${assets.problem}`);
  }
  return new Cluster(await startEmbedded());
}

/** The kinds that this machine can run, for tests that cover all kinds. */
export function availableKinds(): readonly ClusterBackend["kind"][] {
  return "folder" in findAssets() || requiresRealServers() ? ["real", "embedded"] : ["embedded"];
}

function requiresRealServers(): boolean {
  return Deno.env.get("REQUIRE_REAL_SERVERS") === "1";
}
