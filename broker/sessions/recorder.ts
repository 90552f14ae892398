import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { type Clock, within } from "@gateway/shared/clock";
import { AppError, errorName } from "@gateway/shared/errors";
import type { OpenRedactStream, RedactStream } from "@gateway/shared/redact";
import { encodeEvent, encodeHeader, type RecordingEvent, type RecordingHeader } from "./asciicast.ts";
import type { RecordingFile } from "./recording_file.ts";
import { DISK_MS, LimitedFile, tookTooLong } from "./limited_file.ts";

/** The largest recording, in bytes; a mark follows, and nothing else. */
const MAX_RECORDING_BYTES = 104_857_600;

/** What {@linkcode Recorder} needs. */
export interface RecorderOptions {
  readonly file: RecordingFile;
  readonly header: RecordingHeader;
  readonly clock: Clock;
  /** Begins a text whose secrets are masked. */
  readonly openRedaction: OpenRedactStream;
  /** A failure to record ends the session instead of leaving a gap. */
  readonly strict: boolean;
  readonly onFailure: (error: unknown) => void;
  /** {@linkcode MAX_RECORDING_BYTES} when absent. */
  readonly maxBytes?: number | undefined;
}

/** What a closed recording holds; its digest goes into the audit log. */
export interface RecordingSummary {
  /** Of the whole file, lowercase hex; `undefined` when it could not be closed: nobody knows then what is in it. */
  readonly sha256: string | undefined;
  readonly bytes: number;
  /** Something is missing: the limit was reached, or a write failed. */
  readonly complete: boolean;
}

/**
 * Writes what happens in a session. Events are written in the order of the calls. In strict mode a call rejects
 * when its event is not in the file; otherwise it never does, and the gap is reported and shows in the summary. A
 * disk that does not answer is waited for only once, {@linkcode DISK_MS} long.
 */
export class Recorder {
  readonly #options: RecorderOptions;
  readonly #file: RecordingFile;
  readonly #maxBytes: number;
  readonly #hash = createHash("sha256");
  #last: Promise<void> = Promise.resolve();
  #elapsed = 0;
  #bytes = 0;
  #full = false;
  #complete = true;
  #torn = false;
  #closing: Promise<RecordingSummary> | undefined;

  private constructor(options: RecorderOptions) {
    this.#options = options;
    this.#file = new LimitedFile(options.file, options.clock);
    this.#maxBytes = options.maxBytes ?? MAX_RECORDING_BYTES;
  }

  /**
   * Starts a recording.
   *
   * @throws the file's error when the header can't be written; the file is closed then
   */
  static async start(options: RecorderOptions): Promise<Recorder> {
    const recorder = new Recorder(options);
    try {
      await recorder.#append(encodeHeader(options.header));
    } catch (error) {
      options.onFailure(error);
      await recorder.#file.close().catch(() => {});
      throw error;
    }
    return recorder;
  }

  input(text: string): Promise<void> {
    const redact = this.openRedaction();
    return this.#record("i", redact.push(text) + redact.end());
  }

  /** Begins an output stream, since a secret can extend from one piece into the next. */
  openRedaction(): RedactStream {
    return this.#options.openRedaction();
  }

  /** Records what the session printed, which {@linkcode openRedaction} has masked. */
  output(text: string): Promise<void> {
    return this.#record("o", text);
  }

  /** Records what the session printed on its error stream, masked too; a failure counts, but never ends the session. */
  error(text: string): Promise<void> {
    return this.#record("e", text).catch(() => {});
  }

  /** Ends the recording after what is under way, or {@linkcode DISK_MS} later. Never rejects. */
  close(): Promise<RecordingSummary> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  #record(type: RecordingEvent, text: string): Promise<void> {
    if (text === "") return Promise.resolve();
    // The digest of a recording that is being closed may be in the audit log already.
    if (this.#closing !== undefined) return this.#miss(new Error("The recording has been closed"));
    // Players take a time that runs backwards for a broken file.
    this.#elapsed = Math.max(this.#elapsed, this.#options.clock.now() - this.#options.header.startedAt);
    const elapsed = this.#elapsed;
    const written = this.#last.then(() => this.#write(elapsed, type, text));
    // One that fails does not take the next one with it.
    this.#last = written.catch(() => {});
    return written;
  }

  async #write(elapsed: number, type: RecordingEvent, text: string): Promise<void> {
    if (this.#full) return;
    const line = encodeEvent(elapsed, type, text);
    try {
      if (this.#bytes + Buffer.byteLength(line) <= this.#maxBytes) return await this.#append(line);
      this.#full = true;
      this.#complete = false;
      const mark = `\r\n[recording truncated: ${this.#maxBytes}-byte limit reached]\r\n`;
      await this.#append(encodeEvent(elapsed, "o", mark));
    } catch (cause) {
      await this.#miss(cause);
    }
  }

  /** Says that an event is not in the file. */
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
    if (this.#torn) {
      await this.#file.truncate(this.#bytes);
      this.#torn = false;
    }
    this.#torn = true;
    await this.#file.write(bytes);
    this.#torn = false;
    this.#bytes += bytes.length;
    this.#hash.update(bytes);
  }

  async #close(): Promise<RecordingSummary> {
    const { clock, onFailure } = this.#options;
    try {
      await within({ clock, ms: DISK_MS, late: tookTooLong }, () => this.#finish());
    } catch (error) {
      onFailure(error);
      return { sha256: undefined, bytes: this.#bytes, complete: false };
    }
    return { sha256: this.#hash.digest("hex"), bytes: this.#bytes, complete: this.#complete };
  }

  /** Writes what is under way, and closes the file. */
  async #finish(): Promise<void> {
    await this.#last;
    try {
      if (this.#torn) await this.#file.truncate(this.#bytes);
    } finally {
      await this.#file.close();
    }
  }
}
