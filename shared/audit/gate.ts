/**
 * The fail mode: what happens to an action whose audit record can't be written. In the closed mode its result
 * is withheld, in the open mode it proceeds; both count and log the failure.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { AuditGate } from "@gateway/shared/audit";
 * import { MemoryAuditLog } from "@gateway/shared/testing";
 *
 * const log = new MemoryAuditLog();
 * let blocked = 0;
 * const gate = new AuditGate({
 *   log,
 *   failMode: "closed",
 *   onAppendFailure: () => {},
 *   onBlocked: () => blocked++,
 * });
 * log.failing = true;
 * await assert.rejects(gate.require({ outcome: "issued" }), { message: "audit unavailable" });
 * assert.equal(blocked, 1);
 * ```
 *
 * @module
 */
import { AppError, AUDIT_UNAVAILABLE, describeFault, errorText } from "../errors.ts";
import { currentRequestId } from "../service/request_context.ts";
import type { AuditEntry, AuditFailMode, AuditLog } from "./record.ts";
import { type Clock, every } from "../clock.ts";
import { readNamedFile } from "../files/files.ts";
import type { ServiceLogger } from "../service/log.ts";
import type { Metrics } from "../service/metrics.ts";
import { createRedactor, type RedactConfig } from "../redact/redact.ts";
import { type FileAuditLogOptions, openFileAuditLog, openFreeAuditLog } from "./file_log.ts";

/** Where the gate reports records that it could not keep; a `ServiceLogger` fits. */
interface AuditGateLogger {
  /** Reports that records are kept again. */
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** Reports one record that was lost, with the facts about it. */
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** What an {@linkcode AuditGate} is made of. */
interface AuditGateOptions {
  readonly log: AuditLog;
  /** Absent and `""` mean `closed`; so does anything that is not `open`. */
  readonly failMode?: AuditFailMode | "" | undefined;
  /** Told of each record that could not be appended. Absent: only the counters are. */
  readonly logger?: AuditGateLogger | undefined;
  /** Called once per record that could not be appended (`audit_append_failures_total`). */
  readonly onAppendFailure: () => void;
  /** Called once per action withheld (`audit_blocked_total`). */
  readonly onBlocked: () => void;
}

const FIX =
  "free space if the disk is full; if another process changed the file, find out which one, then put the file back as " +
  "it was, or restart the service, which continues the log that it finds or begins a new one";

/** Appends records and decides what a failure to do so means. */
export class AuditGate {
  readonly #options: AuditGateOptions;
  /** What {@linkcode check} found last. */
  #fault: string | undefined;

  /** A gate in front of a log. */
  constructor(options: AuditGateOptions) {
    this.#options = options;
  }

  /**
   * Appends the record without which the action may not have an effect: call it before anything is released.
   *
   * @throws {AppError} `audit_unavailable`, text `audit unavailable`, when the record could not be made
   * durable and the fail mode is closed
   */
  async require(made: AuditEntry): Promise<void> {
    const entry = ofRequest(made);
    try {
      await this.#options.log.append(entry);
    } catch (cause) {
      const open = this.#options.failMode === "open";
      this.#report(entry, cause, open ? "action proceeds" : "action withheld");
      if (open) return;
      this.#options.onBlocked();
      throw new AppError("audit_unavailable", AUDIT_UNAVAILABLE, { cause });
    }
  }

  /** Appends a record that nothing hangs on, such as that of a refusal; a failure is logged and counted. */
  async bestEffort(made: AuditEntry): Promise<void> {
    const entry = ofRequest(made);
    try {
      await this.#options.log.append(entry);
    } catch (cause) {
      this.#report(entry, cause, "best effort");
    }
  }

  /** Whether actions are not held up by what {@linkcode check} found. */
  get isOpen(): boolean {
    return this.#fault === undefined || this.#options.failMode === "open";
  }

  /** Checks whether a record can be written, and logs when that changes. */
  check(): void {
    const fault = this.#findFault();
    if (fault === this.#fault) return;
    this.#fault = fault;
    const { logger } = this.#options;
    if (fault === undefined) logger?.info("Audit records can be written again");
    else logger?.error("Audit records cannot be written", { cause: fault, fix: FIX });
  }

  #findFault(): string | undefined {
    try {
      this.#options.log.check();
      return undefined;
    } catch (error) {
      return errorText(error);
    }
  }

  /** Waits for the appends under way and closes the log. */
  close(): Promise<void> {
    return this.#options.log.close();
  }

  #report(entry: AuditEntry, cause: unknown, consequence: string): void {
    this.#options.onAppendFailure();
    this.#options.logger?.error("Cannot append audit record", {
      outcome: entry.outcome,
      caller: entry.caller,
      ...(entry.request_id ? { request_id: entry.request_id } : {}),
      consequence,
      cause: describeFault(cause),
    });
  }
}

/** A record names the request that it is made in. */
function ofRequest(entry: AuditEntry): AuditEntry {
  const id = currentRequestId();
  return id === undefined || entry.request_id !== undefined ? entry : { ...entry, request_id: id };
}

/** How long a full disk or a log that another process changed goes unnoticed. */
const CHECK_SECONDS = 1;

/** The part of a service's config that is about its audit log. */
interface ServiceAuditConfig {
  readonly audit_log: string;
  /** File with the Ed25519 seed that signs records, at least 32 bytes. */
  readonly audit_key: string;
  /** What a record that can't be written stops; `""` is `closed`. */
  readonly audit_fail_mode: AuditFailMode | "";
  /** Rules for masking beside the built-in ones. */
  readonly redact?: RedactConfig;
}

/** What {@linkcode openServiceAudit} needs. */
interface ServiceAuditOptions {
  readonly config: ServiceAuditConfig;
  /** For the time of each record. */
  readonly clock: Clock;
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
