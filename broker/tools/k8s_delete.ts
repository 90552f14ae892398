import { defineObjectTool } from "./k8s_object.ts";
import { ACTION_RULES, type ActionToolPorts } from "./k8s_result.ts";
import type { Tool } from "./tool.ts";

const description = [
  "Delete one object of a cluster. A human may have to approve it first; then the call waits, or says so. What belongs",
  "to the object, such as the pods of a deployment, is deleted by the cluster in the background. When a call ends",
  "without an answer, the object may have been deleted all the same: look before you repeat it.",
  ACTION_RULES,
].join(" ");

/** `k8s_delete`: deletes one object. */
export function createK8sDeleteTool(ports: ActionToolPorts): Tool {
  return defineObjectTool(ports, "delete", {
    name: "k8s_delete",
    title: "Delete an object of a cluster",
    description,
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  });
}
