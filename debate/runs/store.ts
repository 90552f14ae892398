import { AppError, errorName } from "@gateway/shared/errors";
import { count as counted, fieldsOf, isObject, parseJson, textOf } from "../engine/graph/text.ts";
import type { RunDirectory } from "./run_directory.ts";
import { factsOf } from "./fold.ts";
import * as records from "./record.ts";
import { formatRecord, type RunListItem, toListItem, withoutForeignClaims } from "./record.ts";
import { NO_TOKENS } from "./setup.ts";
import { type Clock, every } from "@gateway/shared/clock";

const PARALLEL_READS = 32;
const MAX_UNSAVED = 20;

const RECORD = /^([0-9a-f]{32})\.json$/;
const LEFTOVER = /^\.(?:[0-9a-f]{32}|alerts)\.json\.[0-9a-f]+$/;
const JOURNAL = /^([0-9a-f]{32})\.events\.jsonl$/;

const DECODER = new TextDecoder();
const ENCODER = new TextEncoder();

type Stored = { readonly run_id: string };

export class RunStore {
  readonly #directory: RunDirectory;
  readonly #warn: (message: string) => void;
  /** List entries by run ID; `undefined` for a file that is not a record. */
  readonly #index = new Map<string, RunListItem | undefined>();
  readonly #unsaved = new Map<string, string>();
  readonly #held = new Map<string, number>();
  #sorted: readonly RunListItem[] | undefined;

  private constructor(directory: RunDirectory, warn: (message: string) => void) {
    this.#directory = directory;
    this.#warn = warn;
  }

  /** Opens the store. Runs that are marked as running belong to a stopped server, so they become interrupted. */
  static async open({ directory, warn }: {
    readonly directory: RunDirectory;
    readonly warn: (message: string) => void;
  }): Promise<RunStore> {
    const store = new RunStore(directory, warn);
    const names = await store.#refresh();
    for (const item of store.#index.values()) {
      if (item?.status === "running") await store.#interrupt(item.run_id);
    }
    await store.#sweep(names);
    return store;
  }

  /** Lists the runs, newest first, without files that are not records. */
  async list(): Promise<readonly RunListItem[]> {
    await this.#refresh();
    this.#sorted ??= [...this.#index.values()].filter((item) => item !== undefined).sort(records.byTime);
    return this.#sorted;
  }

  async read(runId: string): Promise<StoredRun | undefined> {
    const bytes = this.#unsaved.has(runId) ? undefined : await this.#directory.read(`${runId}.json`);
    const text = this.#unsaved.get(runId) ?? (bytes && DECODER.decode(bytes));
    if (text === undefined) return undefined;
    const stored = readStoredRun(runId, text);
    if (stored !== undefined) return stored;
    throw new AppError("not_found", "Cannot read the record of this run: it is damaged");
  }

  /** Writes the first record of a run and returns its journal. */
  async begin(record: Stored): Promise<Journal> {
    await this.add(record.run_id, record);
    return createJournal(
      (bytes) => this.#directory.append(`${record.run_id}.events.jsonl`, bytes),
      this.#warn,
    );
  }

