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
  /** Up to so many bytes of the file's beginning, and the last few. */
  readEnds(name: string, headBytes: number): Promise<FileEnds | undefined>;
  /** Durable, and as one step: a reader, also after a crash, finds the old content or the new one. */
  write(name: string, bytes: Uint8Array): Promise<void>;
  /** Survives the end of the process, not that of the machine. */
  append(name: string, bytes: Uint8Array): Promise<void>;
  /** A file that is not there is fine. */
  remove(name: string): Promise<void>;
  /** Lets the next process have the folder. */
  close(): Promise<void>;
}
