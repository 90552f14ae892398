import type { AuditGate } from "@gateway/shared/audit";
import type { Clock, Random, Steps } from "@gateway/shared/clock";
import { type Peer, type TakeResult, TokenBuckets } from "@gateway/shared/http";
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
import { AppError } from "@gateway/shared/errors";
import type { SignRequest } from "@gateway/shared/wire";

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
  const storeErrors = metrics.counter("statedb_errors_total", "Failed writes to the state database");
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
    turns: new DecisionScheduler({ clock: parts.clock }),
    timings: {
      sign: metrics.histogram("signer_sign_duration_seconds", "Duration of sign requests", "exchange"),
      decision: metrics.histogram(
        "signer_decision_duration_seconds",
        "Duration of policy decisions",
        "computing",
      ),
    },
  };
}

/**
 * Rate limits of callers.
 *
 * A broker has one bucket whatever end user it names, because it could invent end users. Behind a trusted forwarder, each
 * end user of each broker has a bucket, so that one end user does not starve the others. Each broker also has a bucket
 * {@linkcode FORWARDED_CALLER_SHARE} times as large, so that inventing end users does not help. Dry runs and revocations
 * have separate buckets.
 */

/** The share of a broker behind a forwarder, for all its end users together. */
export const FORWARDED_CALLER_SHARE = 4;

/** Keys are bounded: names that begin with the same 256 characters share a bucket. */
const MAX_NAME_LENGTH = 256;

const USES = ["sign", "dry_run"] as const;

export interface SignSource {
  readonly peer: string;
  readonly isForwarder: boolean;
  /** 0 or less: no limit. */
  readonly perMinute: number;
}

export type CountedRequest = Pick<SignRequest, "on_behalf_of" | "end_user" | "dry_run" | "preflight">;

export class SignLimit {
  readonly #callers: TokenBuckets;
  /** Separate, so that invented end users push no caller out. */
  readonly #endUsers: TokenBuckets;

  constructor(options: { readonly clock: Clock }) {
    this.#callers = new TokenBuckets(options);
    this.#endUsers = new TokenBuckets(options);
  }

  /** Whether a request could pass, before its body is read. Takes nothing. */
  check(source: SignSource): TakeResult {
    // The body of a forwarder's request names its caller.
    if (source.isForwarder) return { ok: true };
    const { peer, perMinute } = source;
    const refusals = USES.map((use) => this.#callers.peek(keyOf(use, peer), perMinute));
    return refusals.find(({ ok }) => ok) ?? refusals[0] ?? { ok: true };
  }

  take(source: SignSource, request: CountedRequest): TakeResult {
    const { peer, isForwarder, perMinute } = source;
    const use: (typeof USES)[number] = request.dry_run && !request.preflight ? "dry_run" : "sign";
    if (!isForwarder) return this.#callers.take(keyOf(use, peer), perMinute);
    const callerKey = keyOf(use, peer, request.on_behalf_of);
    // The caller's bucket first: a rejected request leaves no bucket of an end user behind.
    const ofCaller = this.#callers.take(callerKey, perMinute * FORWARDED_CALLER_SHARE);
    if (!ofCaller.ok) return ofCaller;
    const endUserKey = keyOf(use, peer, request.on_behalf_of, request.end_user);
    const ofEndUser = this.#endUsers.take(endUserKey, perMinute);
    if (!ofEndUser.ok) this.#callers.giveBack(callerKey);
    return ofEndUser;
  }

  /**
   * Apart from signing: a caller without tokens for signing may still revoke. Agents can make a broker give up requests, which
   * leaves the end of sessions its tokens.
   */
  takeOf(use: "revoke" | "give up", caller: string, perMinute: number): TakeResult {
    return this.#callers.take(keyOf(use, caller), perMinute);
  }

  takeUnread(source: SignSource): TakeResult {
    return this.take(source, { on_behalf_of: "", end_user: "", dry_run: false, preflight: false });
  }
}

export function requireTaken(taken: TakeResult, message: string): void {
  if (taken.ok) return;
  const { retryAfterSeconds } = taken;
  throw new AppError("rate_limited", message, { retryAfterSeconds });
}

/** JSON has no separator to forge: names of forwarded requests are not checked yet. */
function keyOf(...parts: readonly string[]): string {
  return JSON.stringify(parts.map((part) => part.slice(0, MAX_NAME_LENGTH)));
}

/** How long decisions compute before other requests are answered, in milliseconds. */
const SLICE_MS = 1;

const PAUSE_MS = 1;

type Decision = (isOver: () => boolean) => boolean;

/**
 * Computes decisions in slices, the callers in turn: a caller with many or long commands delays neither the decisions of
 * other callers nor the routes that decide nothing, such as freeze.
 */
export class DecisionScheduler {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Decision[]>();
  #isServing = false;

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  run<T>(caller: string, steps: Steps<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const decision: Decision = (isOver) => {
        try {
          for (;;) {
            const step = steps.next();
            if (step.done === true) resolve(step.value);
            if (step.done === true || isOver()) return step.done === true;
          }
        } catch (error) {
          reject(error);
          return true;
        }
      };
      const own = this.#waiting.get(caller);
      if (own === undefined) this.#waiting.set(caller, [decision]);
      else own.push(decision);
      if (!this.#isServing) void this.#serve();
    });
  }

  async #serve(): Promise<void> {
    this.#isServing = true;
    let from = this.#clock.now();
    // The clock can be set back.
    const isOver = () => Math.abs(this.#clock.now() - from) >= SLICE_MS;
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined) break;
      const [caller, decisions] = next;
      if (decisions[0]?.(isOver) === true) decisions.shift();
      this.#waiting.delete(caller);
      if (decisions.length > 0) this.#waiting.set(caller, decisions);
      if (!isOver()) continue;
      await this.#clock.sleep(PAUSE_MS);
      from = this.#clock.now();
    }
    this.#isServing = false;
  }
}