  async finish(record: Stored): Promise<void> {
    const { run_id } = record;
    try {
      await this.add(run_id, record);
    } catch (error) {
      const [oldest] = this.#unsaved.keys();
      if (this.#unsaved.size >= MAX_UNSAVED && oldest !== undefined) this.#unsaved.delete(oldest);
      this.#unsaved.set(run_id, formatRecord(record));
      this.#put(run_id, toListItem(run_id, record));
      throw error;
    }
    await this.#directory.remove(`${run_id}.events.jsonl`).catch(() => {
      this.#warn("cannot remove the journal of a finished run; the next start will remove it");
    });
  }

  async add(runId: string, record: object): Promise<void> {
    await this.#directory.write(`${runId}.json`, ENCODER.encode(formatRecord(record)));
    this.#unsaved.delete(runId);
    this.#put(runId, toListItem(runId, record));
  }

  rename(runId: string, title: string): Promise<boolean> {
    return this.hold(runId, async () => {
      const stored = await this.read(runId);
      if (stored === undefined) return false;
      const { title: _before, ...rest } = fieldsOf(parseJson(stored.text));
      // First, because lists read only the beginning of the file.
      await this.add(runId, title === "" ? rest : { title, ...rest });
      return true;
    });
  }

  /** Prevents the expiry of a run while `work` uses it. */
  async hold<T>(runId: string, work: () => Promise<T>): Promise<T> {
    this.#held.set(runId, (this.#held.get(runId) ?? 0) + 1);
    try {
      return await work();
    } finally {
      const left = (this.#held.get(runId) ?? 1) - 1;
      if (left > 0) this.#held.set(runId, left);
      else this.#held.delete(runId);
    }
  }

  /**
   * Removes a run that ended before a time. Returns whether the run was removed. Runs that are in progress, held, or
   * without a time are kept.
   */
  async expire(runId: string, before: number): Promise<boolean> {
    const item = this.#index.get(runId);
    if (item === undefined || this.#held.has(runId)) return false;
    const { status, finished_at, imported_at, timestamp } = item;
    const time = Date.parse(imported_at ?? finished_at ?? timestamp ?? "");
    if (status === "running" || status === null || !(time < before)) return false;
    await this.delete(runId);
    return true;
  }

  async delete(runId: string): Promise<void> {
    await this.#directory.remove(`${runId}.json`);
    await this.#directory.remove(`${runId}.events.jsonl`);
    this.#unsaved.delete(runId);
    this.#index.delete(runId);
    this.#sorted = undefined;
  }

  #put(runId: string, item: RunListItem | undefined): void {
    this.#index.set(runId, item);
    this.#sorted = undefined;
  }

  /** Updates the index from the file names and returns the file names. */
  async #refresh(): Promise<readonly string[]> {
    const before = new Set(this.#index.keys());
    const names = await this.#directory.names();
    const present = new Set(names.flatMap((name) => RECORD.exec(name)?.[1] ?? []));
    for (const runId of before) {
      if (present.has(runId) || this.#unsaved.has(runId)) continue;
      this.#index.delete(runId);
      this.#sorted = undefined;
    }
    const fresh = [...present].filter((runId) => !this.#index.has(runId)).values();
    await Promise.all(Array.from({ length: PARALLEL_READS }, async () => {
      for (const runId of fresh) {
        const item = await this.#readItem(runId);
        // The run may have updated its entry in the meantime.
        if (!this.#index.has(runId)) this.#put(runId, item);
      }
    }));
    return names;
  }

  async #readItem(runId: string): Promise<RunListItem | undefined> {
    const name = `${runId}.json`;
    try {
      const item = await readListItem(this.#directory, runId);
      if (item === undefined) this.#warn(`${name} in DATA_DIR is damaged, or not the record of a run`);
      return item === "missing" ? undefined : item;
    } catch (error) {
      this.#warn(`cannot read ${name} in DATA_DIR: ${errorName(error)}`);
      return undefined;
    }
  }

  async #interrupt(runId: string): Promise<void> {
    try {
      const stored = await this.#directory.read(`${runId}.json`);
      const journal = await this.#directory.read(`${runId}.events.jsonl`);
      await this.add(runId, interruptedRecord(parseJson(DECODER.decode(stored)), DECODER.decode(journal)));
    } catch (error) {
      this.#warn(`cannot mark run ${runId} as interrupted: ${errorName(error)}`);
    }
  }

  async #sweep(names: readonly string[]): Promise<void> {
    for (const name of names) {
      const runId = JOURNAL.exec(name)?.[1];
      const isDone = runId !== undefined && this.#index.get(runId)?.status !== "running";
      // The journal of a damaged record is kept, because it is the only copy of the events.
      const isNeeded = runId !== undefined && this.#index.has(runId) && this.#index.get(runId) === undefined;
      if (!LEFTOVER.test(name) && (!isDone || isNeeded)) continue;
      await this.#directory.remove(name).catch(() => this.#warn(`cannot remove ${name} in DATA_DIR`));
    }
  }
}

/** Enough for the header of a record, except for very long topics. */
const HEAD_BYTES = 8192;

/** Reads the header from the first bytes of a file or, if it is longer, from the whole file. */
export async function readListItem(
  directory: Pick<RunDirectory, "read" | "readEnds">,
  runId: string,
): Promise<RunListItem | "missing" | undefined> {
  const name = `${runId}.json`;
  const ends = await directory.readEnds(name, HEAD_BYTES);
  if (ends === undefined) return "missing";
  const isWhole = DECODER.decode(ends.tail).trimEnd().endsWith("}");
  const header = isWhole ? records.parseHead(DECODER.decode(ends.head)) : undefined;
  return toListItem(runId, header ?? parseJson(DECODER.decode(await directory.read(name))));
}

export interface StoredRun {
  /** The JSON of the file. For an imported run, without claims that only this server can check. */
  readonly text: string;
  readonly record: records.ReadRecord;
}

/** Parses the text of a record's file; `undefined` if it is damaged. */
export function readStoredRun(runId: string, text: string): StoredRun | undefined {
  const value = parseJson(text);
  const record = records.readRecord(runId, value);
  if (record === undefined || !isObject(value)) return undefined;
  return { text: record.imported ? formatRecord(withoutForeignClaims(value)) : text, record };
}

export const INTERRUPTED = "The server stopped during the run";

/** Adds the events of the journal and a final event to a record. The other fields keep their order. */
export function interruptedRecord(record: unknown, journal: string): Readonly<Record<string, unknown>> {
  if (!isObject(record)) throw new TypeError("Not a record");
  const before = Array.isArray(record.events) ? records.readEvents(record.events) : [];
  // Incomplete or damaged lines are ignored.
  const known = before.length > 0 ? before : records.readEvents(journal.split("\n").map(parseJson));
  const isEnded = known.some(({ type }) => type === "run_finished");
  const end = { type: "run_finished", status: "interrupted", token_totals: NO_TOKENS, cost_estimate: null };
  const events = isEnded ? known : [...known, { type: "error", message: INTERRUPTED }, end];
  return { ...record, status: "interrupted", ...factsOf(events, textOf(record.language)) };
}

/**
 * The events of a run in progress, one JSON line each, because rewriting the record for each event would be too slow.
 * Lines that arrive during a write are combined into the next write.
 */
function createJournal(append: (bytes: Uint8Array) => Promise<void>, warn: (message: string) => void) {
  let waiting = "";
  let writing: Promise<void> | undefined;
  let isBroken = false;

  async function write(): Promise<void> {
    // In a later turn, so that events emitted together are written together.
    await Promise.resolve();
    while (waiting !== "") {
      // A failed write may have left a partial line.
      const text = isBroken ? `\n${waiting}` : waiting;
      waiting = "";
      try {
        await append(ENCODER.encode(text));
        isBroken = false;
      } catch (error) {
        if (!isBroken) warn(`cannot write the journal of a run: ${errorName(error)}`);
        isBroken = true;
      }
    }
    writing = undefined;
  }

  return {
    /** Adds JSON without line feeds. A write failure is logged once, and the run keeps its events in memory. */
    add(json: string): void {
      waiting += `${json}\n`;
      writing ??= write();
    },
    /** Waits until all added lines are written or have failed. */
    async settle(): Promise<void> {
      await writing;
    },
  };
}

export type Journal = ReturnType<typeof createJournal>;

interface Retention {
  readonly store: Pick<RunStore, "list" | "expire">;
  readonly days: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly log: (message: string) => void;
}

const HOUR_SECONDS = 3600;
const DAY_MS = 86_400_000;

/** Deletes old runs immediately and then every hour until the signal is aborted. Never rejects. */
export async function retain(retention: Retention): Promise<void> {
  const { days, clock, signal } = retention;
  if (days === 0) return;
  await expire(retention);
  await every({ clock, seconds: HOUR_SECONDS, signal }, () => expire(retention));
}

/** Deletes old runs. A failure for one run does not stop the deletion of the others. */
async function expire({ store, days, clock, signal, log }: Retention): Promise<void> {
  let deleted = 0;
  const failures = new Map<string, number>();
  const failed = (error: unknown) =>
    failures.set(errorName(error), (failures.get(errorName(error)) ?? 0) + 1);
  const before = clock.now() - days * DAY_MS;
  const runs = await store.list().catch((error) => {
    failed(error);
    return [];
  });
  for (const { run_id } of runs) {
    if (signal.aborted) return;
    try {
      if (await store.expire(run_id, before)) deleted += 1;
    } catch (error) {
      failed(error);
    }
  }
  for (const [name, count] of failures) {
    log(`cannot delete old runs: ${name}${count === 1 ? "" : ` (${count} times)`}`);
  }
  if (deleted === 0) return;
  log(
    `deleted ${counted(deleted, "run")} older than ${counted(days, "day")}`,
  );
}
