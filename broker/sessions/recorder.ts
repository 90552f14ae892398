import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { type Clock, within } from "@gateway/shared/clock";
import { AppError, errorName } from "@gateway/shared/errors";
import { stringifyJson } from "@gateway/shared/json";
import { createRedactStreams, type OpenRedactStream, type RedactStream } from "@gateway/shared/redact";
import type { Metrics, ServiceLogger } from "@gateway/shared/service";
import { writeAll } from "@gateway/shared/text";
import type { BrokerConfig } from "../config/config.ts";

/** The time limit of one file operation, in milliseconds. A disk that exceeds it may never answer. */
export const DISK_MS = 10_000;
const MAX_RECORDING_BYTES = 104_857_600;

interface RecordingHeader {
  readonly sessionId: string;
  readonly caller: string;
  readonly host: string;
  readonly serial: bigint;
  readonly startedAt: number;
}

/** Encodes the first line of an asciicast v2 file (docs.asciinema.org/manual/asciicast/v2). */
export function encodeHeader({ sessionId, caller, host, serial, startedAt }: RecordingHeader): string {
  return stringifyJson({
    version: 2,
    width: 220,
    height: 40,
    timestamp: Math.floor(startedAt / 1000),
    title: `session ${sessionId} — ${caller}@${host}`,
    env: { TERM: "xterm-256color" },
    gateway: {
      session_id: sessionId,
      caller,
      host,
      serial,
      started_at: new Date(startedAt).toISOString().replace(/\.\d{3}Z$/, "Z"),
    },
  }) + "\n";
}

/** Encodes typed input (`i`), terminal output (`o`) or text of the error stream (`e`). */
export function encodeEvent(elapsedMs: number, type: "i" | "o" | "e", data: string): string {
  const seconds = Math.round(elapsedMs * 1000) / 1e6;
  // Players write to a raw terminal, where a line feed does not return to the start of the line.
  const shown = type === "i" ? data : data.replace(/\r?\n/g, "\r\n");
  return `[${seconds}, "${type}", ${stringifyJson(shown.toWellFormed())}]\n`;
}

export interface RecordingFile {
  /** Appends all of the bytes. After a failure the file may contain a part of them. */
  write(bytes: Uint8Array): Promise<void>;
  truncate(size: number): Promise<void>;
  /** Syncs and releases the file. */
  close(): Promise<void>;
}

/** Creates a recording that only its owner can read. An existing recording is never overwritten. */
export async function createRecordingFile(directory: string, sessionId: string): Promise<RecordingFile> {
  const path = join(directory, `${sessionId}.cast`);
  const file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
  return {
    write: (bytes) => writeAll(file, bytes),
    async truncate(size) {
      await file.truncate(size);
      await file.seek(size, Deno.SeekMode.Start);
    },
    async close() {
      try {
        await file.syncData();
      } finally {
        file.close();
      }
    },
  };
}

export interface RecorderOptions {
  readonly file: RecordingFile;
  readonly header: RecordingHeader;
  readonly clock: Clock;
  readonly openRedaction: OpenRedactStream;
  readonly strict: boolean;
  readonly onFailure: (error: unknown) => void;
  readonly maxBytes?: number;
}

/** Starts the recording of a session. The result is `undefined` if the session continues unrecorded. */
export type StartRecording = (header: RecordingHeader) => Promise<Recorder | undefined>;

export function createRecordings(
  { session_recording_dir: directory, session_recording_strict: strict, redact }: BrokerConfig,
  { clock, metrics, logger }: {
    readonly clock: Clock;
    readonly metrics: Pick<Metrics, "counter">;
    readonly logger: Pick<ServiceLogger, "warn">;
  },
  createFile = createRecordingFile,
): StartRecording | undefined {
  const failures = metrics.counter("recording_write_errors_total", "Failed writes of session recordings");
  if (directory === "") return undefined;
  const openRedaction = createRedactStreams(redact);
  const onFailure = (error: unknown) => {
    failures.inc();
    logger.warn("session recording failed", { error });
  };
  return async (header) => {
    try {
      const release = (file: RecordingFile) => file.close();
      const bound = { clock, ms: DISK_MS, late: tookTooLong, release };
      const file = await within(bound, () => createFile(directory, header.sessionId));
      return await Recorder.start({ file, header, clock, openRedaction, strict, onFailure });
    } catch (cause) {
      onFailure(cause);
      if (!strict) return undefined;
      // The cause names a path of this machine.
      throw new AppError("internal", `opening session recording: ${errorName(cause)}`, { cause });
    }
  };
}

export interface RecordingSummary {
  /** The digest of the whole file. If closing failed, the content of the file is unknown. */
  readonly sha256: string | undefined;
  readonly bytes: number;
  readonly complete: boolean;
}

export type SessionTranscript = Pick<Recorder, "openRedaction" | "input" | "output" | "error">;

/** In strict mode a call rejects when its event is not in the file. Otherwise the gap appears in the summary. */
export class Recorder {
  readonly #options: RecorderOptions;
  readonly #hash = createHash("sha256");
  #last: Promise<void> = Promise.resolve();
  #elapsed = 0;
  #bytes = 0;
  #full = false;
  #complete = true;
  #torn = false;
  #deadDisk: Error | undefined;
  #closing: Promise<RecordingSummary> | undefined;

  private constructor(options: RecorderOptions) {
    this.#options = options;
  }

  /** @throws the file's error when the header cannot be written; the file is closed then */
  static async start(options: RecorderOptions): Promise<Recorder> {
    const recorder = new Recorder(options);
    try {
      await recorder.#append(encodeHeader(options.header));
      return recorder;
    } catch (error) {
      await recorder.#closeFile().catch(() => {});
      throw error;
    }
  }

