import { AppError } from "@gateway/shared/errors";
import type { Freeze } from "../live/freezes.ts";
import type { Grant } from "@gateway/shared/policy";
import type { FreezeSubject } from "@gateway/shared/wire";
import type { Lease } from "../live/lease.ts";
import type { IssuedBatch } from "../live/krl/issued.ts";
import type { KeptRevocation } from "../live/krl/revocations.ts";
import { openSqliteStore } from "../live/state/sqlite.ts";
import type { StateStore } from "../live/store.ts";

/** A change of the store that a test can make fail or wait. */
export type StoreMethod =
  | "insertGrant"
  | "deleteGrant"
  | "purgeExpired"
  | "putFreeze"
  | "deleteFreeze"
  | "addCertificates"
  | "putRevocations"
  | "putLease"
  | "deleteLease"
  | "checkpoint";

/** A store as the signer opens it without `state_db`. */
export function memoryStore(): StateStore {
  return openSqliteStore({ path: "", warn() {} });
}

/** A store over memory whose disk fails, or is slow, where a test says so. */
export class FailingStore implements StateStore {
  readonly survivesRestart = true;
  /** The changes asked for, in their order. */
  readonly calls: StoreMethod[] = [];
  /** These fail, before they change anything. */
  readonly failing = new Set<StoreMethod>();
  /** These wait for the promise first. */
  readonly held = new Map<StoreMethod, Promise<unknown>>();
  readonly #store: StateStore;

  constructor(store: StateStore = memoryStore()) {
    this.#store = store;
  }

  loadGrants(now: number): Promise<readonly Grant[]> {
    return this.#store.loadGrants(now);
  }

  loadFreezes(): Promise<readonly Freeze[]> {
    return this.#store.loadFreezes();
  }

  insertGrant(grant: Grant, replaces?: readonly string[]): Promise<void> {
    return this.#run("insertGrant", () => this.#store.insertGrant(grant, replaces));
  }

  deleteGrant(id: string): Promise<boolean> {
    return this.#run("deleteGrant", () => this.#store.deleteGrant(id));
  }

  purgeExpired(now: number): Promise<number> {
    return this.#run("purgeExpired", () => this.#store.purgeExpired(now));
  }

  putFreeze(freeze: Freeze): Promise<void> {
    return this.#run("putFreeze", () => this.#store.putFreeze(freeze));
  }

  deleteFreeze(subject: FreezeSubject): Promise<boolean> {
    return this.#run("deleteFreeze", () => this.#store.deleteFreeze(subject));
  }

  loadCertificates(now: number): Promise<readonly IssuedBatch[]> {
    return this.#store.loadCertificates(now);
  }

  addCertificates(batches: readonly IssuedBatch[]): Promise<void> {
    return this.#run("addCertificates", () => this.#store.addCertificates(batches));
  }

  loadRevocations(since: number): Promise<readonly KeptRevocation[]> {
    return this.#store.loadRevocations(since);
  }

  putRevocations(revocations: readonly KeptRevocation[], version?: number): Promise<number> {
    return this.#run("putRevocations", () => this.#store.putRevocations(revocations, version));
  }

  loadKrlVersion(): Promise<number> {
    return this.#store.loadKrlVersion();
  }

  loadLeases(): Promise<readonly Lease[]> {
    return this.#store.loadLeases();
  }

  putLease(lease: Lease): Promise<void> {
    return this.#run("putLease", () => this.#store.putLease(lease));
  }

  deleteLease(lease: Pick<Lease, "cluster" | "name">): Promise<void> {
    return this.#run("deleteLease", () => this.#store.deleteLease(lease));
  }

  checkpoint(): Promise<void> {
    return this.#run("checkpoint", () => this.#store.checkpoint());
  }

  /** What is kept is there for the next start. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  async #run<T>(method: StoreMethod, change: () => Promise<T>): Promise<T> {
    this.calls.push(method);
    await this.held.get(method);
    if (this.failing.has(method)) throw new AppError("internal", "The state database could not be used");
    return await change();
  }
}
