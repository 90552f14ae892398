import * as z from "@zod/zod";
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { parseJson, stringifyJson } from "@gateway/shared/json";
import type { ServiceLogger } from "@gateway/shared/service";
import type { FreezeSubject } from "@gateway/shared/wire";
import type { Freeze, RequestIdentity } from "./freezes.ts";
import { readSerial } from "./krl/certificates.ts";
import {
  type ApiAnswer,
  type BoundSecret,
  type ClusterAddress,
  type ClusterApi,
  faultOf,
  type TokenWish,
} from "@gateway/shared/kubernetes";
import type { StateStore } from "./state/store.ts";
import { isHeldBy, type Lease, leaseKey, leaseName, leasePath, leaseSecret, leasesPath } from "./lease.ts";

/** How much longer than its newest token a lease is kept: so often it is written to the store while it is used. */
const SLACK_MS = 600_000;
const DELETE_MS = 3_000;
/** 160 a second for as long as a token lives. */
const MAX_SERIALS = 100_000;
/** Between the moment that a token is wished for and the one that it is made. */
const ISSUING_MS = 60_000;
const MAX_ANSWER_BYTES = 1 << 20;
/** Whoever invents end users must not fill a cluster with Secrets. */
const MAX_LEASES_OF_CALLER = 1_000;

/** What {@linkcode TokenLeases} work with. */
interface TokenLeasesOptions {
  readonly store: Pick<
    StateStore,
    "survivesRestart" | "loadLeases" | "putLease" | "deleteLease" | "shared"
  >;
  /** The name of this signer among those that share the store; each has its own Secrets. Empty: there is one signer. */
  readonly instance: string;
  readonly api: ClusterApi;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  /** Called for every change that the store could not make. */
  readonly onStoreError: () => void;
  /** Where a cluster is by the config in force; `undefined`: it is in it no more. */
  readonly addressOf: (cluster: string) => ClusterAddress | undefined;
  readonly isFrozen: (identity: RequestIdentity) => boolean;
  readonly freezes: () => readonly FreezeSubject[];
}

const made = z.object({ metadata: z.object({ uid: z.string().min(1).max(128) }) });

/**
 * The Secrets that tokens are bound to. Each is in the store before it is in its cluster, and leaves the store after
 * it has left the cluster: a process that is killed leaves nothing behind that the next one does not know.
 */
export class TokenLeases {
  readonly #options: TokenLeasesOptions;
  readonly #leases = new Map<string, Lease>();
  /** The last change of each lease: one after another. */
  readonly #turns = new Map<string, Promise<unknown>>();
  /** Which lease the token of a serial is bound to, for as long as that may be valid. */
  readonly #serials = new Map<bigint, { readonly key: string; readonly until: number }>();
  /** Leases with tokens of serials that are not known, and until when they may be valid. */
  readonly #unknown = new Map<string, number>();
  /** The freezes that were last seen, of whichever signer. */
  #revoked: ReadonlySet<string> = new Set();
  /** Clusters that leases are left in, also when they are gone from the config. */
  readonly #addresses = new Map<string, ClusterAddress>();

  private constructor(options: TokenLeasesOptions, leases: readonly Lease[]) {
    this.#options = options;
    this.#take(leases);
  }

