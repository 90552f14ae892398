import type { FileHandle } from "node:fs/promises";
import { resolve } from "node:path";
import { splitLines } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import { describeReadFailure, openFile, readChunks } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { type ApiEvent, readApiLine } from "./api_event.ts";

/** A record with the bodies of request and response; an object has up to 1.5 MiB. */
const MAX_LINE_BYTES = 16 * 1024 * 1024;

/** What a reading of the logs came across. */
interface ApiLogSummary {
  /** Lines that are no records. */
  readonly malformed: number;
}

/**
 * Reads the audit logs of API servers, one after the other.
 *
 * @throws {AppError} `not_found` or `invalid_config` for a file that can't be read, or is no such log at all
 */
export async function readApiLogs(
  paths: readonly string[],
  workingFolder: string,
  onEvent: (event: ApiEvent) => void,
): Promise<ApiLogSummary> {
  const decoder = new TextDecoder();
  let malformed = 0;
  for (const path of paths) {
    let [records, faults] = [0, 0];
    for await (const { bytes, tooLong } of splitLines(readLog(path, workingFolder), MAX_LINE_BYTES)) {
      if (bytes.length === 0) continue;
      const line = tooLong ? { kind: "malformed" } as const : readApiLine(decoder.decode(bytes));
      if (line.kind === "malformed") faults++;
      else records++;
      if (line.kind === "event") onEvent(line.event);
    }
    if (records === 0 && faults > 0) throw foreign(path);
    malformed += faults;
  }
  return { malformed };
}

async function* readLog(path: string, workingFolder: string): AsyncGenerator<Uint8Array> {
  await using file = await open(resolve(workingFolder, path));
  if (!path.endsWith(".gz")) return yield* readChunks(file);
  try {
    // As the API server leaves what it rotates with --audit-log-compress.
    yield* ReadableStream.from(copiesOf(readChunks(file))).pipeThrough(new DecompressionStream("gzip"));
  } catch (cause) {
    const message = `Cannot read audit log of an API server ${
      quoteText(path)
    }: it is not whole, or no gzip file`;
    throw new AppError("invalid_config", message, { cause });
  }
}

/** A stream takes the next chunk before it is through with the last. */
async function* copiesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  for await (const chunk of chunks) yield chunk.slice();
}

async function open(path: string): Promise<FileHandle> {
  try {
    return await openFile(path);
  } catch (cause) {
    const code = cause instanceof Deno.errors.NotFound ? "not_found" : "invalid_config";
    const why = describeReadFailure(cause);
    throw new AppError(code, `Cannot read audit log of an API server ${quoteText(path)}: ${why}`, { cause });
  }
}

function foreign(path: string): AppError {
  const message = `Cannot join ${quoteText(path)}: expected the audit log of a Kubernetes API server, ` +
    "one audit.k8s.io Event as JSON a line";
  return new AppError("invalid_config", message);
}
