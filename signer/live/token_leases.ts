import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { parseJson } from "@gateway/shared/json";
import {
  type ApiAnswer,
  type BoundSecret,
  type ClusterAddress,
  type ClusterApi,
  faultOf,
  jsonBody,
  type TokenHolder,
  type TokenSpec,
} from "@gateway/shared/kubernetes";
import type { ServiceLogger } from "@gateway/shared/service";
import { Durable } from "@gateway/shared/state";
import type { FreezeSubject } from "@gateway/shared/wire";
import * as z from "@zod/zod";
import { createHash } from "node:crypto";
import { type Freeze, isScopedTo, type RequestIdentity } from "./freezes.ts";
import { readSerial } from "./krl/certificates.ts";
import type { SignerStore } from "./state/postgres.ts";
import type { Lease } from "./state/schema.ts";

/**
 * How long a lease is kept after the expiry of its newest token. A lease in use is stored again after this
 * time.
 */
const SLACK_MS = 600_000;
const DELETE_MS = 3_000;
/** The maximum number of remembered serials: 160 a second for the lifetime of a token. */
const MAX_SERIALS = 100_000;
/** The time that issuing a token may take. */
const ISSUING_MS = 60_000;
const MAX_ANSWER_BYTES = 1 << 20;
/**
 * The maximum number of leases of a caller. It prevents a caller that invents end users from filling a
 * cluster with Secrets.
 */
const MAX_LEASES_OF_CALLER = 1_000;

interface TokenLeasesOptions {
  readonly store: Pick<
    SignerStore,
    "survivesRestart" | "loadLeases" | "putLease" | "deleteLease" | "shared"
  >;
  /**
   * The name of this signer among those that share the store. Each signer has its own Secrets. Empty if there
   * is one signer.
   */
  readonly instance: string;
  readonly api: ClusterApi;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  readonly onStoreError: () => void;
  /** The address of a cluster; `undefined` if the config in force does not contain the cluster. */
  readonly addressOf: (cluster: string) => ClusterAddress | undefined;
  readonly isFrozen: (identity: RequestIdentity) => boolean;
  readonly freezes: () => readonly FreezeSubject[];
}

const made = z.object({ metadata: z.object({ uid: z.string().min(1).max(128) }) });

/**
 * The name of the Secret of a holder. The name is deterministic, so that the signer finds a Secret that a
 * killed process left. The signer can create and delete Secrets, but cannot read or list them.
 *
 * @param instance the name of this signer; empty if there is one signer
 */
export function leaseName(
  { cluster, namespace }: Pick<Lease, "cluster" | "namespace">,
  { caller, endUser }: Pick<TokenHolder, "caller" | "endUser">,
  instance = "",
): string {
  const parts = [cluster, caller, endUser, namespace, ...(instance === "" ? [] : [instance])];
  const digest = createHash("sha256").update(JSON.stringify(parts)).digest("hex");
  return `gateway-lease-${digest.slice(0, 32)}`;
}

/**
 * The Secrets that tokens are bound to. A lease is stored before its Secret is created, and removed from the
 * store after its Secret is deleted. Therefore a process that is killed leaves no Secret that the next
 * process does not know.
 */
export class TokenLeases {
  readonly #options: TokenLeasesOptions;
  readonly #durable: Durable<Map<string, Lease>>;
  /** The pending changes of each lease, which run one after another. */
  readonly #turns = new Map<string, Promise<unknown>>();
  /** The lease of the token with each serial, for as long as the token may be valid. */
  readonly #serials = new Map<bigint, { readonly key: string; readonly until: number }>();
  /** Leases that have tokens with unknown serials, and the time until which these tokens may be valid. */
  readonly #unknown = new Map<string, number>();
  #revoked: ReadonlySet<string> = new Set();
  /** Clusters that have leases, including clusters that the config no longer contains. */
  readonly #addresses = new Map<string, ClusterAddress>();

  private constructor(options: TokenLeasesOptions, leases: readonly Lease[]) {
    this.#options = options;
    this.#durable = new Durable(new Map(), options);
    this.#take(leases);
  }

