import type { ClusterInfo } from "@gateway/shared/wire/cluster";
import * as z from "@zod/zod";
import { defineTool, isVisible, type Tool } from "./tool.ts";

/** What the tool needs of a broker. */
export interface ListClustersPorts {
  readonly currentClusters: () => Promise<ReadonlyMap<string, ClusterInfo>>;
}

const output = z.strictObject({
  clusters: z.array(z.strictObject({ name: z.string().describe("Name to pass as cluster") })),
});

const description = [
  "List the clusters you may use. Call this first: cluster names of the other k8s tools come from here. What may be done",
  "there is the policy's to decide; dry_run of the other tools tells about one action.",
].join(" ");

/** `k8s_list_clusters`: the clusters, from what is known. Never an address or a certificate. */
export function createK8sListClustersTool({ currentClusters }: ListClustersPorts): Tool {
  return defineTool({
    name: "k8s_list_clusters",
    title: "List clusters",
    description,
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    input: z.strictObject({}),
    output,
    guarded: [],
    async handle(_args, { callerGroups }) {
      const names = [...await currentClusters()]
        .filter(([, cluster]) => isVisible(cluster, callerGroups))
        .map(([name]) => name)
        .sort();
      return { text: names.join("\n"), structured: { clusters: names.map((name) => ({ name })) } };
    },
  });
}
