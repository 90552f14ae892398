import { createHash } from "node:crypto";
import { AppError } from "@gateway/shared/errors";
import { quoteText, shortenText } from "@gateway/shared/text";
import type { WireDecision } from "@gateway/shared/wire";
import type { Events } from "./records.ts";
import { describeRequest, type Execute, type ExecuteRequest, type ExecuteResult } from "./execute.ts";
import { outputText } from "./output_text.ts";
import {
  badRequest,
  checkMode,
  checkPath,
  findKernelFolder,
  getCommand,
  putCommand,
} from "./file_command.ts";
import { keptBytes } from "../ssh/output_buffer.ts";

interface TransferRequest extends
  Pick<
    ExecuteRequest,
    "caller" | "callerGroups" | "bearerToken" | "host" | "ttlSeconds" | "reason" | "onProgress"
  > {
  readonly path: string;
}

/** What it takes to move a file. */
export interface TransferPorts {
  readonly execute: Execute;
  readonly events: Pick<Events, "require">;
  /** The largest file, in bytes. */
  readonly maxBytes: number;
}

interface Transferred {
  readonly sha256: string;
  /** Of the certificate that moved it. */
  readonly serial: bigint;
  /** What an audit-mode policy has to say. */
  readonly warnings: readonly string[];
}

/** The one shot of a transfer: never with sudo or a terminal, and there is nobody to ask for an approval. */
type Executed = Extract<ExecuteResult, { readonly kind: "executed" }>;

/** As much of what a host says to a failure as an error text repeats, in characters. */
const MAX_DETAIL = 1000;

/**
 * Runs the command of a transfer.
 *
 * @throws {AppError} `invalid_request` for a path in a folder of the kernel that no allow rule names
 * @throws {AppError} `upstream_failure` when it fails on the host, and whatever stops a one-shot
 */
async function runTransfer(
  { execute }: TransferPorts,
  { path, ...who }: TransferRequest,
  { command, stdin, verb }: {
    readonly command: string;
    readonly stdin?: Uint8Array;
    readonly verb: "read" | "write";
  },
  signal: AbortSignal,
): Promise<Executed> {
  const request = {
    ...who,
    command,
    sudo: false,
    sudoUser: "",
    pty: false,
    dryRun: false,
    fileTransfer: true,
    ...(stdin === undefined ? {} : { stdin }),
  };
  const folder = findKernelFolder(path);
  if (folder !== undefined) {
    const preview = await execute({ ...request, dryRun: true }, signal);
    if (preview.kind !== "decided" || !names(preview.decision, folder)) {
      throw badRequest(
        `path is in ${folder}, where only what an allow rule of the policy names is transferred; ` +
          "ask with ssh_execute instead",
      );
    }
  }
  const result = await execute(request, signal);
  if (result.kind !== "executed") throw new TypeError("A dry run was not asked for");
  const { exitCode, stderr } = result;
  if (exitCode === 0) return result;
  const shown = shortenText(outputText(keptBytes(stderr)).trim(), MAX_DETAIL);
  throw new AppError(
    "upstream_failure",
    `upstream failure: remote ${verb} failed (exit ${exitCode}): ${quoteText(shown)}`,
  );
}

/** Whether the rule that allows a command has the folder in its text. */
function names({ allowed, matched_rule = "" }: WireDecision, folder: string): boolean {
  return allowed && matched_rule.startsWith("allow:") && new RegExp(`${folder}(?![\\w-])`).test(matched_rule);
}

/**
 * Records which bytes were moved, before anybody hears of it.
 *
 * @throws {AppError} `audit_unavailable` when it can't be recorded and the fail mode is closed
 */
async function recordTransfer(
  { events }: TransferPorts,
  request: TransferRequest,
  { executed, outcome, bytes }: {
    readonly executed: Executed;
    readonly outcome: "file_put" | "file_get";
    readonly bytes: Uint8Array;
  },
): Promise<Transferred> {
  const { serial, warnings, host } = executed;
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const command = `path=${request.path} bytes=${bytes.length} sha256=${sha256}`;
  const moved = { ...request, command, sudo: false, sudoUser: "", pty: false, dryRun: false };
  await events.require({ ...describeRequest(moved, host), serial, outcome });
  return { sha256, serial, warnings };
}

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
  const { stdout } = executed;
  // Also what a host sends that pays no heed to the command, and what the capture of output has cut.
  if (stdout.totalBytes > maxBytes) throw badRequest(`file exceeds the transfer limit of ${maxBytes} bytes`);
  const bytes = keptBytes(stdout);
  return { ...await recordTransfer(ports, transfer, { executed, outcome: "file_get", bytes }), bytes };
}

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
