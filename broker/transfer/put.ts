import { badRequest, checkMode, checkPath, putCommand } from "./command.ts";
import {
  recordTransfer,
  runTransfer,
  type TransferPorts,
  type Transferred,
  type TransferRequest,
} from "./transfer.ts";

export interface PutRequest extends TransferRequest {
  readonly content: Uint8Array;
  /** Octal digits; empty leaves the mode as it is. */
  readonly mode: string;
}

export type PutFile = (request: PutRequest, signal: AbortSignal) => Promise<Transferred>;

/**
 * Writes a file on a host, in place of what it held. The command that does it is fixed, so this is not atomic:
 * who reads the file meanwhile sees a part of it, and so does everybody after a failure in the middle.
 *
 * @throws {AppError} `invalid_request` before anything is signed, and whatever stops a one-shot
 */
export async function putFile(
  ports: TransferPorts,
  request: PutRequest,
  signal: AbortSignal,
): Promise<Transferred> {
  const { content, mode, ...transfer } = request;
  checkPath(transfer.path);
  checkMode(mode, transfer.path);
  if (content.length > ports.maxBytes) {
    throw badRequest(`content is ${content.length} bytes, the transfer limit is ${ports.maxBytes}`);
  }
  const command = putCommand(transfer.path, mode);
  const executed = await runTransfer(ports, transfer, { command, stdin: content, verb: "write" }, signal);
  return await recordTransfer(ports, transfer, { executed, outcome: "file_put", bytes: content });
}
