import * as z from "@zod/zod";
import { GUARDED_OBJECT, OBJECT_ARGUMENTS } from "./k8s_arguments.ts";
import { ACTION_RULES, actionOutput, type ActionToolPorts, answerAction } from "./k8s_result.ts";
import { defineTool, type Tool } from "./tool.ts";

/** A tool that does something with one object, and needs no more than to know which. */
function defineObjectTool(
  ports: ActionToolPorts,
  verb: "get" | "delete",
  about: Pick<Tool, "name" | "title" | "description" | "annotations">,
): Tool {
  return defineTool({
    ...about,
    input: z.strictObject(OBJECT_ARGUMENTS),
    output: actionOutput,
    guarded: GUARDED_OBJECT,
    handle: (
      { cluster, resource, group = "", namespace = "", name, dry_run: dryRun = false, reason },
      context,
    ) =>
      answerAction(ports, {
        cluster,
        asked: { verb, resource, group, namespace, name },
        options: {},
        dryRun,
        reason,
      }, context),
  });
}

/** `k8s_get`: reads one object. */
export function createK8sGetTool(ports: ActionToolPorts): Tool {
  return defineObjectTool(ports, "get", {
    name: "k8s_get",
    title: "Read an object of a cluster",
    description: [
      "Read one object of a cluster, as JSON. Each call gets a token that is made for it.",
      ACTION_RULES,
    ].join(" "),
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  });
}

/** `k8s_delete`: deletes one object. */
export function createK8sDeleteTool(ports: ActionToolPorts): Tool {
  return defineObjectTool(ports, "delete", {
    name: "k8s_delete",
    title: "Delete an object of a cluster",
    description: [
      "Delete one object of a cluster. A human may have to approve it first; then the call waits, or says so. What belongs",
      "to the object, such as the pods of a deployment, is deleted by the cluster in the background. When a call ends",
      "without an answer, the object may have been deleted all the same: look before you repeat it.",
      ACTION_RULES,
    ].join(" "),
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  });
}
