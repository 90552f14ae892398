import type { Redactor } from "@gateway/shared/redact/redact";
import type { ApprovalRecord } from "@gateway/shared/wire/approval";

/** A copy whose free texts are masked. Names (host, caller, end user) stay: they are what is decided on. */
export function redactRecord(record: ApprovalRecord, redact: Redactor): ApprovalRecord {
  const { command, sudo_user, rule, anomalies } = record;
  return {
    ...record,
    command: redact(command),
    ...(sudo_user !== undefined && { sudo_user: redact(sudo_user) }),
    ...(rule !== undefined && { rule: redact(rule) }),
    // `new-command:` holds the command's first word, which may be an assignment.
    ...(anomalies !== undefined && { anomalies: anomalies.map(redact) }),
  };
}
