import { z } from "@zod/zod";
import { GUARDED_OBJECT, OBJECT_ARGUMENTS } from "./k8s_arguments.ts";
import { ACTION_RULES, actionOutput, type ActionToolPorts, answerAction } from "./k8s_result.ts";
import { defineTool, type Tool } from "./tool.ts";

const description = [
  "Read one object of a cluster, as JSON. Each call gets a token that is made for it.",
  ACTION_RULES,
].join(" ");

/** `k8s_get`: reads one object. */
export function createK8sGetTool(ports: ActionToolPorts): Tool {
  return defineTool({
    name: "k8s_get",
    title: "Read an object of a cluster",
    description,
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true },
    input: z.strictObject(OBJECT_ARGUMENTS),
    output: actionOutput,
    guarded: GUARDED_OBJECT,
    handle: (
      { cluster, resource, group = "", namespace = "", name, dry_run: dryRun = false, reason },
      context,
    ) =>
      answerAction(ports, {
        cluster,
        asked: { verb: "get", resource, group, namespace, name },
        options: {},
        dryRun,
        reason,
      }, context),
  });
}
