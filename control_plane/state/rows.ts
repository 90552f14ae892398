import { parseStandardJson } from "@gateway/shared/json";
import {
  type Column,
  flagColumn,
  integerColumn,
  listColumn,
  type Parameters,
  readText,
  type Row,
  type RowReader,
  Table,
  textColumn,
  timeColumn,
} from "@gateway/shared/state";
import {
  type ApprovalProof,
  approvalProof,
  type K8sDiff,
  k8sDiff,
  type SignedApproval,
  signedApproval,
  signRequest,
} from "@gateway/shared/wire";
import * as z from "@zod/zod";
import {
  type Approval,
  type ApprovalState,
  isRequester,
  type StoredRequest,
  withoutToken,
} from "../approvals/approval.ts";
import type { Baseline } from "../guardrails/tracker.ts";

/** A value as JSON, checked by its schema; empty: none. */
function jsonColumn<T>(name: string, schema: z.ZodType<T>): Column<T | undefined> {
  return {
    name,
    isText: true,
    encode: (value) => value === undefined ? "" : JSON.stringify(value),
    decode(row) {
      const text = readText(row, name);
      if (text === "") return undefined;
      let value: unknown;
      try {
        value = parseStandardJson(text);
      } catch {
        // The parser's message quotes the command.
        throw new TypeError(`column ${name} is not JSON`);
      }
      const { success, data } = schema.safeParse(value);
      if (!success) throw new TypeError(`column ${name} does not hold what it should`);
      return data;
    },
  };
}

/** The columns in their order in PostgreSQL. */
const COLUMNS = {
  id: textColumn("id"),
  caller: textColumn("caller"),
  endUser: textColumn("end_user"),
  host: textColumn("host"),
  command: textColumn("command"),
  sudo: flagColumn("sudo"),
  sudoUser: textColumn("sudo_user"),
  rule: textColumn("rule"),
  anomalies: listColumn("anomalies"),
  status: textColumn("status"),
  isConsumed: flagColumn("consumed"),
  createdAt: timeColumn("created_at", 1),
  decidedAt: timeColumn("decided_at", 1),
  decidedBy: textColumn("decided_by"),
  learnTtlSeconds: integerColumn("learn_ttl_seconds"),
  request: jsonColumn<StoredRequest>("request_json", signRequest),
  lead: textColumn("lead"),
  user: textColumn("account"),
  addr: textColumn("addr"),
  lifeSeconds: integerColumn("life_seconds"),
  comment: textColumn("comment"),
  k8sDiff: jsonColumn<K8sDiff>("k8s_diff", k8sDiff),
  /** 0: an earlier version has parked the request. */
  timeoutMs: integerColumn("timeout_ms"),
  signed: jsonColumn<SignedApproval>("signed_approval", signedApproval),
  proofs: jsonColumn<readonly ApprovalProof[]>("proofs", z.array(approvalProof)),
};
export const APPROVALS = new Table("approvals", COLUMNS);

const { status, isConsumed, decidedAt, decidedBy, learnTtlSeconds, comment, proofs } = COLUMNS;
/** The columns that a decision or collection changes. */
const STATES = new Table("approvals", {
  ...{ status, isConsumed, decidedAt, decidedBy, learnTtlSeconds, comment, proofs },
});

export const BASELINES = new Table<Baseline>("baselines", {
  subject: textColumn("subject"),
  lastSeen: timeColumn("last_seen", 1),
  hosts: listColumn("hosts"),
  commands: listColumn("commands"),
});

/** @throws {AppError} `internal` for a text that the store could truncate */
export function encodeApproval(approval: Approval): Parameters {
  return APPROVALS.encode({
    ...approval,
    timeoutMs: approval.timeoutMs ?? 0,
    request: withoutToken(approval.request),
    lead: approval.lead ?? "",
    ...(approval.target ?? { user: "", addr: "", lifeSeconds: 0 }),
    k8sDiff: approval.k8sDiff,
    signed: approval.signed,
    ...flatState(approval.state),
  });
}

/** @throws {AppError} `internal` for a text that the store could truncate */
export function encodeState(state: ApprovalState): Parameters {
  return STATES.encode(flatState(state));
}

/** The stored proofs before a decision added one. */
export function encodeEarlierProofs(state: ApprovalState): string | undefined {
  const isDecision = state.kind === "pending" || state.kind === "approved";
  if (!isDecision || state.proofs === undefined) return undefined;
  const earlier = state.proofs.slice(0, -1);
  return earlier.length === 0 ? "" : JSON.stringify(earlier);
}

function flatState(state: ApprovalState) {
  const { by, at, comment } = state.kind === "pending" ? { by: "", at: 0, comment: "" } : state;
  return {
    status: state.kind === "consumed" ? "approved" : state.kind,
    isConsumed: state.kind === "consumed",
    decidedAt: at,
    decidedBy: by,
    learnTtlSeconds: "learnTtlSeconds" in state ? state.learnTtlSeconds : 0,
    comment: comment ?? "",
    proofs: "proofs" in state ? state.proofs : undefined,
  };
}

/** @throws {TypeError} naming a column that cannot be read or contradicts another */
function decodeApproval(row: Row): Approval {
  const { status, isConsumed, decidedAt: at, decidedBy: by, learnTtlSeconds, comment, proofs, ...columns } =
    APPROVALS
      .decode(row);
  const { timeoutMs, request, lead, user, addr, lifeSeconds, k8sDiff, signed, ...rest } = columns;
  if (timeoutMs < 0) throw new TypeError("column timeout_ms is negative");
  if (learnTtlSeconds < 0) throw new TypeError("column learn_ttl_seconds is negative");
  if (request === undefined) throw new TypeError("column request_json is empty");
  const decision = { by, at, ...(comment !== "" && { comment }) };
  const signing = proofs !== undefined && { proofs };
  const states: Readonly<Record<string, ApprovalState>> = {
    pending: { kind: "pending", ...signing },
    approved: { kind: isConsumed ? "consumed" : "approved", ...decision, learnTtlSeconds, ...signing },
    denied: { kind: "denied", ...decision },
  };
  const state = Object.hasOwn(states, status) ? states[status] : undefined;
  if (state === undefined) throw new TypeError("column status: unknown");
  if (isConsumed && status !== "approved") {
    throw new TypeError("column consumed: only approved requests are collected");
  }
  if (status !== "pending" && (by === "" || isRequester(rest, by))) {
    throw new TypeError("column decided_by: empty, or the requester");
  }
  return {
    ...rest,
    ...(timeoutMs !== 0 && { timeoutMs }),
    state,
    request: withoutToken(request),
    ...(addr !== "" && { target: { user, addr, lifeSeconds } }),
    ...(k8sDiff !== undefined && { k8sDiff }),
    ...(signed !== undefined && { signed }),
    ...(lead !== "" && { lead }),
  };
}

export const APPROVAL_READER: RowReader<Approval> = {
  decode: decodeApproval,
  key: "id",
  warning: "unreadable approval in state_db skipped",
};

export const BASELINE_READER: RowReader<Baseline> = {
  decode: (row) => BASELINES.decode(row),
  key: "subject",
  warning: "unreadable baseline in state_db skipped",
};
