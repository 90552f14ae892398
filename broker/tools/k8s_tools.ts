import { createK8sApplyTool } from "./k8s_apply.ts";
import { createK8sDeleteTool } from "./k8s_delete.ts";
import { createK8sGetTool } from "./k8s_get.ts";
import { createK8sListTool } from "./k8s_list.ts";
import { createK8sListClustersTool, type ListClustersPorts } from "./k8s_list_clusters.ts";
import { createK8sLogsTool } from "./k8s_logs.ts";
import type { ActionToolPorts } from "./k8s_result.ts";
import type { Tool } from "./tool.ts";

/** What the tools for clusters need of a broker. */
export interface K8sToolsPorts extends ActionToolPorts, ListClustersPorts {}

/** All tools for clusters, as every MCP frontend serves them while the broker knows a cluster. */
export function createK8sTools(broker: K8sToolsPorts): readonly Tool[] {
  return [
    createK8sApplyTool(broker),
    createK8sDeleteTool(broker),
    createK8sGetTool(broker),
    createK8sListTool(broker),
    createK8sListClustersTool(broker),
    createK8sLogsTool(broker),
  ];
}
