/**
 * What tokens of a cluster end with: one Secret for each caller and end user. The signer may make and delete Secrets
 * and neither read nor list them, so that it has to know what it made.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { leaseName } from "./lease.ts";
 *
 * const place = { cluster: "prod", namespace: "gateway" };
 * const alice = leaseName(place, { caller: "broker-1", endUser: "alice" });
 * assert.match(alice, /^gateway-lease-[0-9a-f]{32}$/);
 * assert.notEqual(alice, leaseName(place, { caller: "broker-1", endUser: "bob" }));
 * ```
 *
 * @module
 */
import { createHash } from "node:crypto";
import type { FreezeSubject } from "@gateway/shared/wire";
import { isScopedTo } from "./freezes.ts";
import type { TokenHolder } from "@gateway/shared/kubernetes";

/** A Secret that tokens are bound to. */
export interface Lease {
  readonly cluster: string;
  readonly namespace: string;
  readonly name: string;
  /** Empty: the Secret may be there or not. */
  readonly uid: string;
  readonly caller: string;
  /** Empty: none. */
  readonly endUser: string;
  /** The CNs of the connections that tokens went to: freezing a forwarder stops what it forwarded. */
  readonly peers: readonly string[];
  /** From when no token needs it, in milliseconds since the epoch; 0: it has to go now. */
  readonly expiresAt: number;
}

/**
 * The name of the Secret: the same for the same holder, so that what a killed process left is found again.
 *
 * @param instance the signer that makes it, where several do: each has Secrets of its own; empty: there is one
 */
export function leaseName(
  { cluster, namespace }: Pick<Lease, "cluster" | "namespace">,
  { caller, endUser }: Pick<TokenHolder, "caller" | "endUser">,
  instance = "",
): string {
  // With the namespace, so that it is another lease where that is another.
  const parts = [cluster, caller, endUser, namespace, ...(instance === "" ? [] : [instance])];
  const digest = createHash("sha256").update(JSON.stringify(parts)).digest("hex");
  return `gateway-lease-${digest.slice(0, 32)}`;
}

/** Which lease it is, in a map. */
export function leaseKey({ cluster, name }: Pick<Lease, "cluster" | "name">): string {
  return `${cluster} ${name}`;
}

export function leasePath({ namespace, name }: Pick<Lease, "namespace" | "name">): string {
  return `${leasesPath(namespace)}/${encodeURIComponent(name)}`;
}

export function leasesPath(namespace: string): string {
  return `/api/v1/namespaces/${encodeURIComponent(namespace)}/secrets`;
}

/** The Secret as it is made: it holds nothing. */
export function leaseSecret(name: string): unknown {
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, labels: { "app.kubernetes.io/managed-by": "gateway" } },
    type: "Opaque",
    immutable: true,
  };
}

/** Whether a freeze of a subject has to reach the tokens of a lease. */
export function isHeldBy({ caller, endUser, peers }: Lease, subject: FreezeSubject): boolean {
  return [caller, ...peers].some((name) => isScopedTo({ caller: name, endUser }, subject));
}
