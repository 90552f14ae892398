import type { AuditEntry } from "@gateway/shared/audit";
import type { Clock } from "@gateway/shared/clock";
import { currentRequestId, outsideRequests } from "@gateway/shared/service";

/** What {@linkcode LateRecords} needs. */
interface LateRecordsOptions {
  /** Appends one record; never rejects. */
  readonly append: (entry: AuditEntry) => Promise<void>;
  readonly clock: Clock;
  /** How long a record waits for others, in milliseconds; 0: not at all. */
  readonly delayMs: number;
  /** Aborted when nothing is to wait any longer. */
  readonly signal: AbortSignal;
}

/** Records on their way to a disk that hangs: beyond, whoever adds one waits for it. */
const MAX_UNWRITTEN = 1024;

/**
 * Records that nobody waits for, appended some at a time: each sync of this log is one that the signer's log,
 * which every certificate waits for, does not get from the disk.
 */
export class LateRecords {
  readonly #options: LateRecordsOptions;
  readonly #waiting: AuditEntry[] = [];
  #unwritten = 0;
  #last: Promise<void> = Promise.resolve();

  constructor(options: LateRecordsOptions) {
    this.#options = options;
  }

  /** Resolves at once, or when very many are on their way, after this one's append. Never rejects. */
  add(entry: AuditEntry): Promise<void> {
    // It is appended within another request, or none.
    this.#waiting.push({ request_id: currentRequestId() ?? "", ...entry });
    if (this.#options.delayMs === 0 || this.#unwritten >= MAX_UNWRITTEN) this.flush();
    else if (this.#waiting.length === 1) void outsideRequests(() => this.#flushLater());
    return this.#unwritten > MAX_UNWRITTEN ? this.#last : Promise.resolve();
  }

  /** Appends those that wait, so that what is appended next comes after them. */
  flush(): void {
    for (const entry of this.#waiting.splice(0)) {
      this.#unwritten += 1;
      this.#last = this.#options.append(entry).finally(() => this.#unwritten -= 1);
    }
  }

  async #flushLater(): Promise<void> {
    const { clock, delayMs, signal } = this.#options;
    try {
      await clock.sleep(delayMs, signal);
    } catch {
      // The process is to end: now, then.
    }
    this.flush();
  }
}
