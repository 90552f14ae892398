/**
 * Finds where the chain of a log on disk continues, and puts aside what an interrupted write has left.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { AppError } from "../errors.ts";
import { ifThere, readAt } from "../files.ts";
import { openLogFile } from "./log_file.ts";
import { quoteText } from "../quote.ts";
import { type AuditPublicKey, type ChainHead, GENESIS } from "./chain.ts";
import { putAside } from "./put_aside.ts";
import { type AuditWarnings, listSegments } from "./segments.ts";
import { inspectTail, TAIL_BYTES, type TailState } from "./tail.ts";

/** Where a log continues. */
export interface RestoredLog {
  readonly head: ChainHead;
  /** Bytes of good records in the active file. */
  readonly size: number;
  /** Whether these end in a newline. */
  readonly terminated: boolean;
}

/** What {@linkcode restoreLog} needs. */
export interface RestoreOptions {
  readonly path: string;
  readonly key: AuditPublicKey;
  /** The time that names a file of torn bytes, in milliseconds since the Unix epoch. */
  readonly now: number;
  readonly warnings?: AuditWarnings | undefined;
}

type SoundState = Exclude<TailState, { readonly kind: "broken" }> & { readonly size: number };

/**
 * Restores the head of the chain: from the last record of the active file or, when that is absent or empty,
 * of the newest rotated file that has one. Torn bytes at the end of such a file are moved to
 * `<log>.corrupt-<YYYYMMDDTHHMMSSZ>`.
 *
 * @throws {AppError} `invalid_config` when a file does not end in a good record of this key
 */
export async function restoreLog(options: RestoreOptions): Promise<RestoredLog> {
  const active = await restoreFile(options.path, options);
  if (active.kind === "good") {
    return { head: active.head, size: active.size, terminated: active.terminated };
  }
  const segments = await listSegments(options.path);
  for (const { name } of segments.toReversed()) {
    const state = await restoreFile(join(dirname(options.path), name), options);
    if (state.kind === "good") {
      return { head: { seq: 0, hash: state.head.hash }, size: active.size, terminated: true };
    }
  }
  return { head: GENESIS, size: active.size, terminated: true };
}

async function restoreFile(path: string, options: RestoreOptions): Promise<SoundState> {
  const { bytes, size } = await readEnd(path);
  const state = inspectTail(bytes, bytes.length === size, options.key);
  if (state.kind === "broken") throw refusal(path, options.path, state.reason);
  if (state.tornBytes === 0) return { ...state, size };
  const kept = size - state.tornBytes;
  const corrupt = await putAside(options.path, [bytes.subarray(bytes.length - state.tornBytes)], options.now);
  await cutBack(path, kept);
  options.warnings?.warn("Audit log ended in a torn record, which was never acknowledged: moved aside", {
    path,
    bytes: state.tornBytes,
    moved_to: corrupt,
  });
  return { ...state, size: kept };
}

async function readEnd(path: string): Promise<{ readonly bytes: Uint8Array; readonly size: number }> {
  await using file = await ifThere(openLogFile(path));
  if (file === undefined) return { bytes: new Uint8Array(0), size: 0 };
  const { size } = await file.stat();
  const length = Math.min(size, TAIL_BYTES);
  const bytes = await readAt(file, size - length, length);
  if (bytes.length < length) throw new Error("the file shrank while it was read");
  return { bytes, size };
}

async function cutBack(path: string, size: number): Promise<void> {
  using file = await Deno.open(path, { write: true });
  await file.truncate(size);
  await file.sync();
}

function refusal(file: string, log: string, reason: string): AppError {
  return new AppError(
    "invalid_config",
    `Cannot open audit log ${quoteText(file)}: ${reason}; look at it with ` +
      `broker-ctl audit verify --log ${quoteText(log)} and mend it with broker-ctl audit repair`,
  );
}
