import { type ApprovalRecord, UNDECIDED_AT } from "@gateway/shared/wire";

/** The id of {@linkcode sampleApproval}. */
export const APPROVAL_ID = "0123456789abcdef0123456789abcdef";

/** A pending request, created at 2026-01-02T03:04:05Z (the start of a `FakeClock`), valid for two minutes. */
export function sampleApproval(change: Partial<ApprovalRecord> = {}): ApprovalRecord {
  return {
    id: APPROVAL_ID,
    caller: "broker-1",
    end_user: "ada@example.org",
    host: "web01",
    command: "systemctl restart nginx",
    sudo: true,
    rule: "require_approval:^systemctl restart",
    status: "pending",
    created_at: "2026-01-02T03:04:05.123456789Z",
    decided_at: UNDECIDED_AT,
    expires_at: "2026-01-02T03:06:05.123456789Z",
    ...change,
  };
}
