/**
 * Audit logs: records, hash chain, durable append, verification, repair.
 *
 * @module
 */

export { listSegments, logsOfSet, MAX_LOGS, nthLog, openLogFile, syncFolder } from "./files.ts";
export { AuditGate, openServiceAudit } from "./gate.ts";
export type { AuditLog } from "./log.ts";
export {
  type AuditEntry,
  type AuditKey,
  type AuditPublicKey,
  createAuditKey,
  createAuditPublicKey,
  encodeRecord,
  formatTime,
  GENESIS,
  MAX_LINE_BYTES,
  parseLine,
  readOldCommand,
  type RecordedApproval,
  seal,
  verifySignature,
} from "./record.ts";
export { type KeptRecords, planRepair, repairLog, type RepairOutcome, type RepairPlan } from "./repair.ts";
export { newestLines, splitLines } from "./verify.ts";
export {
  type LogHead,
  type LogProblem,
  verifyAll,
  verifyFile,
  verifyKept,
  type VerifyResult,
} from "./verify.ts";
