import { type Clock, within } from "@gateway/shared/clock";
import { AppError, errorName } from "@gateway/shared/errors";
import type { OpenRedactStream } from "@gateway/shared/redact";
import type { RecordingHeader } from "./asciicast.ts";
import { DISK_MS, tookTooLong } from "./limited_file.ts";
import type { RecordingFile } from "./recording_file.ts";
import { Recorder } from "./recorder.ts";

interface RecordingOptions {
  /** Creates the file of one session. */
  readonly createFile: (sessionId: string) => Promise<RecordingFile>;
  /** What can't be recorded does not happen; otherwise a failure leaves a gap. */
  readonly strict: boolean;
  readonly clock: Clock;
  /** Begins a text whose secrets are masked. */
  readonly openRedaction: OpenRedactStream;
  readonly onFailure: (error: unknown) => void;
}

/** Starts the recording of a session; `undefined` when it goes unrecorded. */
export type StartRecording = (header: RecordingHeader) => Promise<Recorder | undefined>;

/** Records sessions as the options say. */
export function createRecordings(options: RecordingOptions): StartRecording {
  const { strict, onFailure } = options;
  return async (header) => {
    try {
      const file = await createInTime(options, header.sessionId).catch((error) => {
        onFailure(error);
        throw error;
      });
      return await Recorder.start({ ...options, file, header });
    } catch (cause) {
      if (!strict) return undefined;
      // The cause names a path of this machine.
      throw new AppError("internal", `opening session recording: ${errorName(cause)}`, { cause });
    }
  };
}

async function createInTime(
  { createFile, clock }: RecordingOptions,
  sessionId: string,
): Promise<RecordingFile> {
  const release = (file: RecordingFile) => file.close();
  return await within({ clock, ms: DISK_MS, late: tookTooLong, release }, () => createFile(sessionId));
}
