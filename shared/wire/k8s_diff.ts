/**
 * What an apply would change on a cluster, as the signer found it: it travels with a decision that needs a human.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { k8sDiff } from "./k8s_diff.ts";
 *
 * const diff = k8sDiff.parse({
 *   kind: "changed",
 *   changes: [{ path: "spec.replicas", before: "2", after: "3" }],
 * });
 * assert.equal(diff.changes?.[0]?.path, "spec.replicas");
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";

/** `created`: there is no such object yet; `unknown`: it could not be found out. */
export type K8sDiffKind = "created" | "changed" | "unchanged" | "unknown";

/** One field of the object. Values are JSON texts, shortened where they are long. */
export interface K8sFieldChange {
  /** `spec.template.spec.containers[0].image`; keys with other characters are quoted: `metadata.labels["a.b/c"]`. */
  readonly path: string;
  /** Absent: the field is not there yet. */
  readonly before?: string | undefined;
  /** Absent: the field goes. */
  readonly after?: string | undefined;
}

/** What an apply would change; values of Secrets are masked. At most {@linkcode MAX_K8S_DIFF_BYTES} of JSON. */
export interface K8sDiff {
  /** How the object would stand after the apply, beside how it stands. */
  readonly kind: K8sDiffKind;
  /** Of `unknown`: why, for the approver. */
  readonly reason?: string | undefined;
  /** In the order of their paths; none for `unchanged` and `unknown`. */
  readonly changes?: readonly K8sFieldChange[] | undefined;
  /** How many changes are left out because there are too many. */
  readonly omitted?: number | undefined;
}

/** The longest {@linkcode K8sDiff}, in bytes of JSON. */
export const MAX_K8S_DIFF_BYTES: number = 32 * 1024;

/** Decodes a {@linkcode K8sDiff}. */
export const k8sDiff: z.ZodType<K8sDiff> = z.object({
  kind: z.enum(["created", "changed", "unchanged", "unknown"]),
  reason: z.string().optional(),
  changes: z.array(z.object({
    path: z.string(),
    before: z.string().optional(),
    after: z.string().optional(),
  })).optional(),
  omitted: z.int().optional(),
});
