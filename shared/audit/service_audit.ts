/**
 * A service's audit log as its config describes it, opened and put behind its fail mode.
 *
 * ```ts ignore
 * import { openServiceAudit } from "@gateway/shared/audit/service_audit";
 *
 * const audit = await openServiceAudit({ config, clock: systemClock, metrics, logger });
 * await audit.require({ caller: "broker-1", outcome: "issued" });
 * await audit.close();
 * ```
 *
 * @module
 */
import { type Clock, every } from "../clock.ts";
import { readNamedFile } from "../files.ts";
import type { ServiceLogger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { RedactConfig } from "../redact/model.ts";
import { createRedactor } from "../redact/redact.ts";
import type { AuditEntry, AuditFailMode, AuditLog } from "./entry.ts";
import { type FileAuditLogOptions, openFileAuditLog, openFreeAuditLog } from "./file_log.ts";
import { AuditGate } from "./gate.ts";

/** How long a full disk or a log that another process changed goes unnoticed. */
const CHECK_SECONDS = 1;

/** The part of a service's config that is about its audit log. */
export interface ServiceAuditConfig {
  /** The log file. */
  readonly audit_log: string;
  /** File with the Ed25519 seed that signs records, at least 32 bytes. */
  readonly audit_key: string;
  /** What a record that can't be written stops; `""` is `closed`. */
  readonly audit_fail_mode: AuditFailMode | "";
  /** Rules for masking beside the built-in ones. */
  readonly redact?: RedactConfig;
}

/** What {@linkcode openServiceAudit} needs. */
export interface ServiceAuditOptions {
  /** The service's own. */
  readonly config: ServiceAuditConfig;
  /** For the time of each record. */
  readonly clock: Clock;
  /** Where failures are counted. */
  readonly metrics: Metrics;
  /** Told of what the log could not keep. */
  readonly logger: ServiceLogger;
  /** Take a log beside the config's while another process has that one; by default the start fails then. */
  readonly mayShareConfig?: boolean | undefined;
}

/**
 * Reads the audit key, opens the log, counts its failures in `audit_append_failures_total` and
 * `audit_blocked_total`, and shows how far the disk is behind in `audit_queue_records`.
 *
 * @throws {AppError} `invalid_config` when the key or the log can't be used
 */
export async function openServiceAudit(options: ServiceAuditOptions): Promise<AuditGate> {
  const { config, clock, metrics, logger } = options;
  const redact = createRedactor(config.redact);
  const seed = await readNamedFile("audit_key", config.audit_key);
  const log = await openLog({ path: config.audit_log, seed, clock, redact, logger }, options);
  const failures = metrics.counter("audit_append_failures_total", "Audit records that could not be appended");
  const blocked = metrics.counter(
    "audit_blocked_total",
    "Actions withheld because the audit log was unwritable",
  );
  const durable = metrics.histogram(
    "audit_append_duration_seconds",
    "From the wish to record until the record is on the disk",
    "exchange",
  );
  let waiting = 0;
  metrics.gauge("audit_queue_records", "Records on their way to the disk", () => waiting);
  const append = async (entry: AuditEntry) => {
    waiting += 1;
    try {
      await durable.measure(() => log.append(entry));
    } finally {
      waiting -= 1;
    }
  };
  const watching = new AbortController();
  const gate = new AuditGate({
    log: {
      append,
      check: () => log.check(),
      close: () => {
        watching.abort();
        return log.close();
      },
    },
    failMode: config.audit_fail_mode,
    logger,
    onAppendFailure: () => failures.inc(),
    onBlocked: () => blocked.inc(),
  });
  // Each append looks too: this is for a service that has nothing to write.
  void every({ clock, seconds: CHECK_SECONDS, signal: watching.signal }, () => gate.check());
  return gate;
}

async function openLog(
  options: FileAuditLogOptions,
  { logger, mayShareConfig = false }: ServiceAuditOptions,
): Promise<AuditLog> {
  if (!mayShareConfig) return await openFileAuditLog(options);
  const { log, path } = await openFreeAuditLog(options);
  if (path !== options.path) {
    logger.info("Another process has the audit log, this one keeps another beside it", { path });
  }
  return log;
}
