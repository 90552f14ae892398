import { signRequest } from "@gateway/shared/wire";
import { type Approval, type ApprovalDraft, type Timing, withoutToken } from "../approvals/approval.ts";

/** The creation time of sample approvals, at which a `FakeClock` starts. */
export const CREATED_AT = Date.UTC(2026, 0, 2, 3, 4, 5);

/** A time at which no approval has expired. */
export const EVER: Timing = { now: -Infinity, timeoutMs: 0 };

/** An Ed25519 public key for certificates. */
export const PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";

/** A request of `broker-1` for an approval, with the given fields changed. */
export function draftOf(fields: Partial<ApprovalDraft> = {}): ApprovalDraft {
  const { host = "web01", command = "systemctl restart nginx" } = fields;
  const body = { host, role: "target", purpose: "oneshot", command, public_key: PUBLIC_KEY };
  return {
    caller: "broker-1",
    endUser: "",
    host,
    command,
    sudo: false,
    sudoUser: "",
    rule: "require_approval:^systemctl restart",
    anomalies: [],
    request: withoutToken(signRequest.parse(body)),
    bearerToken: "",
    ...fields,
  };
}

/** A pending approval of `broker-1`. */
export function approvalOf(fields: Partial<Approval> = {}): Approval {
  const { bearerToken: _token, ...draft } = draftOf(fields);
  return {
    ...draft,
    id: "00112233445566778899aabbccddeeff",
    createdAt: CREATED_AT,
    state: { kind: "pending" },
    ...fields,
  };
}
