import assert from "node:assert/strict";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { formatSummary } from "./text.ts";

const NOW = Date.parse("2026-01-02T03:05:20Z");
const PENDING: ApprovalRecord = {
  ...{ id: "ab".repeat(16), caller: "broker-local", host: "web01", command: "id", status: "pending" },
  created_at: "2026-01-02T03:04:05.000000006Z",
  decided_at: "0001-01-01T00:00:00Z",
  expires_at: "2026-01-02T03:06:05Z",
};

Deno.test.each<{ name: string; record: Partial<ApprovalRecord>; shows: RegExp }>([
  { name: "a pending request", record: {}, shows: / age=1m15s left=45s$/ },
  {
    name: "a request whose deadline has passed",
    record: { expires_at: PENDING.created_at },
    shows: / left=0s$/,
  },
  { name: "a request without a deadline", record: { expires_at: undefined }, shows: / age=1m15s left=-$/ },
  { name: "a request of a clock ahead", record: { created_at: "2026-01-02T03:05:30Z" }, shows: / age=0s / },
  { name: "an approved request that nobody collected", record: { status: "approved" }, shows: / left=45s$/ },
  { name: "a denied request", record: { status: "denied" }, shows: / age=1m15s left=-$/ },
])("formatSummary() shows age and time left of $name", ({ record, shows }) => {
  assert.match(formatSummary({ ...PENDING, ...record }, NOW)[0] ?? "", shows);
});
