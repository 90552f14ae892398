/**
 * What a monitor shows of the instances that share a state; `broker-ctl status` reads it.
 *
 * @module
 */
import type { Metrics } from "../service/metrics.ts";
import type { SharedGroup } from "./group.ts";

/** What of a group is shown. */
type ShownGroup = Pick<SharedGroup, "name" | "members" | "server" | "age"> & {
  readonly clock: Pick<SharedGroup["clock"], "offset">;
};

/** Adds them; nothing where an instance has a state of its own. */
export function addInstanceMetrics(metrics: Metrics, group: ShownGroup | undefined): void {
  if (group === undefined) return;
  const one = (labels: Readonly<Record<string, string>>) => ({ labels, value: 1 });
  metrics.gauge(
    "state_clock_offset_seconds",
    "By how much this machine's clock is ahead of the state database's",
    () => group.clock.offset / 1000,
  );
  metrics.gauge(
    "state_age_seconds",
    "How old what is decided by is; above 2 nothing is decided",
    () => group.age / 1000,
  );
  metrics.gauges(
    "state_instance_info",
    "Always 1; what this instance is called",
    ["instance"],
    () => [one({ instance: group.name })],
  );
  metrics.gauges(
    "state_member_info",
    "Always 1; who lives, as this instance sees it",
    ["instance"],
    () => group.members.map((instance) => one({ instance })),
  );
  metrics.gauges(
    "state_database_info",
    "Always 1; which server, and whether it is the primary; nothing while there is no connection",
    ["server", "role"],
    () => group.server === "" ? [] : [one({ server: group.server, role: "primary" })],
  );
}
