import { AppError, errorName } from "@gateway/shared/errors";
import { fieldsOf, isObject, parseJson, textOf } from "../engine/graph/text.ts";
import type { Folder } from "./disk_folder.ts";
import { toldBy } from "./fold.ts";
import * as records from "./record.ts";
import { formatRecord, type RunListItem, toListItem, withoutForeignClaims } from "./record.ts";
import { NO_TOKENS } from "./setup.ts";
import { type Clock, every } from "@gateway/shared/clock";

const LOOKS = 32;
const MAX_UNSAVED = 20;

const RECORD = /^([0-9a-f]{32})\.json$/;
const LEFTOVER = /^\.[0-9a-f]{32}\.json\.[0-9a-f]+$/;
const JOURNAL = /^([0-9a-f]{32})\.events\.jsonl$/;

const DECODER = new TextDecoder();
const ENCODER = new TextEncoder();

type Stored = { readonly run_id: string };

export class RunStore {
  readonly #folder: Folder;
  readonly #warn: (message: string) => void;
  /** By run id; `undefined` for a file that is not a record. */
  readonly #index = new Map<string, RunListItem | undefined>();
  readonly #unsaved = new Map<string, string>();
  readonly #held = new Map<string, number>();
  #sorted: readonly RunListItem[] | undefined;

  private constructor(folder: Folder, warn: (message: string) => void) {
    this.#folder = folder;
    this.#warn = warn;
  }

  /** Opens the store. Runs still marked as running belong to a server that stopped, and become interrupted. */
  static async open({ folder, warn }: {
    readonly folder: Folder;
    readonly warn: (message: string) => void;
  }): Promise<RunStore> {
    const store = new RunStore(folder, warn);
    const names = await store.#look();
    for (const item of store.#index.values()) {
      if (item?.status === "running") await store.#interrupt(item.run_id);
    }
    await store.#sweep(names);
    return store;
  }

  /** Lists the runs, newest first. Files that are not records are left out. */
  async list(): Promise<readonly RunListItem[]> {
    await this.#look();
    this.#sorted ??= [...this.#index.values()].filter((item) => item !== undefined).sort(records.byTime);
    return this.#sorted;
  }

  async read(runId: string): Promise<StoredRun | undefined> {
    const bytes = this.#unsaved.has(runId) ? undefined : await this.#folder.read(`${runId}.json`);
    const text = this.#unsaved.get(runId) ?? (bytes && DECODER.decode(bytes));
    if (text === undefined) return undefined;
    const stored = readStoredRun(runId, text);
    if (stored !== undefined) return stored;
    throw new AppError("not_found", "The record of this run is damaged and cannot be read");
  }

  /** Writes the record of a run that begins, and returns its journal. */
  async begin(record: Stored): Promise<Journal> {
    await this.add(record.run_id, record);
    return createJournal((bytes) => this.#folder.append(`${record.run_id}.events.jsonl`, bytes), this.#warn);
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
    await this.#folder.remove(`${run_id}.events.jsonl`).catch(() => {
      this.#warn("cannot remove the journal of a finished run; the next start will");
    });
  }

  async add(runId: string, record: object): Promise<void> {
    await this.#folder.write(`${runId}.json`, ENCODER.encode(formatRecord(record)));
    this.#unsaved.delete(runId);
    this.#put(runId, toListItem(runId, record));
  }

  rename(runId: string, title: string): Promise<boolean> {
    return this.hold(runId, async () => {
      const stored = await this.read(runId);
      if (stored === undefined) return false;
      const { title: _before, ...rest } = fieldsOf(parseJson(stored.text));
      // In front, where the list finds it.
      await this.add(runId, title === "" ? rest : { title, ...rest });
      return true;
    });
  }

  /** Keeps a run from being removed for its age while somebody works with it. */
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
   * Removes a run that ended before a time, and returns whether it did. A run that is in progress, that somebody
   * works with, or that has no time, is kept.
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
    await this.#folder.remove(`${runId}.json`);
    await this.#folder.remove(`${runId}.events.jsonl`);
    this.#unsaved.delete(runId);
    this.#index.delete(runId);
    this.#sorted = undefined;
  }

  #put(runId: string, item: RunListItem | undefined): void {
    this.#index.set(runId, item);
    this.#sorted = undefined;
  }

  /** Updates the index from the names of the files, and returns these. */
  async #look(): Promise<readonly string[]> {
    const before = new Set(this.#index.keys());
    const names = await this.#folder.names();
    const present = new Set(names.flatMap((name) => RECORD.exec(name)?.[1] ?? []));
    for (const runId of before) {
      if (present.has(runId) || this.#unsaved.has(runId)) continue;
      this.#index.delete(runId);
      this.#sorted = undefined;
    }
    const fresh = [...present].filter((runId) => !this.#index.has(runId)).values();
    await Promise.all(Array.from({ length: LOOKS }, async () => {
      for (const runId of fresh) {
        const item = await this.#readItem(runId);
        // The run itself may have written more in the meantime.
        if (!this.#index.has(runId)) this.#put(runId, item);
      }
    }));
    return names;
  }

  async #readItem(runId: string): Promise<RunListItem | undefined> {
    const name = `${runId}.json`;
    try {
      const item = await readListItem(this.#folder, runId);
      if (item === undefined) this.#warn(`${name} in DATA_DIR is damaged, or not the record of a run`);
      return item === "missing" ? undefined : item;
    } catch (error) {
      this.#warn(`cannot read ${name} in DATA_DIR: ${errorName(error)}`);
      return undefined;
    }
  }

  async #interrupt(runId: string): Promise<void> {
    try {
      const stored = await this.#folder.read(`${runId}.json`);
      const journal = await this.#folder.read(`${runId}.events.jsonl`);
      await this.add(runId, interruptedRecord(parseJson(DECODER.decode(stored)), DECODER.decode(journal)));
    } catch (error) {
      this.#warn(`cannot mark run ${runId} as interrupted: ${errorName(error)}`);
    }
  }

  async #sweep(names: readonly string[]): Promise<void> {
    for (const name of names) {
      const runId = JOURNAL.exec(name)?.[1];
      const isDone = runId !== undefined && this.#index.get(runId)?.status !== "running";
      // If the record is damaged, the journal is all that is left.
      const isNeeded = runId !== undefined && this.#index.has(runId) && this.#index.get(runId) === undefined;
      if (!LEFTOVER.test(name) && (!isDone || isNeeded)) continue;
      await this.#folder.remove(name).catch(() => this.#warn(`cannot remove ${name} in DATA_DIR`));
    }
  }
}

