import { parseStandardJson } from "@gateway/shared/json";
import {
  checkStorable,
  type Parameters,
  readFlag,
  readInteger,
  readStrings,
  readText,
  readTime,
  type Row,
  type RowReader,
} from "@gateway/shared/state";
import { k8sDiff, signRequest } from "@gateway/shared/wire";
import type * as z from "@zod/zod";
import {
  type Approval,
  type ApprovalState,
  hasAskedFor,
  type StoredRequest,
  withoutToken,
} from "../approvals/approval.ts";
import type { Baseline } from "../guardrails/tracker.ts";

export const APPROVAL_TEXTS = [
  "id",
  "caller",
  "end_user",
  "host",
  "command",
  "sudo_user",
  "rule",
  "anomalies",
  "status",
  "decided_by",
  "request_json",
  "lead",
  "account",
  "addr",
  "comment",
  "k8s_diff",
] as const;
/** The integer columns that `approvals` of a PostgreSQL database were made with. */
export const FIRST_APPROVAL_INTEGERS = [
  "sudo",
  "consumed",
  "created_at",
  "decided_at",
  "learn_ttl_seconds",
  "life_seconds",
] as const;
export const APPROVAL_INTEGERS = [...FIRST_APPROVAL_INTEGERS, "timeout_ms"] as const;
/** The columns of `approvals` that a change of state changes. */
export const STATE_COLUMNS = [
  "status",
  "consumed",
  "decided_at",
  "decided_by",
  "learn_ttl_seconds",
  "comment",
] as const;
export const BASELINE_TEXTS = ["subject", "hosts", "commands"] as const;
export const BASELINE_INTEGERS = ["last_seen"] as const;

/**
 * Refuses an approval with a text that can't be kept as it is; lists and the request can, in JSON.
 *
 * @throws {AppError} `internal`
 */
export function checkApproval(approval: Approval): void {
  const { id, caller, endUser, host, command, sudoUser, rule, target } = approval;
  checkStorable([id, caller, endUser, host, command, sudoUser, rule, target?.user ?? "", target?.addr ?? ""]);
}

export function encodeApproval(approval: Approval): Parameters {
  return {
    id: approval.id,
    caller: approval.caller,
    end_user: approval.endUser,
    host: approval.host,
    command: approval.command,
    sudo: approval.sudo ? 1 : 0,
    sudo_user: approval.sudoUser,
    rule: approval.rule,
    anomalies: JSON.stringify(approval.anomalies),
    created_at: approval.createdAt,
    timeout_ms: approval.timeoutMs ?? 0,
    request_json: JSON.stringify(withoutToken(approval.request)),
    lead: approval.lead ?? "",
    account: approval.target?.user ?? "",
    addr: approval.target?.addr ?? "",
    life_seconds: approval.target?.lifeSeconds ?? 0,
    k8s_diff: approval.k8sDiff === undefined ? "" : JSON.stringify(approval.k8sDiff),
    ...encodeState(approval.state),
  };
}

/**
 * Refuses a state with a text that can't be kept as it is.
 *
 * @throws {AppError} `internal`
 */
export function checkState(state: ApprovalState): void {
  if (state.kind !== "pending") checkStorable([state.by, state.comment ?? ""]);
}

/** The columns that the state of an approval is in. */
export function encodeState(state: ApprovalState): Parameters {
  const decided = state.kind === "pending" ? { by: "", at: 0, comment: "" } : state;
  return {
    status: state.kind === "consumed" ? "approved" : state.kind,
    consumed: state.kind === "consumed" ? 1 : 0,
    decided_at: decided.at,
    decided_by: decided.by,
    learn_ttl_seconds: "learnTtlSeconds" in state ? state.learnTtlSeconds : 0,
    comment: decided.comment ?? "",
  };
}

/**
 * An approval from its row.
 *
 * @throws {TypeError} saying which column can't be read, or contradicts another
 */
