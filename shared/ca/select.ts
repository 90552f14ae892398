/**
 * Which CA key signs for which host: the first of the host's groups that has an entry in `ca_keys`, else the
 * default, which is the entry `_default` or, without one, `ca_key`.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { planCaKeys, selectCaKey } from "@gateway/shared/ca/select";
 *
 * const plan = planCaKeys({ ca_key: "ca", ca_keys: { prod: { type: "pem", path: "prod_ca" } } });
 * assert(plan !== undefined);
 * assert.deepEqual(selectCaKey(plan, ["web", "prod"]), { type: "pem", path: "prod_ca" });
 * assert.deepEqual(selectCaKey(plan, ["web"]), { type: "pem", path: "ca" });
 * ```
 *
 * @module
 */
import type { CaKeyConfig } from "./model.ts";

/** The name in `ca_keys` of the key for hosts whose groups have none; not a group. */
export const DEFAULT_CA_KEY = "_default";

/** CA keys by host group: their configs, or the loaded keys. */
export interface CaKeyRing<K> {
  /** Without the default. */
  readonly byGroup: ReadonlyMap<string, K>;
  readonly fallback: K;
}

/** The part of a config that says what CA keys there are. */
export interface CaKeySettings {
  /** Path of a private key file; absent or `""` is none. */
  readonly ca_key?: string | undefined;
  readonly ca_keys?: Readonly<Record<string, CaKeyConfig>> | undefined;
}

/** Every CA key that a config names, or `undefined` when there is none for hosts without an entry. */
export function planCaKeys({ ca_key = "", ca_keys = {} }: CaKeySettings): CaKeyRing<CaKeyConfig> | undefined {
  const byGroup = new Map(Object.entries(ca_keys));
  const own = byGroup.get(DEFAULT_CA_KEY);
  byGroup.delete(DEFAULT_CA_KEY);
  if (own !== undefined) return { byGroup, fallback: own };
  return ca_key === "" ? undefined : { byGroup, fallback: { type: "pem", path: ca_key } };
}

/**
 * The key for a host.
 *
 * @param groups the host's groups in the order of the config
 */
export function selectCaKey<K>(ring: CaKeyRing<K>, groups: readonly string[]): K {
  for (const group of groups) {
    const key = ring.byGroup.get(group);
    if (key !== undefined) return key;
  }
  return ring.fallback;
}
