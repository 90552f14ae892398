import { badRequest, checkPath, getCommand } from "./command.ts";
import { keptBytes } from "../ssh/output_buffer.ts";
import {
  recordTransfer,
  runTransfer,
  type TransferPorts,
  type Transferred,
  type TransferRequest,
} from "./transfer.ts";

export interface GetRequest extends TransferRequest {
  /** Lowers the limit; the limit itself when 0, negative, or above it. */
  readonly maxBytes: number;
}

/** A file that has been read: all of it. */
interface GotFile extends Transferred {
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export type GetFile = (request: GetRequest, signal: AbortSignal) => Promise<GotFile>;

/**
 * Reads a file from a host. A file above the limit is an error: nothing is ever cut off.
 *
 * @throws {AppError} `invalid_request` for a path that won't do or a file above the limit, and whatever stops a
 * one-shot
 */
export async function getFile(
  ports: TransferPorts,
  request: GetRequest,
  signal: AbortSignal,
): Promise<GotFile> {
  const { maxBytes: asked, ...transfer } = request;
  checkPath(transfer.path);
  const maxBytes = asked > 0 && asked < ports.maxBytes ? asked : ports.maxBytes;
  const command = getCommand(transfer.path, maxBytes);
  const executed = await runTransfer(ports, transfer, { command, verb: "read" }, signal);
  const { stdout } = executed.output;
  // Also what a host sends that pays no heed to the command, and what the capture of output has cut.
  if (stdout.totalBytes > maxBytes) throw badRequest(`file exceeds the transfer limit of ${maxBytes} bytes`);
  const bytes = keptBytes(stdout);
  return { ...await recordTransfer(ports, transfer, { executed, outcome: "file_get", bytes }), bytes };
}
