/**
 * Audit logs: records, hash chain, durable append, verification, repair.
 *
 * @module
 */

export {
  type AuditKey,
  type AuditPublicKey,
  createAuditKey,
  createAuditPublicKey,
  GENESIS,
  parseLine,
  seal,
  verifySignature,
} from "./chain.ts";
export { AuditGate, openServiceAudit } from "./gate.ts";
export { logsOfSet, MAX_LOGS, nthLog } from "./log_set.ts";
export {
  type AuditEntry,
  type AuditLog,
  encodeRecord,
  formatTime,
  MAX_LINE_BYTES,
  readOldCommand,
} from "./record.ts";
export { type KeptRecords, planRepair, repairLog, type RepairOutcome, type RepairPlan } from "./repair.ts";
export { listSegments, openLogFile, syncFolder } from "./segments.ts";
export { newestLines, splitLines } from "./tail.ts";
export {
  type LogHead,
  type LogProblem,
  verifyAll,
  verifyFile,
  verifyKept,
  type VerifyResult,
} from "./verify.ts";
