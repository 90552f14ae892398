import type { Clusters } from "../kubernetes/clusters.ts";
import { createK8sTools, type K8sToolsPorts } from "./k8s_tools.ts";
import { createSshTools, type SshToolsPorts } from "./ssh_tools.ts";
import type { Tool } from "./tool.ts";

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
