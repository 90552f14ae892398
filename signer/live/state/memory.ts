/**
 * State that lives as long as the process: what a service uses without `state_db`.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { MemoryStore } from "./memory.ts";
 *
 * assert.equal(new MemoryStore().survivesRestart, false);
 * ```
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import { type Freeze, isSameSubject, isScopedTo } from "../freezes.ts";
import type { Grant } from "@gateway/shared/policy";
import { type Lease, leaseKey } from "../lease.ts";
import type { FreezeSubject } from "@gateway/shared/wire";
import { checkStorable } from "@gateway/shared/state";
import type { IssuedBatch } from "../krl/issued.ts";
import { CLOCK_SKEW_SECONDS, type KeptRevocation, REVOCATION_SECONDS } from "../krl/revocations.ts";
import type { StateStore } from "../store.ts";

/** A {@linkcode StateStore} in memory. */
export class MemoryStore implements StateStore {
  readonly survivesRestart = false;
  readonly #grants = new Map<string, Grant>();
  #freezes: readonly Freeze[] = [];
  #certificates: readonly IssuedBatch[] = [];
  #revocations: readonly KeptRevocation[] = [];
  #krlVersion = 0;
  readonly #leases = new Map<string, Lease>();
  #closed = false;

  loadGrants(now: number): Promise<readonly Grant[]> {
    return this.#run(() =>
      [...this.#grants.values()].filter(({ expiresAt }) => expiresAt > now)
        .sort((a, b) => a.grantedAt - b.grantedAt || (a.id < b.id ? -1 : 1))
    );
  }

  insertGrant(grant: Grant, replaces: readonly string[] = []): Promise<void> {
    return this.#run(() => {
      checkStorable([...textsOf(grant), ...replaces]);
      if (this.#grants.has(grant.id) && !replaces.includes(grant.id)) {
        throw new AppError(
          "internal",
          "The change could not be stored: there is already a grant with this id",
        );
      }
      for (const id of replaces) this.#grants.delete(id);
      this.#grants.set(grant.id, {
        ...grant,
        grantedAt: wholeSeconds(grant.grantedAt),
        expiresAt: wholeSeconds(grant.expiresAt),
      });
    });
  }

  deleteGrant(id: string): Promise<boolean> {
    return this.#run(() => this.#grants.delete(id));
  }

  purgeExpired(now: number): Promise<number> {
    return this.#run(() => {
      this.#certificates = this.#certificates.filter((batch) => isBelieved(batch, now));
      this.#revocations = this.#revocations.filter(({ revokedAt }) =>
        revokedAt > now - REVOCATION_SECONDS * 1000
      );
      return this.#deleteGrants(({ expiresAt }) => expiresAt <= now);
    });
  }

  loadFreezes(): Promise<readonly Freeze[]> {
    return this.#run(() => this.#freezes);
  }

  putFreeze(freeze: Freeze): Promise<void> {
    return this.#run(() => {
      checkStorable([freeze.value, freeze.reason, freeze.frozenBy]);
      const kept = { ...freeze, frozenAt: wholeSeconds(freeze.frozenAt) };
      this.#freezes = [...this.#freezes.filter((other) => !isSameSubject(other, freeze)), kept];
      this.#deleteGrants((grant) => isScopedTo(grant, freeze));
    });
  }

  deleteFreeze(subject: FreezeSubject): Promise<boolean> {
    return this.#run(() => {
      const rest = this.#freezes.filter((freeze) => !isSameSubject(freeze, subject));
      if (rest.length === this.#freezes.length) return false;
      this.#freezes = rest;
      this.#deleteGrants((grant) => isScopedTo(grant, subject));
      return true;
    });
  }

  loadCertificates(now: number): Promise<readonly IssuedBatch[]> {
    return this.#run(() => this.#certificates.filter((batch) => isBelieved(batch, now)));
  }

  addCertificates(batches: readonly IssuedBatch[]): Promise<void> {
    return this.#run(() => {
      for (const { holder } of batches) {
        checkStorable(Object.values(holder).filter((value) => typeof value === "string"));
      }
      this.#certificates = [...this.#certificates, ...batches];
    });
  }

  loadRevocations(since: number): Promise<readonly KeptRevocation[]> {
    return this.#run(() => this.#revocations.filter(({ revokedAt }) => revokedAt > since));
  }

  putRevocations(revocations: readonly KeptRevocation[], version?: number): Promise<number> {
    return this.#run(() => {
      checkStorable(revocations.map(({ value }) => value));
      for (const { kind, value, revokedAt } of revocations) {
        const isSame = (other: KeptRevocation) => other.kind === kind && other.value === value;
        const later = Math.max(
          wholeSeconds(revokedAt),
          this.#revocations.find(isSame)?.revokedAt ?? -Infinity,
        );
        const others = this.#revocations.filter((other) => !isSame(other));
        this.#revocations = [...others, { kind, value, revokedAt: later }];
      }
      if (version !== undefined) this.#krlVersion = Math.max(this.#krlVersion + 1, version);
      return this.#krlVersion;
    });
  }

  loadKrlVersion(): Promise<number> {
    return this.#run(() => this.#krlVersion);
  }

  loadLeases(): Promise<readonly Lease[]> {
    return this.#run(() => [...this.#leases.values()]);
  }

  putLease(lease: Lease): Promise<void> {
    return this.#run(() => {
      const { cluster, name, namespace, uid, caller, endUser, peers } = lease;
      checkStorable([cluster, name, namespace, uid, caller, endUser, ...peers]);
      this.#leases.set(leaseKey(lease), { ...lease, expiresAt: wholeSeconds(lease.expiresAt) });
    });
  }

  deleteLease(lease: Pick<Lease, "cluster" | "name">): Promise<void> {
    return this.#run(() => void this.#leases.delete(leaseKey(lease)));
  }

  checkpoint(): Promise<void> {
    return this.#run(() => {});
  }

  close(): Promise<void> {
    this.#closed = true;
    return Promise.resolve();
  }

  // deno-lint-ignore require-await -- what the action throws becomes a rejection
  async #run<T>(action: () => T): Promise<T> {
    if (this.#closed) throw new AppError("internal", "The state store is closed");
    return action();
  }

  #deleteGrants(matches: (grant: Grant) => boolean): number {
    const ids = [...this.#grants.values()].filter(matches).map(({ id }) => id);
    for (const id of ids) this.#grants.delete(id);
    return ids.length;
  }
}

function textsOf(grant: Grant): readonly string[] {
  return [
    grant.id,
    grant.host,
    grant.caller,
    grant.endUser,
    grant.sudoUser,
    grant.approver,
    grant.approvalId,
  ];
}

function isBelieved({ validBefore }: IssuedBatch, now: number): boolean {
  return (validBefore + CLOCK_SKEW_SECONDS) * 1000 > now;
}

function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1000) * 1000;
}
