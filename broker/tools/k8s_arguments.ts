import * as z from "@zod/zod";
import { reasonArgument } from "./tool.ts";

/** The cluster, as every tool for clusters names it. */
export const cluster = z.string().describe("Cluster name as k8s_list_clusters shows it");

/** The kind of object, and of what group it is. */
export const resource = z.string().describe('Kind of object, lowercase plural: "pods", "deployments"');

/** Only where the plural alone does not say it. */
export const group = z.string().optional().describe("API group; leave it out, the resource says it");

export const dryRun = z.boolean().optional().describe(
  "Only tell whether the policy would allow it; the cluster is not asked",
);

/** What get, apply and delete are told of their object. */
export const OBJECT_ARGUMENTS = {
  cluster,
  resource,
  name: z.string().describe("Name of the object"),
  group,
  namespace: z.string().optional().describe("Namespace of the object; leave it out for what has none"),
  dry_run: dryRun,
  reason: reasonArgument,
} as const;

/** The arguments of all of them that hold free text. */
export const GUARDED_OBJECT = ["cluster", "resource", "group", "namespace", "name"] as const;
