import type { HostInfo } from "@gateway/shared/wire";
import type { Inventory } from "./inventory.ts";

export type Hosts = ReadonlyMap<string, HostInfo>;

/** The broker's view of the hosts. */
export type HostsView = Inventory<HostInfo>;
