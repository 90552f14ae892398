import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { buildResourceTable, type ResourceTable } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import type { ClusterInfo, ClustersResponse } from "@gateway/shared/wire";
import { Inventory } from "../request/route.ts";
import type { ApiConnection } from "./api_call.ts";

type CloseableConnection = ApiConnection & { close(): void };

interface ClustersPorts {
  readonly clock: Clock;
  readonly fetch: () => Promise<ClustersResponse>;
  /** @throws {AppError} `invalid_config` if the cluster's URL or CA is unusable */
  readonly connect: (cluster: ClusterInfo) => CloseableConnection;
}

export interface Cluster {
  readonly info: ClusterInfo;
  readonly table: ResourceTable;
  /** @throws {AppError} `upstream_failure` if the cluster's URL or CA is unusable */
  connection(): ApiConnection;
}

/** The clusters that this broker may use, with one set of connections for each. */
export class Clusters {
  readonly #ports: ClustersPorts;
  readonly inventory: Inventory<ClusterInfo>;
  readonly #connections = new Map<
    string,
    { readonly info: ClusterInfo; readonly connection: CloseableConnection }
  >();
  readonly #watchers = new Set<() => void>();
  #isEmpty = true;

  constructor(ports: ClustersPorts) {
    this.#ports = ports;
    this.inventory = new Inventory(async () => {
      const list = await ports.fetch();
      this.#learn(list);
      return list;
    });
  }

  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  /** Calls back when the first cluster appears or the last one disappears. The result ends the callbacks. */
  watch(onChange: () => void): () => void {
    this.#watchers.add(onChange);
    return () => this.#watchers.delete(onChange);
  }

  /** @throws {AppError} `unknown_host`, or as {@linkcode Inventory.fresh} does */
  async find(name: string, signal: AbortSignal): Promise<Cluster> {
    const known = await this.inventory.fresh("cluster list", { clock: this.#ports.clock, signal });
    const info = known.get(name);
    if (info === undefined) throw new AppError("unknown_host", `unknown cluster: ${quoteText(name)}`);
    const { table } = buildResourceTable(info.extra_resources ?? []);
    return { info, table, connection: () => this.#connect(name, info) };
  }

  close(): void {
    for (const { connection } of this.#connections.values()) connection.close();
    this.#connections.clear();
  }

  #connect(name: string, info: ClusterInfo): ApiConnection {
    const open = this.#connections.get(name);
    if (open !== undefined && isSame(open.info, info)) return open.connection;
    try {
      const connection = this.#ports.connect(info);
      open?.connection.close();
      this.#connections.set(name, { info, connection });
      return connection;
    } catch (cause) {
      if (!(cause instanceof AppError)) throw cause;
      const text = `cannot use cluster ${quoteText(name)}: ${cause.message}`;
      throw new AppError("upstream_failure", text, { cause });
    }
  }

  /** Closes the connections to clusters that were removed or have moved. */
  #learn(list: ClustersResponse): void {
    for (const [name, { info, connection }] of this.#connections) {
      if (Object.hasOwn(list, name) && list[name] !== undefined && isSame(list[name], info)) continue;
      connection.close();
      this.#connections.delete(name);
    }
    const isEmpty = Object.keys(list).length === 0;
    if (isEmpty === this.#isEmpty) return;
    this.#isEmpty = isEmpty;
    for (const onChange of this.#watchers) onChange();
  }
}

function isSame(left: ClusterInfo, right: ClusterInfo): boolean {
  return left.api_server === right.api_server && left.ca_cert_pem === right.ca_cert_pem;
}