  input(text: string): Promise<void> {
    const redact = this.openRedaction();
    return this.#record("i", redact.push(text) + redact.end());
  }

  openRedaction(): RedactStream {
    return this.#options.openRedaction();
  }

  output(text: string): Promise<void> {
    return this.#record("o", text);
  }

  /** Records redacted text of the error stream. A failure is counted but never ends the session. */
  error(text: string): Promise<void> {
    return this.#record("e", text).catch(() => {});
  }

  /** Ends the recording after the pending writes, or {@linkcode DISK_MS} later. Never rejects. */
  close(): Promise<RecordingSummary> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  #record(type: "i" | "o" | "e", text: string): Promise<void> {
    if (text === "") return Promise.resolve();
    // The digest of a recording that is being closed may be in the audit log already.
    if (this.#closing !== undefined) return this.#miss(new Error("The recording has been closed"));
    // Players reject a file whose time runs backwards.
    const elapsed = Math.max(this.#elapsed, this.#options.clock.now() - this.#options.header.startedAt);
    this.#elapsed = elapsed;
    const written = this.#last.then(() => this.#write(encodeEvent(elapsed, type, text), elapsed));
    this.#last = written.catch(() => {});
    return written;
  }

  async #write(line: string, elapsed: number): Promise<void> {
    if (this.#full) return;
    const { maxBytes = MAX_RECORDING_BYTES } = this.#options;
    try {
      if (this.#bytes + Buffer.byteLength(line) <= maxBytes) return await this.#append(line);
      this.#full = true;
      this.#complete = false;
      const mark = `\r\n[recording truncated: ${maxBytes}-byte limit reached]\r\n`;
      await this.#append(encodeEvent(elapsed, "o", mark));
    } catch (cause) {
      await this.#miss(cause);
    }
  }

  #miss(cause: unknown): Promise<void> {
    this.#complete = false;
    this.#options.onFailure(cause);
    if (!this.#options.strict) return Promise.resolve();
    return Promise.reject(
      new AppError("internal", `session recording failed (strict mode): ${errorName(cause)}`, { cause }),
    );
  }

  async #append(line: string): Promise<void> {
    const bytes = Buffer.from(line);
    await this.#removeTornLine();
    this.#torn = true;
    await this.#onDisk(() => this.#options.file.write(bytes));
    this.#torn = false;
    this.#bytes += bytes.length;
    this.#hash.update(bytes);
  }

  async #removeTornLine(): Promise<void> {
    if (this.#torn) await this.#onDisk(() => this.#options.file.truncate(this.#bytes));
    this.#torn = false;
  }

  /**
   * Stops using a disk that exceeds the time limit, so that only one operation waits for it. The file is
   * closed if the disk answers later.
   */
  async #onDisk(step: () => Promise<void>): Promise<void> {
    if (this.#deadDisk !== undefined) throw this.#deadDisk;
    const { clock, file } = this.#options;
    const running = step();
    const late = () => {
      const release = () => file.close();
      running.then(release, release).catch(() => {});
      return this.#deadDisk = tookTooLong();
    };
    await within({ clock, ms: DISK_MS, late }, running);
  }

  async #closeFile(): Promise<void> {
    if (this.#deadDisk !== undefined) throw this.#deadDisk;
    await this.#options.file.close();
  }

  async #close(): Promise<RecordingSummary> {
    const { clock, onFailure } = this.#options;
    try {
      await within({ clock, ms: DISK_MS, late: tookTooLong }, async () => {
        await this.#last;
        await this.#removeTornLine().finally(() => this.#closeFile());
      });
    } catch (error) {
      onFailure(error);
      return { sha256: undefined, bytes: this.#bytes, complete: false };
    }
    return { sha256: this.#hash.digest("hex"), bytes: this.#bytes, complete: this.#complete };
  }
}

function tookTooLong(): Error {
  return new DOMException(`The disk did not answer within ${DISK_MS} ms`, "TimeoutError");
}

/** Turns the bytes of one stream into redacted text, without splitting a character. */
export class RedactingDecoder {
  readonly #record: (text: string) => Promise<void>;
  readonly #redact: RedactStream;
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #room: number;
  #isCut = false;
  readonly #failures: unknown[] = [];
  #last: Promise<void> = Promise.resolve();

  constructor(tap: Omit<SessionTranscript, "input">, stream: "stdout" | "stderr", maxBytes: number) {
    this.#record = (text) => stream === "stdout" ? tap.output(text) : tap.error(text);
    this.#redact = tap.openRedaction();
    this.#room = maxBytes;
  }

  push(bytes: Uint8Array): void {
    const kept = bytes.subarray(0, this.#room);
    this.#room -= kept.length;
    this.#isCut ||= kept.length < bytes.length;
    this.#write(this.#redact.push(this.#decoder.decode(kept, { stream: true })));
  }

  /** Writes the remaining text and then the mark. Throws the first error of the writes. */
  async end(mark: string): Promise<void> {
    this.#write(this.#redact.push(this.#decoder.decode()));
    this.#write(this.#isCut ? this.#redact.cut() : this.#redact.end());
    this.#write(mark);
    await this.#last;
    if (this.#failures.length > 0) throw this.#failures[0];
  }

  #write(text: string): void {
    if (text === "") return;
    // A recorder writes in the order of the calls, so the last write ends last.
    this.#last = this.#record(text).catch((error) => void this.#failures.push(error));
  }
}
