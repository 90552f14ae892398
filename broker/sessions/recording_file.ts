import { join } from "node:path";
import { writeAll } from "@gateway/shared/text";

export interface RecordingFile {
  /** Appends all of the bytes; after a failure, any part of them may be in the file. */
  write(bytes: Uint8Array): Promise<void>;
  /** Cuts the file back to so many bytes. */
  truncate(size: number): Promise<void>;
  /** Makes what was written durable and releases the file. */
  close(): Promise<void>;
}

/**
 * Creates the file of a session's recording, readable by its owner alone. Its folder must be there.
 *
 * @throws {Deno.errors.AlreadyExists} when there is one of this session: a recording is never overwritten
 */
export async function createRecordingFile(folder: string, sessionId: string): Promise<RecordingFile> {
  const path = join(folder, `${sessionId}.cast`);
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
