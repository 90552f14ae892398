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
import { PasskeyCounters } from "../live/passkey_counters.ts";
import { LiveState } from "../live/live_state.ts";
import { SessionReports } from "../live/session_reports.ts";
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
 * Opens the policy, the state and the limits of the signer. Every route depends on this object.
 *
 * @param opened closes the parts that are opened here
 * @throws {AppError} `invalid_config` if the store has a deny that cannot be read, or hosts are in the wrong
 * place
 */
export async function openAuthority(parts: AuthorityParts, opened: AsyncDisposableStack) {
  const { initial, configFile, store, group, gate, log, clusters, metrics, random, logger } = parts;
  const { config } = initial;
  // Instances compare times by one shared clock.
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
    sessionReports: new SessionReports(),
    passkeyCounters: new PasskeyCounters(),
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
 * A broker has one bucket for all its end users, because it could invent end users. Behind a trusted
 * forwarder, each end user of each broker has a bucket, so that one end user does not starve the others. Each
 * broker also has a bucket {@linkcode FORWARDED_CALLER_SHARE} times as large, so that inventing end users
 * does not help. Dry runs and revocations have separate buckets.
 */

/**
 * The size of the bucket for all end users of a broker behind a forwarder, relative to the bucket of one end
 * user.
 */
export const FORWARDED_CALLER_SHARE = 4;

/** The maximum length of a name in a key. Names that share their first 256 characters share a bucket. */
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
  /** Separate from the buckets of callers, so that invented end users cannot displace a caller. */
  readonly #endUsers: TokenBuckets;

  constructor(options: { readonly clock: Clock }) {
    this.#callers = new TokenBuckets(options);
    this.#endUsers = new TokenBuckets(options);
  }

  /** Whether a request would be within the limits, before its body is read. Takes no token. */
  check(source: SignSource): TakeResult {
    // The body of a forwarded request names the caller, so the limits are checked after the body is read.
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
    // Check the caller's bucket first, so that a rejected request creates no bucket for an end user.
    const ofCaller = this.#callers.take(callerKey, perMinute * FORWARDED_CALLER_SHARE);
    if (!ofCaller.ok) return ofCaller;
    const endUserKey = keyOf(use, peer, request.on_behalf_of, request.end_user);
    const ofEndUser = this.#endUsers.take(endUserKey, perMinute);
    if (!ofEndUser.ok) this.#callers.giveBack(callerKey);
    return ofEndUser;
  }

  /**
   * Takes a token for a revocation or a report of sessions. These buckets are separate from signing, so that a caller that has used
   * up its tokens for signing can still revoke. Abandoned requests have their own bucket, because agents can
   * cause many of them, and the revocations of ended sessions need theirs.
   */
  takeOf(use: "revoke" | "give up" | "report", caller: string, perMinute: number): TakeResult {
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

/** A key as JSON, which has no separator that an unchecked name of a forwarded request could imitate. */
function keyOf(...parts: readonly string[]): string {
  return JSON.stringify(parts.map((part) => part.slice(0, MAX_NAME_LENGTH)));
}

/** The time for which decisions are computed before other requests are answered, in milliseconds. */
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
