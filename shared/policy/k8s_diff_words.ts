/**
 * What an apply would change, in words: the same on pages, in notifications and on the command line.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { describeDiff } from "@gateway/shared/policy";
 *
 * assert.equal(describeDiff({ kind: "changed", changes: [{ path: "spec.replicas", before: "2", after: "3" }] }), "changes 1 field");
 * ```
 *
 * @module
 */
import { visibleText } from "../text.ts";
import type { K8sDiff, K8sFieldChange } from "../wire/k8s_diff.ts";

/** A diff in one line, which does not say which fields there are. */
export function describeDiff({ kind, reason, changes = [], omitted = 0 }: K8sDiff): string {
  const count = changes.length + omitted;
  const fields = `${count} field${count === 1 ? "" : "s"}`;
  switch (kind) {
    case "created":
      return `creates the object, with ${fields}`;
    case "changed":
      return `changes ${fields}`;
    case "unchanged":
      return "changes nothing";
    case "unknown":
      return `what it changes could not be found out${
        reason === undefined ? "" : `: ${visibleText(reason)}`
      }`;
    default:
      return kind satisfies never;
  }
}

/** A changed field in one line, in which nothing hides. */
export function describeChange({ path, before, after }: K8sFieldChange): string {
  return `${visibleText(path)}: ${visibleText(before ?? "(not there)")} → ${visibleText(after ?? "(goes)")}`;
}
