import type { Clusters } from "../kubernetes/clusters.ts";
import type { Tool } from "./tool.ts";
import { createK8sApplyTool } from "./k8s_apply.ts";
import { createK8sDeleteTool, createK8sGetTool } from "./k8s_objects.ts";
import { createK8sListTool } from "./k8s_list.ts";
import { createK8sListClustersTool, type ListClustersPorts } from "./k8s_list_clusters.ts";
import { createK8sLogsTool } from "./k8s_logs.ts";
import type { ActionToolPorts } from "./k8s_result.ts";
import type { Sessions } from "../sessions/sessions.ts";
import type { GetFile, PutFile } from "../request/transfer.ts";
import { createSshExecuteTool, type SshExecutePorts } from "./ssh_execute.ts";
import { createSshGetFileTool, createSshPutFileTool } from "./ssh_files.ts";
import { createSshListServersTool, type ListServersPorts } from "./ssh_list_servers.ts";
import {
  createSshSessionCloseTool,
  createSshSessionExecTool,
  createSshSessionOpenTool,
} from "./ssh_sessions.ts";

/** The tools of a broker, of which some are offered only at times. */
export interface Toolset {
  readonly tools: readonly Tool[];
  /** Resolves when it is known which are offered: clients that ask at once do not all ask again. */
  readonly settled: () => Promise<void>;
  /** Whether a tool of this name is offered now. */
  readonly isOffered: (name: string) => boolean;
  /** Calls back whenever others are offered than before; the result ends that. */
  readonly watch: (onChange: () => void) => () => void;
}

/** What the tools of a broker need of it. */
export interface ToolsetPorts extends SshToolsPorts, K8sToolsPorts {
  readonly clusters: Pick<Clusters, "isEmpty" | "watch">;
}

/** The tools for hosts, and while there is a cluster those for clusters. */
export function createToolset(broker: ToolsetPorts): Toolset {
  const forClusters = createK8sTools(broker);
  const names = new Set(forClusters.map(({ name }) => name));
  return {
    tools: [...createSshTools(broker), ...forClusters],
    // What keeps the first list from coming ends the broker, or is told by the next refresh.
    settled: () => broker.currentClusters().then(() => {}, () => {}),
    isOffered: (name) => !names.has(name) || !broker.clusters.isEmpty,
    watch: (onChange) => broker.clusters.watch(onChange),
  };
}

export function fixedTools(tools: readonly Tool[]): Toolset {
  return { tools, settled: () => Promise.resolve(), isOffered: () => true, watch: () => () => {} };
}

/** What the tools for clusters need of a broker. */
interface K8sToolsPorts extends ActionToolPorts, ListClustersPorts {}

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

/** What the tools for SSH hosts need of a broker. */
interface SshToolsPorts extends SshExecutePorts, ListServersPorts {
  readonly putFile: PutFile;
  readonly getFile: GetFile;
  readonly sessions: Sessions;
}

/** All tools for SSH hosts, as every MCP frontend serves them. */
export function createSshTools(broker: SshToolsPorts): readonly Tool[] {
  return [
    createSshExecuteTool(broker),
    createSshGetFileTool(broker),
    createSshListServersTool(broker),
    createSshPutFileTool(broker),
    createSshSessionCloseTool(broker),
    createSshSessionExecTool(broker),
    createSshSessionOpenTool(broker),
  ];
}
