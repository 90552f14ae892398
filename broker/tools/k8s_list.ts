import * as z from "@zod/zod";
import { cluster, dryRun, group, resource } from "./k8s_arguments.ts";
import { ACTION_RULES, actionOutput, type ActionToolPorts, answerAction } from "./k8s_result.ts";
import { defineTool, reasonArgument, type Tool } from "./tool.ts";

const input = z.strictObject({
  cluster,
  resource,
  group,
  namespace: z.string().optional().describe("Only objects of this namespace; leave it out for all of them"),
  label_selector: z.string().optional().describe('Only objects with such labels: "app=web,tier!=cache"'),
  field_selector: z.string().optional().describe('Only objects with such fields: "status.phase=Running"'),
  limit: z.int().optional().describe("The most objects in all; where more remain, warnings says so"),
  output: z.enum(["table", "json"]).optional().describe(
    "table (default): a line for each object, tabs between columns; json: the objects, without managedFields",
  ),
  dry_run: dryRun,
  reason: reasonArgument,
});

const description = [
  "List objects of a cluster as a table, with the columns of kubectl get. A list that is cut ends between two objects,",
  "and warnings says how many remain. Pass output json, or use k8s_get, for all fields of objects. Begin narrow: a",
  "namespace, a label_selector, a small limit.",
  ACTION_RULES,
].join(" ");

/** `k8s_list`: lists objects. */
export function createK8sListTool(ports: ActionToolPorts): Tool {
  return defineTool({
    name: "k8s_list",
    title: "List objects of a cluster",
    description,
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true },
    input,
    output: actionOutput,
    guarded: ["cluster", "resource", "group", "namespace", "label_selector", "field_selector"],
    handle: (
      { cluster, resource, group = "", namespace = "", dry_run: dryRun = false, reason, ...args },
      context,
    ) =>
      answerAction(ports, {
        cluster,
        asked: { verb: "list", resource, group, namespace, name: "" },
        options: {
          labelSelector: args.label_selector,
          fieldSelector: args.field_selector,
          limit: args.limit,
          asTable: args.output !== "json",
        },
        dryRun,
        reason,
      }, context),
  });
}
