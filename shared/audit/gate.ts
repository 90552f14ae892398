/**
 * The fail mode: in the closed mode, the result of an action is withheld if its audit record cannot be written; in the
 * open mode, the action proceeds. Both modes count and log the failure.
 *
 * @module
 */
import { type Clock, every } from "../clock.ts";
import { AppError, AUDIT_UNAVAILABLE, describeFault, errorText } from "../errors.ts";
import { readNamedFile } from "../files/mod.ts";
import { createRedactor, type RedactConfig } from "../redact/redact.ts";
import { currentRequestId, type ServiceLogger } from "../service/mod.ts";
import type { Metrics } from "../service/metrics.ts";
import { type AuditLog, openFileAuditLog, openFreeAuditLog } from "./log.ts";
import type { AuditEntry } from "./record.ts";

interface AuditGateOptions {
  readonly log: AuditLog;
  /** Any value but `open` means `closed`. */
  readonly failMode?: "closed" | "open" | "" | undefined;
  readonly logger?: Pick<ServiceLogger, "info" | "error"> | undefined;
  /** Called for each record that could not be appended. */
  readonly onAppendFailure: () => void;
  /** Called for each withheld action. */
  readonly onBlocked: () => void;
}

const FIX =
  "free space if the disk is full; if another process changed the file, restore the file or restart the service, " +
  "which continues the existing log or starts a new one";

/** Appends records. The fail mode determines the consequence of a failure. */
export class AuditGate {
  readonly #options: AuditGateOptions;
  /** The result of the last {@linkcode check}. */
  #fault: string | undefined;

  /** Creates a gate without a fault. */
  constructor(options: AuditGateOptions) {
    this.#options = options;
  }

  /**
   * Appends the record of an action. Call it before anything is released.
   *
   * @throws {AppError} `audit_unavailable` if the record is not durable and the fail mode is closed
   */
  async require(entry: AuditEntry): Promise<void> {
    const isOpen = this.#options.failMode === "open";
    const cause = await this.#append(entry, isOpen ? "action proceeds" : "action withheld");
    if (cause === undefined || isOpen) return;
    this.#options.onBlocked();
    throw new AppError("audit_unavailable", AUDIT_UNAVAILABLE, { cause });
  }

  /** Appends a record that no action depends on, such as the record of a rejection. */
  async bestEffort(entry: AuditEntry): Promise<void> {
    await this.#append(entry, "best effort");
  }

  /** @returns the failure, which was reported */
  async #append(made: AuditEntry, consequence: string): Promise<unknown> {
    const { log, logger, onAppendFailure } = this.#options;
    const id = currentRequestId();
    const entry = id === undefined || made.request_id !== undefined ? made : { ...made, request_id: id };
    try {
      await log.append(entry);
      return undefined;
    } catch (error) {
      onAppendFailure();
      logger?.error("Cannot append audit record", {
        outcome: entry.outcome,
        caller: entry.caller,
        ...(entry.request_id ? { request_id: entry.request_id } : {}),
        consequence,
        cause: describeFault(error),
      });
      return error ?? new Error("unknown");
    }
  }

  /** Whether actions can proceed, according to the last {@linkcode check}. */
  get isOpen(): boolean {
    return this.#fault === undefined || this.#options.failMode === "open";
  }

  /** Checks whether a record can be written, and logs changes of the result. */
  check(): void {
    const { log, logger } = this.#options;
    let fault: string | undefined;
    try {
      log.check();
    } catch (error) {
      fault = errorText(error);
    }
    if (fault === this.#fault) return;
    this.#fault = fault;
    if (fault === undefined) logger?.info("Audit records can be written again");
    else logger?.error("Audit records cannot be written", { cause: fault, fix: FIX });
  }

  /** Waits for open appends, and closes the log. */
  close(): Promise<void> {
    return this.#options.log.close();
  }
}

/** The pause between two checks of an idle log. */
const CHECK_SECONDS = 1;

interface ServiceAuditOptions {
  readonly config: {
    readonly audit_log: string;
    readonly audit_key: string;
    readonly audit_fail_mode: "closed" | "open" | "";
    readonly redact?: RedactConfig;
  };
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly logger: ServiceLogger;
  /** Opens another log of the set if another process has the configured one. By default the start fails. */
  readonly mayShareConfig?: boolean | undefined;
}

/** Opens, measures and regularly checks the audit log of a service. @throws {AppError} `invalid_config` */
export async function openServiceAudit(
  { config, clock, metrics, logger, mayShareConfig = false }: ServiceAuditOptions,
): Promise<AuditGate> {
  const path = config.audit_log;
  const seed = await readNamedFile("audit_key", config.audit_key);
  const options = { path, seed, clock, redact: createRedactor(config.redact), logger };
  const opened = mayShareConfig
    ? await openFreeAuditLog(options)
    : { path, log: await openFileAuditLog(options) };
  const { log } = opened;
  if (opened.path !== path) {
    logger.info("audit log in use by another process, writing to another file", { path: opened.path });
  }
  const failures = metrics.counter("audit_append_failures_total", "Audit records that could not be written");
  const blocked = metrics.counter("audit_blocked_total", "Actions blocked by a failed audit record");
  const durable = metrics.histogram(
    "audit_append_duration_seconds",
    "Time to append an audit record durably",
    "exchange",
  );
  let waiting = 0;
  metrics.gauge("audit_queue_records", "Audit records that are being written", () => waiting);
  const watching = new AbortController();
  const gate = new AuditGate({
    log: {
      async append(entry) {
        waiting += 1;
        try {
          await durable.measure(() => log.append(entry));
        } finally {
          waiting -= 1;
        }
      },
      check: () => log.check(),
      close() {
        watching.abort();
        return log.close();
      },
    },
    failMode: config.audit_fail_mode,
    logger,
    onAppendFailure: () => failures.inc(),
    onBlocked: () => blocked.inc(),
  });
  void every({ clock, seconds: CHECK_SECONDS, signal: watching.signal }, () => gate.check());
  return gate;
}
