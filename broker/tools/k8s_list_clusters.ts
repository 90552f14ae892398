import type { ClusterInfo } from "@gateway/shared/wire";
import { visibleText } from "@gateway/shared/text";
import * as z from "@zod/zod";
import { defineTool, isVisible, type Tool } from "./tool.ts";

/** What the tool needs of a broker. */
export interface ListClustersPorts {
  readonly currentClusters: () => Promise<ReadonlyMap<string, ClusterInfo>>;
}

const input = z.strictObject({
  policy: z.boolean().optional().describe("Also what you may do in each cluster, in words"),
});

const output = z.strictObject({
  clusters: z.array(z.strictObject({
    name: z.string().describe("Name to pass as cluster"),
    policy: z.array(z.string()).optional().describe(
      "Only with policy; absent if the signer does not send it",
    ),
  })),
});

const description = [
  "List the clusters you may use. Call this first: cluster names of the other k8s tools come from here. With policy: true",
  "it also shows in words what you may do in each cluster, and what a human has to approve. Denied actions and temporary",
  "grants are not shown: pass dry_run to another tool to check one action.",
].join(" ");

interface Shown {
  readonly name: string;
  readonly policy?: readonly string[] | undefined;
}

/** `k8s_list_clusters`: the clusters, from what is known. Never an address or a certificate. */
export function createK8sListClustersTool({ currentClusters }: ListClustersPorts): Tool {
  return defineTool({
    name: "k8s_list_clusters",
    title: "List clusters",
    description,
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    input,
    output,
    guarded: [],
    async handle({ policy = false }, { callerGroups }) {
      const clusters = [...await currentClusters()]
        .filter(([, cluster]) => isVisible(cluster, callerGroups))
        .sort(([left], [right]) => left < right ? -1 : 1)
        .map(([name, { policy: words }]) => ({
          name,
          ...(policy && words !== undefined && { policy: words }),
        }));
      const linesOf = (
        { name, policy: words = ["the signer does not send what you may do here"] }: Shown,
      ) => [
        name,
        ...(policy ? words.map((line) => `  ${visibleText(line)}`) : []),
      ];
      return { text: clusters.flatMap(linesOf).join("\n"), structured: { clusters } };
    },
  });
}