  /** Leases with tokens that others have made. */
  #take(leases: readonly Lease[]): void {
    for (const lease of leases) {
      this.#leases.set(leaseKey(lease), lease);
      this.#unknown.set(leaseKey(lease), lease.expiresAt);
      if (this.#addressOf(lease.cluster) === undefined) {
        this.#options.logger.warn(
          "a Secret is left in a cluster that the config no longer has; delete it by hand",
          {
            cluster: lease.cluster,
            secret: `${lease.namespace}/${lease.name}`,
          },
        );
      }
    }
  }

  /** @throws {AppError} `invalid_config` when the store has a lease that can't be read */
  static async open(options: TokenLeasesOptions): Promise<TokenLeases> {
    return new TokenLeases(options, await options.store.loadLeases());
  }

  /**
   * The Secret that a token of a wish is to be bound to, made where there is none.
   *
   * @param doing for messages
   * @param limit.deadline by when, in milliseconds since the epoch
   * @param limit.not a Secret that the API server does not know any more
   * @throws {AppError} as the API server's answer says, and `internal` when the store can't take it: what could not
   * be taken back must not be given out
   */
  ensure(
    wish: TokenWish,
    doing: string,
    { deadline, not }: { readonly deadline: number; readonly not?: BoundSecret },
  ): Promise<BoundSecret> {
    const { cluster, ca, holder, serial } = wish;
    const place = { cluster: cluster.name, namespace: cluster.leaseNamespace };
    const name = leaseName(place, holder, this.#options.instance);
    this.#addresses.set(cluster.name, { cluster, ca });
    return this.#inTurn(leaseKey({ cluster: cluster.name, name }), async (key) => {
      const known = this.#leases.get(key);
      const now = this.#options.clock.now();
      const end = now + cluster.tokenTtlSeconds * 1000;
      if (serial !== undefined) this.#remember(serial, { key, until: end + ISSUING_MS });
      const isUsable = known !== undefined && known.uid !== "" && known.uid !== not?.uid &&
        known.expiresAt > 0 &&
        known.namespace === cluster.leaseNamespace;
      const peers = known === undefined || !isUsable ? [] : known.peers;
      if (isUsable && known.expiresAt >= end && peers.includes(holder.peer)) return known;
      const lease: Lease = {
        cluster: cluster.name,
        namespace: cluster.leaseNamespace,
        name,
        uid: isUsable ? known.uid : "",
        caller: holder.caller,
        endUser: holder.endUser,
        peers: peers.includes(holder.peer) ? peers : [...peers, holder.peer],
        expiresAt: end + SLACK_MS,
      };
      if (known === undefined) this.#checkRoom(lease);
      await this.#put(lease);
      if (isUsable) return lease;
      const uid = await this.#create({ cluster, ca }, lease, doing, deadline);
      // A freeze may have come meanwhile: then it goes in its turn.
      const doomed = this.#leases.get(key)?.expiresAt === 0;
      const present: Lease = { ...lease, uid, ...(doomed && { expiresAt: 0 }) };
      await this.#put(present);
      return present;
    });
  }

  /**
   * Takes back what was issued to a subject: resolves when that is in the store, and goes on by itself. Serials are not
   * stored: one that is not known takes back all that a process before this one issued, for it may be among that.
   */
  async revoke(subject: FreezeSubject): Promise<number> {
    const now = this.#options.clock.now();
    let tokens = 0;
    const bySerial = subject.kind === "serial" ? this.#keysOf(subject.value) : [];
    for (const [key, lease] of this.#leases) {
      if ((!isHeldBy(lease, subject) && !bySerial.includes(key)) || lease.expiresAt === 0) continue;
      const known = this.#serials.values().filter((held) => held.key === key && held.until >= now);
      // The tokens of an earlier process are not known: at least one.
      tokens += Math.max(1, [...known].length);
      await this.#doom(lease);
      void this.#remove(key);
    }
    return tokens;
  }

  /** Likewise for each freeze that was not there at the last call. */
  async revokeNew(freezes: readonly Freeze[]): Promise<void> {
    const keys = freezes.map((freeze) => JSON.stringify(freeze));
    const known = this.#revoked;
    this.#revoked = new Set(keys);
    for (const [index, freeze] of freezes.entries()) {
      if (!known.has(keys[index] ?? "")) await this.revoke(freeze);
    }
  }

  /** Removes what no token needs any more, and what could not be removed before; for a periodic call. */
  async sweep(): Promise<void> {
    await this.#adopt();
    const now = this.#options.clock.now();
    for (const [serial, { until }] of this.#serials) if (until < now) this.#serials.delete(serial);
    for (const [key, until] of this.#unknown) if (until < now) this.#unknown.delete(key);
    const failing = new Set<string>();
    for (const key of [...this.#leases.keys()]) {
      // Meanwhile it may have been removed, or made anew.
      const lease = this.#leases.get(key);
      if (lease === undefined) continue;
      if (lease.expiresAt > 0 && this.#mustGo(lease)) await this.#doom(lease);
      if ((this.#leases.get(key)?.expiresAt ?? Infinity) > this.#options.clock.now()) continue;
      if (failing.has(lease.cluster)) continue;
      if (!await this.#remove(key)) failing.add(lease.cluster);
    }
  }

  /** Waits for what is under way; without a store that outlives the process, everything goes. */
  async close(): Promise<void> {
    if (!this.#options.store.survivesRestart) {
      for (const lease of this.#leases.values()) await this.#doom(lease);
      await this.sweep();
    }
    await Promise.allSettled(this.#turns.values());
  }

  /** What a signer left that is gone has to end like its own: a freeze may have come after its end. */
  async #adopt(): Promise<void> {
    const { store: { shared }, logger, onStoreError, freezes } = this.#options;
    if (shared === undefined) return;
    try {
      const adopted = await shared.adoptLeases();
      if (adopted.length === 0) return;
      this.#take(adopted);
      for (const subject of freezes()) await this.revoke(subject);
    } catch (error) {
      onStoreError();
      logger.warn("Secrets of signers that are gone are not taken over yet", { error });
    }
  }

  /** A cluster that was taken out of the config, and whoever is frozen whatever came between. */
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

  /** Which leases the token of a serial may be bound to. */
  #keysOf(value: string): readonly string[] {
    const serial = readSerial(value);
    if (serial === undefined) return [];
    const held = this.#serials.get(serial);
    return held === undefined ? [...this.#unknown.keys()] : [held.key];
  }

  #addressOf(cluster: string): ClusterAddress | undefined {
    const current = this.#options.addressOf(cluster);
    if (current !== undefined) this.#addresses.set(cluster, current);
    return current ?? this.#addresses.get(cluster);
  }

  #checkRoom({ cluster, caller }: Lease): void {
    const own = [...this.#leases.values()].filter((lease) =>
      lease.cluster === cluster && lease.caller === caller
    );
    if (own.length < MAX_LEASES_OF_CALLER) return;
    throw new AppError("rate_limited", `tokens of ${own.length} end users of this caller are in use`, {
      retryAfterSeconds: 60,
    });
  }

  async #create(at: ClusterAddress, lease: Lease, doing: string, deadline: number): Promise<string> {
    const create = () =>
      this.#ask(at, deadline, {
        method: "POST",
        path: leasesPath(lease.namespace),
        body: leaseSecret(lease.name),
      });
    let answer = await create();
    // Left by a process that was killed, or about to be removed: its uid is not known, and tokens may be bound to it.
    if (answer.kind === "answered" && answer.status === 409) {
      const removed = await this.#ask(at, deadline, { method: "DELETE", path: leasePath(lease) });
      if (!isGone(removed)) throw faultOf(removed, doing);
      answer = await create();
    }
    if (answer.kind !== "answered" || answer.status < 200 || answer.status > 299) {
      throw faultOf(answer, doing);
    }
    try {
      return made.parse(parseJson(answer.text)).metadata.uid;
    } catch (cause) {
      throw new AppError("upstream_failure", `${doing}: the API server's answer is no Secret`, { cause });
    }
  }

  #remove(key: string): Promise<boolean> {
    return this.#inTurn(key, async () => {
      const lease = this.#leases.get(key);
      // Used again while this waited for its turn.
      if (lease === undefined || lease.expiresAt > this.#options.clock.now()) return true;
      const at = this.#addressOf(lease.cluster);
      if (at === undefined) return false;
      const deadline = this.#options.clock.now() + DELETE_MS;
      const preconditions = lease.uid === "" ? {} : { body: { preconditions: { uid: lease.uid } } };
      const answer = await this.#ask(at, deadline, {
        method: "DELETE",
        path: leasePath(lease),
        ...preconditions,
      });
      // 409: another one has its name, and is another's to remove.
      if (!isGone(answer) && !(answer.kind === "answered" && answer.status === 409)) {
        this.#options.logger.warn("a Secret that tokens are bound to is not gone yet; it is tried again", {
          cluster: lease.cluster,
          secret: `${lease.namespace}/${lease.name}`,
          error: faultOf(answer, "deleting it").message,
        });
        return false;
      }
      await this.#stored(this.#options.store.deleteLease(lease));
      this.#leases.delete(key);
      this.#unknown.delete(key);
      return true;
    }).catch((error) => {
      this.#options.logger.warn("a Secret that tokens were bound to is not forgotten yet", { error });
      return false;
    });
  }

  /** In force at once, also where the store can't take it. */
  async #doom(lease: Lease): Promise<void> {
    const doomed = { ...lease, expiresAt: 0 };
    this.#leases.set(leaseKey(lease), doomed);
    try {
      await this.#stored(this.#options.store.putLease(doomed));
    } catch (error) {
      this.#options.logger.warn("that tokens are to be taken back is not stored", { error });
    }
  }

  /** What was doomed meanwhile stays so: {@linkcode TokenLeases.revoke} waits for no turn. */
  async #put(lease: Lease): Promise<void> {
    const key = leaseKey(lease);
    const before = this.#leases.get(key);
    await this.#stored(this.#options.store.putLease(lease));
    if (this.#leases.get(key) === before) this.#leases.set(key, lease);
    else await this.#doom(lease);
  }

  async #stored<T>(change: Promise<T>): Promise<T> {
    try {
      return await change;
    } catch (error) {
      this.#options.onStoreError();
      throw error;
    }
  }

  #ask(
    at: ClusterAddress,
    deadline: number,
    { method, path, body }: {
      readonly method: "POST" | "DELETE";
      readonly path: string;
      readonly body?: unknown;
    },
  ): Promise<ApiAnswer> {
    return this.#options.api.request(at, {
      method,
      path,
      ...(body !== undefined && {
        body: { type: "application/json", bytes: new TextEncoder().encode(stringifyJson(body)) },
      }),
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

function isGone(answer: ApiAnswer): boolean {
  return answer.kind === "answered" &&
    (answer.status === 404 || (answer.status >= 200 && answer.status < 300));
}
