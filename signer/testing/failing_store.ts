import { AppError } from "@gateway/shared/errors";
import { openSqliteStore, type StateStore } from "../live/state/store.ts";

const METHODS = [
  ...["insertGrant", "deleteGrant", "purgeExpired", "putFreeze", "deleteFreeze"] as const,
  ...["addCertificates", "putRevocations", "useDocuments", "putLease", "deleteLease", "checkpoint"] as const,
];

/** A change of the store that a test can make fail or wait. */
export type StoreMethod = (typeof METHODS)[number];

/** A store as the signer opens it if `state_db` is not set. */
export function memoryStore(): StateStore {
  return openSqliteStore({ path: "", warn() {} });
}

export type FailingStore = ReturnType<typeof failingStore>;

/** A store in memory that survives restarts. Its disk can fail or be slow. */
export function failingStore(store: StateStore = memoryStore()) {
  /** The changes in order. */
  const calls: StoreMethod[] = [];
  /** Changes that fail without an effect. */
  const failing = new Set<StoreMethod>();
  /** Changes that wait for the promise first. */
  const held = new Map<StoreMethod, Promise<unknown>>();
  const change = <M extends StoreMethod>(method: M): StateStore[M] => {
    const run = async (...args: unknown[]) => {
      calls.push(method);
      await held.get(method);
      if (failing.has(method)) throw new AppError("internal", "The state database could not be used");
      return await Reflect.apply(store[method], store, args);
    };
    return run as StateStore[M];
  };
  return {
    ...{ calls, failing, held, survivesRestart: true },
    loadGrants: (now: number) => store.loadGrants(now),
    loadFreezes: () => store.loadFreezes(),
    loadCertificates: (now: number) => store.loadCertificates(now),
    loadRevocations: (since: number) => store.loadRevocations(since),
    loadKrlVersion: () => store.loadKrlVersion(),
    loadLeases: () => store.loadLeases(),
    ...Object.fromEntries(METHODS.map((method) => [method, change(method)])) as Pick<StateStore, StoreMethod>,
    /** Keeps the content for the next start. */
    close: () => Promise.resolve(),
  };
}
