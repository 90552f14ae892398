import type { Clusters } from "../kubernetes/clusters.ts";
import type { GetFile, PutFile } from "../request/transfer.ts";
import type { Sessions } from "../sessions/sessions.ts";
import type { ResultPorts } from "./executed.ts";
import { createK8sTools, type K8sToolsPorts } from "./k8s_tools.ts";
import {
  createSshExecuteTool,
  createSshSessionCloseTool,
  createSshSessionExecTool,
  createSshSessionOpenTool,
} from "./ssh_commands.ts";
import type { Execute } from "../request/execute.ts";
import { createSshGetFileTool, createSshPutFileTool } from "./ssh_files.ts";
import { createSshListServersTool, type ListServersPorts } from "./ssh_servers.ts";
import type { Tool } from "./tool.ts";

/** The tools of a broker. Some are offered only while the broker knows a cluster. */
export interface Toolset {
  readonly tools: readonly Tool[];
  /** Resolves when the first list of clusters is known, so that early clients need not list the tools again. */
  readonly settled: () => Promise<void>;
  readonly isOffered: (name: string) => boolean;
  /** Calls back on each change of the offered tools. The result ends the callbacks. */
  readonly watch: (onChange: () => void) => () => void;
}

/** The members of a broker that its tools use. */
export interface ToolsetPorts extends SshToolsPorts, K8sToolsPorts {
  readonly clusters: Pick<Clusters, "isEmpty" | "watch">;
}

export function createToolset(broker: ToolsetPorts): Toolset {
  const forClusters = createK8sTools(broker);
  const names = new Set(forClusters.map(({ name }) => name));
  return {
    tools: [...createSshTools(broker), ...forClusters],
    // A failure of the first list ends the broker or is repaired by the next refresh.
    settled: () => broker.currentClusters().then(() => {}, () => {}),
    isOffered: (name) => !names.has(name) || !broker.clusters.isEmpty,
    watch: (onChange) => broker.clusters.watch(onChange),
  };
}

interface SshToolsPorts extends ListServersPorts, ResultPorts {
  readonly execute: Execute;
  readonly putFile: PutFile;
  readonly getFile: GetFile;
  readonly sessions: Sessions;
}

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
