/**
 * The folder of the run records, as the store needs it.
 *
 * @module
 */

/** The two ends of a file. */
export interface FileEnds {
  readonly head: Uint8Array;
  readonly tail: Uint8Array;
  /** In bytes. */
  readonly size: number;
}

/** Files by name; none of them is a path. */
export interface Folder {
  names(): Promise<readonly string[]>;
  /** `undefined` when there is no such file. */
  read(name: string): Promise<Uint8Array | undefined>;
  /** Up to `headBytes` bytes of the file's beginning, and the last few. */
  readEnds(name: string, headBytes: number): Promise<FileEnds | undefined>;
  /** Writes durably and atomically: a reader, even after a crash, finds the old content or the new one. */
  write(name: string, bytes: Uint8Array): Promise<void>;
  /** Appends; what is appended survives a crash of the process, but not of the machine. */
  append(name: string, bytes: Uint8Array): Promise<void>;
  /** Removes a file; it may be missing. */
  remove(name: string): Promise<void>;
  /** Releases the folder for the next process. */
  close(): Promise<void>;
}