  /** @throws {AppError} `invalid_config` if the store has a lease that cannot be read */
  static async open(options: TokenLeasesOptions): Promise<TokenLeases> {
    return new TokenLeases(options, await options.store.loadLeases());
  }

  get #leases(): Map<string, Lease> {
    return this.#durable.view;
  }

  /** Adds leases whose tokens other processes requested. */
  #take(leases: readonly Lease[]): void {
    for (const lease of leases) {
      this.#leases.set(keyOf(lease), lease);
      this.#unknown.set(keyOf(lease), lease.expiresAt);
      if (this.#addressOf(lease.cluster) !== undefined) continue;
      this.#options.logger.warn(
        "a Secret is left in a cluster that is no longer in the config; delete it manually",
        { cluster: lease.cluster, secret: `${lease.namespace}/${lease.name}` },
      );
    }
  }

  /**
   * Returns the Secret that a requested token is to be bound to. Creates it if there is none.
   *
   * @param doing the operation, for messages
   * @param limit.deadline in milliseconds since the epoch
   * @param limit.not a Secret that the API server no longer has
   * @throws {AppError} by the API server's answer, and `internal` if the store cannot save the lease: a token that could
   * not be revoked must not be released
   */
  ensure(
    { cluster, ca, holder, serial }: TokenSpec,
    doing: string,
    { deadline, not }: { readonly deadline: number; readonly not?: BoundSecret },
  ): Promise<BoundSecret> {
    const { clock, instance } = this.#options;
    const { caller, endUser, peer } = holder;
    const place = { cluster: cluster.name, namespace: cluster.leaseNamespace };
    const name = leaseName(place, holder, instance);
    this.#addresses.set(cluster.name, { cluster, ca });
    return this.#inTurn(keyOf({ ...place, name }), async (key) => {
      const known = this.#leases.get(key);
      const end = clock.now() + cluster.tokenTtlSeconds * 1000;
      if (serial !== undefined) this.#remember(serial, { key, until: end + ISSUING_MS });
      const isUsable = known !== undefined && known.uid !== "" && known.uid !== not?.uid &&
        known.expiresAt > 0 && known.namespace === place.namespace;
      const peers = isUsable ? known.peers : [];
      if (isUsable && known.expiresAt >= end && peers.includes(peer)) return known;
      const lease: Lease = {
        ...{ ...place, name, caller, endUser },
        uid: isUsable ? known.uid : "",
        peers: peers.includes(peer) ? peers : [...peers, peer],
        expiresAt: end + SLACK_MS,
      };
      if (known === undefined) this.#checkRoom(lease);
      await this.#put(lease);
      if (isUsable) return lease;
      const uid = await this.#create({ cluster, ca }, lease, doing, deadline);
      // A freeze may have revoked the lease during the request. The Secret is then deleted by the next change
      // of the lease.
      const isDoomed = this.#leases.get(key)?.expiresAt === 0;
      const present: Lease = { ...lease, uid, ...(isDoomed && { expiresAt: 0 }) };
      await this.#put(present);
      return present;
    });
  }

  /**
   * Revokes the tokens of a subject. Resolves when the revocation is stored, and continues in the background. Serials are
   * not stored: an unknown serial revokes all tokens of earlier processes, because it may be among them.
   *
   * @returns the minimum number of revoked tokens
   */
  async revoke(subject: FreezeSubject): Promise<number> {
    const now = this.#options.clock.now();
    let tokens = 0;
    const serial = subject.kind === "serial" ? readSerial(subject.value) : undefined;
    const held = serial === undefined ? undefined : this.#serials.get(serial);
    const bySerial = serial === undefined ? [] : held === undefined ? [...this.#unknown.keys()] : [held.key];
    for (const [key, lease] of this.#leases) {
      const { caller, endUser, peers } = lease;
      const isHeld = [caller, ...peers].some((name) => isScopedTo({ caller: name, endUser }, subject));
      if ((!isHeld && !bySerial.includes(key)) || lease.expiresAt === 0) continue;
      const known = this.#serials.values().filter((held) => held.key === key && held.until >= now);
      tokens += Math.max(1, [...known].length);
      await this.#doom(lease);
      void this.#remove(key);
    }
    return tokens;
  }

  /** Revokes the tokens of each freeze that did not exist at the last call. */
  async revokeNew(freezes: readonly Freeze[]): Promise<void> {
    const known = this.#revoked;
    this.#revoked = new Set(freezes.map((freeze) => JSON.stringify(freeze)));
    for (const freeze of freezes) {
      if (!known.has(JSON.stringify(freeze))) await this.revoke(freeze);
    }
  }

  /** Deletes Secrets that no token needs, and retries failed deletions. Call it periodically. */
  async sweep(): Promise<void> {
    const { clock } = this.#options;
    await this.#adopt();
    const now = clock.now();
    for (const [serial, { until }] of this.#serials) if (until < now) this.#serials.delete(serial);
    for (const [key, until] of this.#unknown) if (until < now) this.#unknown.delete(key);
    const failing = new Set<string>();
    for (const key of [...this.#leases.keys()]) {
      // The lease may have been removed or replaced since the list was read.
      const lease = this.#leases.get(key);
      if (lease === undefined) continue;
      if (lease.expiresAt > 0 && this.#mustGo(lease)) await this.#doom(lease);
      if ((this.#leases.get(key)?.expiresAt ?? Infinity) > clock.now()) continue;
      if (failing.has(lease.cluster)) continue;
      if (!await this.#remove(key)) failing.add(lease.cluster);
    }
  }

  /** Waits for pending changes. If the store is in memory, deletes all Secrets. */
  async close(): Promise<void> {
    if (!this.#options.store.survivesRestart) {
      for (const lease of this.#leases.values()) await this.#doom(lease);
      await this.sweep();
    }
    await Promise.allSettled(this.#turns.values());
  }

  /** Adopts the leases of a stopped signer, so that later freezes also revoke the tokens of that signer. */
  async #adopt(): Promise<void> {
    const { store: { shared }, logger, freezes } = this.#options;
    if (shared === undefined) return;
    try {
      await this.#durable.write(async () => {
        const adopted = await shared.adoptLeases();
        this.#take(adopted);
        if (adopted.length > 0) { for (const subject of freezes()) await this.revoke(subject); }
      });
    } catch (error) {
      logger.warn("adopting Secrets of removed signers failed, retrying", { error });
    }
  }

  /**
   * Whether the Secret must be deleted, because the cluster was removed from the config or a holder is
   * frozen.
   */
  #mustGo({ cluster, caller, endUser, peers }: Lease): boolean {
    if (this.#options.addressOf(cluster) === undefined) return this.#addresses.has(cluster);
    return peers.some((peer) => this.#options.isFrozen({ caller, endUser, peer }));
  }

  #remember(serial: bigint, held: { readonly key: string; readonly until: number }): void {
    this.#serials.set(serial, held);
    const [oldest] = this.#serials;
    if (this.#serials.size <= MAX_SERIALS || oldest === undefined) return;
    const [forgotten, { key, until }] = oldest;
    this.#serials.delete(forgotten);
    this.#unknown.set(key, Math.max(until, this.#unknown.get(key) ?? 0));
  }

  #addressOf(cluster: string): ClusterAddress | undefined {
    const current = this.#options.addressOf(cluster);
    if (current !== undefined) this.#addresses.set(cluster, current);
    return current ?? this.#addresses.get(cluster);
  }

  #checkRoom({ cluster, caller }: Lease): void {
    const own = this.#leases.values().filter((lease) => lease.cluster === cluster && lease.caller === caller);
    const { length } = [...own];
    if (length < MAX_LEASES_OF_CALLER) return;
    throw new AppError("rate_limited", `tokens of ${length} end users of this caller are in use`, {
      retryAfterSeconds: 60,
    });
  }

  async #create(at: ClusterAddress, lease: Lease, doing: string, deadline: number): Promise<string> {
    const create = () =>
      this.#ask(at, deadline, "POST", secretsPath(lease), {
        apiVersion: "v1",
        kind: "Secret",
        metadata: { name: lease.name, labels: { "app.kubernetes.io/managed-by": "gateway" } },
        type: "Opaque",
        immutable: true,
      });
    let answer = await create();
    // A killed process left the Secret, or it is about to be deleted. Its UID is unknown and tokens may be
    // bound to it, so replace it.
    if (answer.kind === "answered" && answer.status === 409) {
      const removed = await this.#ask(at, deadline, "DELETE", secretPath(lease));
      if (!isGone(removed)) throw faultOf(removed, doing);
      answer = await create();
    }
    if (answer.kind !== "answered" || answer.status < 200 || answer.status > 299) {
      throw faultOf(answer, doing);
    }
    try {
      return made.parse(parseJson(answer.text)).metadata.uid;
    } catch (cause) {
      throw new AppError("upstream_failure", `${doing}: the API server's answer is not a Secret`, { cause });
    }
  }

  #remove(key: string): Promise<boolean> {
    const { clock, logger, store } = this.#options;
    return this.#inTurn(key, async () => {
      const lease = this.#leases.get(key);
      // The lease was used again while this change waited.
      if (lease === undefined || lease.expiresAt > clock.now()) return true;
      const at = this.#addressOf(lease.cluster);
      if (at === undefined) return false;
      const body = lease.uid === "" ? undefined : { preconditions: { uid: lease.uid } };
      const answer = await this.#ask(at, clock.now() + DELETE_MS, "DELETE", secretPath(lease), body);
      // 409: the name belongs to a Secret of another signer.
      if (!isGone(answer) && !(answer.kind === "answered" && answer.status === 409)) {
        logger.warn("deleting the Secret of tokens failed, retrying", {
          cluster: lease.cluster,
          secret: `${lease.namespace}/${lease.name}`,
          error: faultOf(answer, "deleting it").message,
        });
        return false;
      }
      await this.#durable.write(() => store.deleteLease(lease));
      this.#leases.delete(key);
      this.#unknown.delete(key);
      return true;
    }).catch((error) => {
      logger.warn("removing the record of a deleted Secret failed, retrying", { error });
      return false;
    });
  }

  /** Marks a lease for deletion. This takes effect immediately, even if the store cannot save it. */
  async #doom(lease: Lease): Promise<void> {
    const doomed = { ...lease, expiresAt: 0 };
    this.#leases.set(keyOf(lease), doomed);
    await this.#durable.write(() => this.#options.store.putLease(doomed)).catch((error) =>
      this.#options.logger.warn("pending token revocation not stored", { error })
    );
  }

  /**
   * Stores a lease. A lease that was marked for deletion in the meantime stays marked, because {@linkcode
   * TokenLeases.revoke} does not wait for other changes.
   */
  async #put(lease: Lease): Promise<void> {
    const before = this.#leases.get(keyOf(lease));
    await this.#durable.write(() => this.#options.store.putLease(lease));
    if (this.#leases.get(keyOf(lease)) === before) this.#leases.set(keyOf(lease), lease);
    else await this.#doom(lease);
  }

  #ask(
    at: ClusterAddress,
    deadline: number,
    method: "POST" | "DELETE",
    path: string,
    body?: unknown,
  ): Promise<ApiAnswer> {
    return this.#options.api.request(at, {
      method,
      path,
      ...(body !== undefined && { body: jsonBody(body) }),
      timeoutMs: Math.max(1, deadline - this.#options.clock.now()),
      maxBytes: MAX_ANSWER_BYTES,
    });
  }

  #inTurn<T>(key: string, change: (key: string) => Promise<T>): Promise<T> {
    const before = this.#turns.get(key) ?? Promise.resolve();
    const turn = before.then(() => change(key), () => change(key));
    this.#turns.set(key, turn);
    const forget = () => {
      if (this.#turns.get(key) === turn) this.#turns.delete(key);
    };
    turn.then(forget, forget);
    return turn;
  }
}

function keyOf({ cluster, name }: Pick<Lease, "cluster" | "name">): string {
  return `${cluster} ${name}`;
}

function secretsPath({ namespace }: Lease): string {
  return `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets`;
}

function secretPath(lease: Lease): string {
  return `${secretsPath(lease)}/${encodeURIComponent(lease.name)}`;
}

function isGone(answer: ApiAnswer): boolean {
  return answer.kind === "answered" &&
    (answer.status === 404 || (answer.status >= 200 && answer.status < 300));
}
