import type { AuditGate } from "@gateway/shared/audit";
import type { Clock, Random } from "@gateway/shared/clock";
import type { Peer } from "@gateway/shared/http";
import { ALONE, type InstanceGroup, type SharedGroup } from "@gateway/shared/instances";
import type { ClusterApi } from "@gateway/shared/kubernetes";
import type { Metrics, ServiceLogger } from "@gateway/shared/service";
import { ChangeLock } from "@gateway/shared/state";
import { clusterAddress, type ConfigFile, type Snapshot } from "../config/snapshot.ts";
import { KnownSubjects } from "../live/freezes.ts";
import { type LogReader, RevocationList } from "../live/krl/revocation_list.ts";
import { LiveState } from "../live/live_state.ts";
import { PolicySource, SignerState } from "../live/policy.ts";
import type { SignerStore } from "../live/state/postgres.ts";
import { TokenLeases } from "../live/token_leases.ts";
import { DecisionTurns, SignLimit } from "./limits.ts";

interface AuthorityParts {
  readonly initial: Snapshot;
  readonly configFile: ConfigFile;
  readonly store: SignerStore;
  readonly group?: SharedGroup | undefined;
  readonly instances?: InstanceGroup;
  readonly gate: AuditGate;
  readonly log: LogReader;
  readonly clusters: ClusterApi;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: ServiceLogger;
}

export interface Call<Part extends string = never> {
  readonly request: Request;
  readonly peer: Peer;
  readonly param: (name: Part) => string;
}

export type Authority = Awaited<ReturnType<typeof openAuthority>>;

/**
 * Opens all that the signer decides by and keeps. Every route depends on this one object.
 *
 * @param opened closes what is opened here
 * @throws {AppError} `invalid_config` if the store has a deny that cannot be read, or hosts are in the wrong place
 */
export async function openAuthority(parts: AuthorityParts, opened: AsyncDisposableStack) {
  const { initial, configFile, store, group, gate, log, clusters, metrics, random, logger } = parts;
  const { config } = initial;
  // Instances compare times of one clock.
  const clock = group?.clock ?? parts.clock;
  const lock = new ChangeLock();
  const storeErrors = metrics.counter(
    "statedb_errors_total",
    "Failed writes to the state database",
  );
  const durable = { store, clock, logger, onStoreError: () => storeErrors.inc() };
  const live = await LiveState.open({ ...durable, random, lock });
  opened.defer(() => live.close());
  const krl = await RevocationList.open({
    ...durable,
    ...log,
    forwarders: config.trusted_forwarders,
    async onLost(answers) {
      for (const { caller, serial, isToken, reason } of answers) {
        const command = `revoked serial=${serial} reason=${reason}`;
        await gate.bestEffort({ caller, serial, command, outcome: "revoked" });
        if (isToken) await leases.revoke({ kind: "serial", value: serial.toString() });
      }
    },
  }, live.view.freezes);
  opened.defer(() => krl.close());
  metrics.gauge("krl_version", "Version of the key revocation list", () => krl.current.version);
  const policySource = new PolicySource({
    ...{ from: config.policy_source, configFile, versions: store.shared?.policy, logger },
  });
  policySource.checkFile(config);
  const state: SignerState = new SignerState({
    ...{ initial, gate, logger, lock, clock: parts.clock },
    load: (previous) => policySource.load(previous),
  });
  metrics.gauge(
    "config_last_reload_successful",
    "1 if the last config reload succeeded, else 0",
    () => Number(state.lastReload.succeeded),
  );
  metrics.gauge(
    "config_last_reload_success_timestamp_seconds",
    "Load time of the current config, in seconds since the epoch",
    () => Math.floor(state.lastReload.at / 1000),
  );
  const leases = await TokenLeases.open({
    ...durable,
    api: clusters,
    instance: group?.name ?? "",
    addressOf: (name) => clusterAddress(state.current, name),
    isFrozen: (identity) => live.findFreeze(identity) !== undefined,
    freezes: () => Object.values(live.view.freezes).flatMap((each) => [...each.values()]),
  });
  opened.defer(() => leases.close());
  const requests = metrics.counter(
    "signer_sign_requests_total",
    "Sign requests by audit outcome",
    ["outcome"],
  );
  const instances = parts.instances ?? group ?? ALONE;
  return {
    ...{ state, live, krl, leases, policySource, configFile },
    ...{ instances, gate, clusters, clock, random, logger, requests },
    knownSubjects: new KnownSubjects(),
    signLimit: new SignLimit({ clock: parts.clock }),
    turns: new DecisionTurns({ clock: parts.clock }),
    timings: {
      sign: metrics.histogram(
        "signer_sign_duration_seconds",
        "Duration of sign requests",
        "exchange",
      ),
      decision: metrics.histogram(
        "signer_decision_duration_seconds",
        "Duration of policy decisions",
        "computing",
      ),
    },
  };
}
