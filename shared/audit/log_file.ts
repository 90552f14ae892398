/**
 * Opens the files of audit logs: who may start a writer over stdio writes to the folder that root's commands read.
 *
 * ```ts ignore
 * import { openLogFile } from "@gateway/shared/audit/log_file";
 *
 * await using file = await openLogFile("/var/log/gateway/signer/audit.log");
 * ```
 *
 * @module
 */
import type { FileHandle } from "node:fs/promises";
import { AppError } from "../errors.ts";
import { describeReadFailure, openFile, type OpenFileOptions } from "../files.ts";
import { quoteText } from "../quote.ts";

/**
 * Opens a file of a log.
 *
 * @throws {AppError} `invalid_config` for a pipe, a device, a folder; what the operating system reports otherwise
 */
export async function openLogFile(path: string, options: OpenFileOptions = {}): Promise<FileHandle> {
  try {
    return await openFile(path, options);
  } catch (cause) {
    if (!(cause instanceof AppError || cause instanceof Deno.errors.IsADirectory)) throw cause;
    const message = `Cannot open audit log ${quoteText(path)}: ${describeReadFailure(cause)}; remove it`;
    throw new AppError("invalid_config", message, { cause });
  }
}
