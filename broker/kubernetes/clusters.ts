import { type Clock, within } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { buildResourceTable, type ResourceTable } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import type { ClusterInfo, ClustersResponse } from "@gateway/shared/wire";
import { Inventory, type RefreshOptions } from "../request/route.ts";
import type { ApiConnection } from "./ask.ts";
import { ApiServer } from "@gateway/shared/kubernetes";

/** A connection that somebody has to close. */
interface OwnedConnection extends ApiConnection {
  close(): void;
}

/** What it takes to know clusters and to reach them. */
interface ClustersPorts {
  readonly clock: Clock;
  /** Gives the very list that it gave before where nothing has changed. */
  readonly fetch: () => Promise<ClustersResponse>;
  /** @throws {AppError} `invalid_config` when the cluster's URL or CA can't be used */
  readonly connect: (cluster: ClusterInfo) => OwnedConnection;
}

/** A cluster as it is known now. */
export interface Cluster {
  readonly info: ClusterInfo;
  /** What kinds of objects it has. */
  readonly table: ResourceTable;
  /**
   * The way to its API server.
   *
   * @throws {AppError} `upstream_failure` when what is known of it leads nowhere
   */
  connection(): ApiConnection;
}

/** The clusters that this broker may use, with one set of connections for each. */
export class Clusters {
  readonly #ports: ClustersPorts;
  readonly #inventory: Inventory<ClusterInfo>;
  readonly #connections = new Map<
    string,
    { readonly info: ClusterInfo; readonly connection: OwnedConnection }
  >();
  readonly #watchers = new Set<() => void>();
  #isEmpty = true;

  constructor(ports: ClustersPorts) {
    this.#ports = ports;
    this.#inventory = new Inventory(async () => {
      const list = await ports.fetch();
      this.#learn(list);
      return list;
    });
  }

  /** Whether there is no cluster, as far as is known. */
  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  /** Calls back whenever the first cluster has come or the last one has gone; the result ends that. */
  watch(onChange: () => void): () => void {
    this.#watchers.add(onChange);
    return () => this.#watchers.delete(onChange);
  }

  /** What is known, without asking; the first call waits for the first list. */
  current(): Promise<ReadonlyMap<string, ClusterInfo>> {
    return this.#inventory.current();
  }

  /** Asks for the list; rejects with what the authority says. */
  refresh(): Promise<ReadonlyMap<string, ClusterInfo>> {
    return this.#inventory.refresh();
  }

  /** Refreshes again and again until the signal is aborted. */
  refreshEvery(options: RefreshOptions): Promise<void> {
    return this.#inventory.refreshEvery(options);
  }

  /**
   * A cluster as the authority knows it now: one that was removed must not be used once more.
   *
   * @throws {AppError} `denied` or `frozen` when this broker may not have the list, `upstream_failure` when it can't
   * be had, `unknown_host` when there is no such cluster
   */
  async find(name: string, signal: AbortSignal): Promise<Cluster> {
    let known: ReadonlyMap<string, ClusterInfo>;
    try {
      // Nobody's signal ends the asking itself: others wait for the same answer.
      known = await within({ clock: this.#ports.clock, signal }, this.#inventory.refresh());
    } catch (cause) {
      const text = `refreshing cluster list: ${errorText(cause)}`;
      if (cause instanceof AppError && (cause.code === "denied" || cause.code === "frozen")) {
        throw new AppError(cause.code, text, { cause });
      }
      throw new AppError("upstream_failure", `upstream failure: ${text}`, { cause });
    }
    const info = known.get(name);
    if (info === undefined) throw new AppError("unknown_host", `unknown cluster: ${quoteText(name)}`);
    const { table } = buildResourceTable(info.extra_resources ?? []);
    return { info, table, connection: () => this.#connect(name, info) };
  }

  /** Closes all connections; requests under way fail. */
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
      throw new AppError("upstream_failure", `cannot use cluster ${quoteText(name)}: ${cause.message}`, {
        cause,
      });
    }
  }

  /** Nothing is left that leads to a cluster that is gone, or to where it was. */
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

/** The connections to a cluster's API server. */
export function connectTo(clock: Clock): (cluster: ClusterInfo) => OwnedConnection {
  return ({ api_server: url, ca_cert_pem: ca }) => new ApiServer({ url, ca, clock });
}
