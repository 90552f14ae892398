/**
 * Puts bytes that do not belong in a log into a file of their own, before they are cut from it.
 *
 * @module
 */
import { writeAll } from "../bytes.ts";
import { formatStamp } from "./segment_names.ts";
import { syncFolder } from "./segments.ts";

/**
 * Writes what is to be cut from a log to `<log>.corrupt-<YYYYMMDDTHHMMSSZ>`, with a number where that name is
 * taken, for its owner alone. Durable when it resolves; a file that could not be finished is removed.
 *
 * @param now the time that names the file, in milliseconds since the Unix epoch
 * @returns the path of the file
 */
export async function putAside(
  logPath: string,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  now: number,
): Promise<string> {
  const { path, file } = await createFree(`${logPath}.corrupt-${formatStamp(now)}`);
  try {
    using _closing = file;
    for await (const chunk of chunks) await writeAll(file, chunk);
    await file.sync();
    await syncFolder(path);
    return path;
  } catch (error) {
    await Deno.remove(path);
    throw error;
  }
}

async function createFree(base: string): Promise<{ readonly path: string; readonly file: Deno.FsFile }> {
  for (let number = 0;; number++) {
    const path = number === 0 ? base : `${base}.${number}`;
    try {
      return { path, file: await Deno.open(path, { write: true, createNew: true, mode: 0o600 }) };
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    }
  }
}