/** Enough for the header of all but the most talkative topics. */
const HEAD_BYTES = 8192;

/** Reads the header from the first bytes of a file or, if they do not hold it, from all of it. */
export async function readListItem(
  folder: Pick<Folder, "read" | "readEnds">,
  runId: string,
): Promise<RunListItem | "missing" | undefined> {
  const name = `${runId}.json`;
  const ends = await folder.readEnds(name, HEAD_BYTES);
  if (ends === undefined) return "missing";
  const isWhole = DECODER.decode(ends.tail).trimEnd().endsWith("}");
  const header = isWhole ? records.parseHead(DECODER.decode(ends.head)) : undefined;
  return toListItem(runId, header ?? parseJson(DECODER.decode(await folder.read(name))));
}

export interface StoredRun {
  /** The JSON of the file; of an imported run, without what only this server can know. */
  readonly text: string;
  readonly record: records.ReadRecord;
}

/** Reads the text of a record's file; `undefined` if it is damaged. */
export function readStoredRun(runId: string, text: string): StoredRun | undefined {
  const value = parseJson(text);
  const record = records.readRecord(runId, value);
  if (record === undefined || !isObject(value)) return undefined;
  return { text: record.imported ? formatRecord(withoutForeignClaims(value)) : text, record };
}

export const INTERRUPTED = "The server stopped during the run";

/** The record with the events of its journal, ended like every run; its other fields keep their order. */
export function interruptedRecord(record: unknown, journal: string): Readonly<Record<string, unknown>> {
  if (!isObject(record)) throw new TypeError("Not a record");
  const before = Array.isArray(record.events) ? records.readEvents(record.events) : [];
  // Torn or damaged lines are ignored.
  const told = before.length > 0 ? before : records.readEvents(journal.split("\n").map(parseJson));
  const isEnded = told.some(({ type }) => type === "run_finished");
  const end = { type: "run_finished", status: "interrupted", token_totals: NO_TOKENS, cost_estimate: null };
  const events = isEnded ? told : [...told, { type: "error", message: INTERRUPTED }, end];
  return { ...record, status: "interrupted", ...toldBy(events, textOf(record.language)) };
}

/**
 * Events of a run in progress, one JSON line each, because rewriting the record for each event would cost too much.
 * Lines that arrive during a write are combined into the next one.
 */
function createJournal(append: (bytes: Uint8Array) => Promise<void>, warn: (message: string) => void) {
  let waiting = "";
  let writing: Promise<void> | undefined;
  let isBroken = false;

  async function write(): Promise<void> {
    // Not in the emitter's turn, so that events emitted together are written together.
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
    /** Adds JSON without line feeds. A failure is reported once; the run continues and keeps its events. */
    add(json: string): void {
      waiting += `${json}\n`;
      writing ??= write();
    },
    /** Waits until everything added so far has been written, or has failed. */
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
  readonly tell: (message: string) => void;
}

const HOUR_SECONDS = 3600;
const DAY_MS = 86_400_000;

/** Looks at once and then every hour, until the signal is aborted; never rejects. */
export async function retain(retention: Retention): Promise<void> {
  const { days, clock, signal } = retention;
  if (days === 0) return;
  await expire(retention);
  await every({ clock, seconds: HOUR_SECONDS, signal }, () => expire(retention));
}

/** A run that cannot be removed keeps none of the others. */
async function expire({ store, days, clock, signal, tell }: Retention): Promise<void> {
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
    tell(`cannot delete old runs: ${name}${count === 1 ? "" : ` (${count} times)`}`);
  }
  if (deleted === 0) return;
  tell(
    `deleted ${deleted} ${deleted === 1 ? "run" : "runs"} older than ${days} ${days === 1 ? "day" : "days"}`,
  );
}
