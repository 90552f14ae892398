import { defineObjectTool } from "./k8s_object.ts";
import { ACTION_RULES, type ActionToolPorts } from "./k8s_result.ts";
import type { Tool } from "./tool.ts";

const description = [
  "Read one object of a cluster, as JSON. Each call gets a token that is made for it.",
  ACTION_RULES,
].join(" ");

/** `k8s_get`: reads one object. */
export function createK8sGetTool(ports: ActionToolPorts): Tool {
  return defineObjectTool(ports, "get", {
    name: "k8s_get",
    title: "Read an object of a cluster",
    description,
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true },
  });
}
