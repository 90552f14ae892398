import { createHash } from "node:crypto";
import { AppError } from "@gateway/shared/errors";
import { cutText, isUnsafe, quoteText, shortenText, singleQuote } from "@gateway/shared/text";
import type { SignRequest, WireDecision } from "@gateway/shared/wire";
import type { Events } from "./records.ts";
import { describeRequest, type Execute, type ExecuteRequest, type ExecuteResult } from "./execute.ts";
import { keptBytes, outputText } from "../ssh/output.ts";

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

const MODE = /^[0-7]{3,4}$/;

/**
 * The command that writes its stdin to a file. Command policies and rules on the hosts are written against this
 * text: it stays as it is.
 *
 * @param mode octal digits for chmod; empty leaves the mode as it is
 */
export function putCommand(path: string, mode: string): string {
  const quoted = singleQuote(path);
  return `cat > ${quoted}${mode === "" ? "" : ` && chmod ${mode} ${quoted}`}`;
}

/**
 * The command that prints a file, and one byte beyond the limit where there is more. Command policies are written
 * against this text, too.
 */
export function getCommand(path: string, maxBytes: number): string {
  return `head -c ${maxBytes + 1} < ${singleQuote(path)}`;
}

/**
 * Refuses a path that would break the audit record of the transfer, whose fields are divided by blanks, or that
 * cannot be written down exactly.
 *
 * @throws {AppError} `invalid_request`
 */
export function checkPath(path: string): void {
  if (path === "") throw badRequest("path is required");
  if (path.includes("\0")) throw badRequest("path contains null bytes");
  if (/[\r\n]/.test(path)) throw badRequest("path contains newline characters");
  if (!path.isWellFormed()) throw badRequest("path is not well-formed Unicode");
  if (isUnsafe(path)) throw badRequest("path contains whitespace or control characters");
  const [folder, network = ""] = absoluteParts(path);
  if (folder === "dev" && ["tcp", "udp"].includes(network)) {
    throw badRequest(`path is in /dev/${network}, which is a network connection to some shells`);
  }
}

/**
 * The folder of the kernel that a path is in, such as `/proc`. What stands there is devices and switches: a read may
 * never end, a write changes the machine. Where symbolic links lead is not known here.
 */
export function findKernelFolder(path: string): string | undefined {
  const [first = ""] = absoluteParts(path);
  return ["dev", "proc", "sys"].includes(first) ? `/${first}` : undefined;
}

/** The parts of a path below `/`. Where a relative one climbs, it counts where it would lead from there. */
function absoluteParts(path: string): readonly string[] {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return path.startsWith("/") || path.split("/").includes("..") ? parts : [];
}

/**
 * Refuses what is not a mode, and a path that chmod would take for an option.
 *
 * @throws {AppError} `invalid_request`
 */
export function checkMode(mode: string, path: string): void {
  if (mode === "") return;
  if (!MODE.test(mode)) throw badRequest(`invalid mode ${quoteText(mode)} (expect 3-4 octal digits)`);
  if (path.startsWith("-")) throw badRequest('path begins with "-": with a mode, write it as "./-…"');
}

/** What the caller has to mend. */
export function badRequest(text: string): AppError {
  return new AppError("invalid_request", `bad request: ${text}`);
}

/** A file's bytes as text, where they are, else in base64. */
export interface TextContent {
  readonly content: string;
  readonly base64: boolean;
}

/**
 * The bytes that a content argument stands for.
 *
 * @throws {AppError} `invalid_request` when it is not base64 (RFC 4648 section 4, padded; line ends are ignored),
 * or text that UTF-8 cannot hold
 */
export function decodeContent(content: string, { base64 }: { readonly base64: boolean }): Uint8Array {
  if (base64) return decodeBase64(content);
  if (!content.isWellFormed()) throw badRequest("content is not well-formed Unicode: send it as base64");
  return new TextEncoder().encode(content);
}

function decodeBase64(content: string): Uint8Array {
  const text = content.replaceAll(/[\r\n]/g, "");
  // The decoder would skip blanks.
  if (/\s/.test(text)) throw badRequest("invalid base64 content: blanks in it");
  try {
    return Uint8Array.fromBase64(text, { lastChunkHandling: "strict" });
  } catch {
    throw badRequest("invalid base64 content: expect the standard alphabet with padding");
  }
}

/** What an approver, and a waiver that is learned, has to know of bytes to be written. */
export function describeContent(
  bytes: Uint8Array,
): Pick<SignRequest, "content_sha256" | "content_bytes" | "content_head"> {
  const { content, base64 } = encodeContent(bytes);
  return {
    content_sha256: createHash("sha256").update(bytes).digest("hex"),
    content_bytes: bytes.length,
    content_head: base64 ? "" : cutText(content.split("\n", HEAD_LINES).join("\n"), HEAD_LENGTH),
  };
}

/** As much of a file as an approver gets to read. */
const HEAD_LINES = 20;
const HEAD_LENGTH = 1500;

/** Shows bytes as they are when they are UTF-8 without NUL; a byte order mark stays. */
export function encodeContent(bytes: Uint8Array): TextContent {
  if (!bytes.includes(0)) {
    try {
      return {
        content: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes),
        base64: false,
      };
    } catch {
      // Not UTF-8.
    }
  }
  return { content: bytes.toBase64(), base64: true };
}