function decodeApproval(row: Row): Approval {
  const caller = readText(row, "caller");
  const endUser = readText(row, "end_user");
  const state = decodeState(row);
  if (state.kind !== "pending" && (state.by === "" || hasAskedFor({ caller, endUser }, state.by))) {
    throw new TypeError("column decided_by: who asks never decides, and somebody has to");
  }
  return {
    id: readText(row, "id"),
    caller,
    endUser,
    host: readText(row, "host"),
    command: readText(row, "command"),
    sudo: readFlag(row, "sudo"),
    sudoUser: readText(row, "sudo_user"),
    rule: readText(row, "rule"),
    anomalies: readStrings(row, "anomalies"),
    createdAt: readTime(row, "created_at", 1),
    ...readTimeout(row),
    state,
    request: readRequest(row),
    ...readTarget(row),
    ...readDiff(row),
    ...readLead(row),
  };
}

function readTimeout(row: Row): Pick<Approval, "timeoutMs"> {
  const timeoutMs = readInteger(row, "timeout_ms");
  if (timeoutMs < 0) throw new TypeError("column timeout_ms is negative");
  return timeoutMs === 0 ? {} : { timeoutMs };
}

function readTarget(row: Row): Pick<Approval, "target"> {
  const target = {
    user: readText(row, "account"),
    addr: readText(row, "addr"),
    lifeSeconds: readInteger(row, "life_seconds"),
  };
  return target.addr === "" ? {} : { target };
}

function readDiff(row: Row): Pick<Approval, "k8sDiff"> {
  const text = readText(row, "k8s_diff");
  return text === "" ? {} : { k8sDiff: readJson(text, "k8s_diff", k8sDiff) };
}

function readLead(row: Row): Pick<Approval, "lead"> {
  const lead = readText(row, "lead");
  return lead === "" ? {} : { lead };
}

function decodeState(row: Row): ApprovalState {
  const status = readText(row, "status");
  const isConsumed = readFlag(row, "consumed");
  const comment = readText(row, "comment");
  const decision = {
    by: readText(row, "decided_by"),
    at: readTime(row, "decided_at", 1),
    ...(comment !== "" && { comment }),
  };
  const learnTtlSeconds = readInteger(row, "learn_ttl_seconds");
  if (learnTtlSeconds < 0) throw new TypeError("column learn_ttl_seconds is negative");
  if (status === "approved") {
    return { kind: isConsumed ? "consumed" : "approved", ...decision, learnTtlSeconds };
  }
  if (isConsumed) throw new TypeError("column consumed: only what was approved is collected");
  if (status === "denied") return { kind: "denied", ...decision };
  if (status === "pending") return { kind: "pending" };
  throw new TypeError("column status: unknown");
}

function readRequest(row: Row): StoredRequest {
  return withoutToken(readJson(readText(row, "request_json"), "request_json", signRequest));
}

function readJson<T>(text: string, column: string, schema: z.ZodType<T>): T {
  let value: unknown;
  try {
    value = parseStandardJson(text);
  } catch {
    // Not the parser's message: it quotes from the command.
    throw new TypeError(`column ${column} is not JSON`);
  }
  const { success, data } = schema.safeParse(value);
  if (!success) throw new TypeError(`column ${column} does not hold what it should`);
  return data;
}

/**
 * Refuses a baseline with a text that can't be kept as it is.
 *
 * @throws {AppError} `internal`
 */
export function checkBaseline({ subject }: Baseline): void {
  checkStorable([subject]);
}

export function encodeBaseline({ subject, lastSeen, hosts, commands }: Baseline): Parameters {
  return { subject, last_seen: lastSeen, hosts: JSON.stringify(hosts), commands: JSON.stringify(commands) };
}

/**
 * A baseline from its row.
 *
 * @throws {TypeError} saying which column can't be read
 */
function decodeBaseline(row: Row): Baseline {
  return {
    subject: readText(row, "subject"),
    lastSeen: readTime(row, "last_seen", 1),
    hosts: readStrings(row, "hosts"),
    commands: readStrings(row, "commands"),
  };
}

export const APPROVAL_READER: RowReader<Approval> = {
  decode: decodeApproval,
  key: "id",
  warning: "An approval in state_db can't be read and is left out",
};

export const BASELINE_READER: RowReader<Baseline> = {
  decode: decodeBaseline,
  key: "subject",
  warning: "A baseline in state_db can't be read and is left out",
};
