import { createHash } from "node:crypto";
import { AppError } from "@gateway/shared/errors";
import { cutText, isUnsafe, quoteText, shortenText, singleQuote } from "@gateway/shared/text";
import type { SignRequest, WireDecision } from "@gateway/shared/wire";
import type { Requester } from "../authority/authority.ts";
import { keptBytes, type Output, outputText } from "../ssh/output.ts";
import { describeRequest, execute, type ExecutePorts, type ExecuteRequest } from "./execute.ts";
import { badRequest } from "./obtain.ts";

interface TransferRequest extends Requester, Pick<ExecuteRequest, "host" | "ttlSeconds"> {
  readonly path: string;
}

interface TransferPorts extends ExecutePorts {
  readonly maxBytes: number;
}

interface Transferred {
  readonly sha256: string;
  readonly serial: bigint;
  readonly warnings: readonly string[];
}

export interface GetRequest extends TransferRequest {
  /**
   * The maximum size in bytes. The broker's limit replaces a value that is 0, negative or above that limit.
   */
  readonly maxBytes: number;
}

export type GetFile = (
  request: GetRequest,
  signal: AbortSignal,
) => Promise<Transferred & { readonly bytes: Uint8Array<ArrayBuffer> }>;

/**
 * Reads a whole file from a host. A file above the limit is an error and is never truncated.
 * @throws {AppError} `invalid_request` for an unusable path or a file above the limit, else as a one-shot command
 */
export async function getFile(
  ports: TransferPorts,
  { maxBytes: asked, ...request }: GetRequest,
  signal: AbortSignal,
): ReturnType<GetFile> {
  const maxBytes = asked > 0 && asked < ports.maxBytes ? asked : ports.maxBytes;
  checkPath(request.path);
  const command = getCommand(request.path, maxBytes);
  return await transfer(ports, request, {
    ...{ command, verb: "read", outcome: "file_get", signal },
    bytesOf(stdout) {
      // A host can ignore the command and send more, and the capture of output truncates.
      if (stdout.totalBytes <= maxBytes) return keptBytes(stdout);
      throw badRequest(`file exceeds the transfer limit of ${maxBytes} bytes`);
    },
  });
}

export interface PutRequest extends TransferRequest {
  readonly content: Uint8Array;
  readonly mode: string;
}

export type PutFile = (request: PutRequest, signal: AbortSignal) => Promise<Transferred>;

/**
 * Writes a file on a host and replaces its content. The command is fixed and therefore not atomic: other processes can
 * read a part of the file meanwhile, and after a failure the file can be incomplete.
 * @throws {AppError} `invalid_request` before anything is signed, else as a one-shot command
 */
export async function putFile(
  ports: TransferPorts,
  { content, mode, ...request }: PutRequest,
  signal: AbortSignal,
): Promise<Transferred> {
  checkPath(request.path);
  checkMode(mode, request.path);
  if (content.length > ports.maxBytes) {
    throw badRequest(`content is ${content.length} bytes, the transfer limit is ${ports.maxBytes}`);
  }
  const command = putCommand(request.path, mode);
  const { bytes: _, ...transferred } = await transfer(ports, request, {
    ...{ command, verb: "write", outcome: "file_put", stdin: content, signal },
    bytesOf: () => content,
  });
  return transferred;
}

const MAX_DETAIL = 1000;

/** Runs the command of a transfer, and records the transferred bytes before the caller gets them. */
async function transfer<Bytes extends Uint8Array>(
  ports: TransferPorts,
  { path, ...who }: TransferRequest,
  { command, stdin, verb, outcome, bytesOf, signal }: {
    readonly command: string;
    readonly stdin?: Uint8Array;
    readonly verb: "read" | "write";
    readonly outcome: "file_put" | "file_get";
    readonly bytesOf: (stdout: Output) => Bytes;
    readonly signal: AbortSignal;
  },
): Promise<Transferred & { readonly bytes: Bytes }> {
  const fileTransfer = stdin === undefined ? {} : describeContent(stdin);
  const request = {
    ...{ ...who, command, stdin, fileTransfer },
    ...{ sudo: false, sudoUser: "", pty: false, dryRun: false },
  };
  const directory = findKernelDirectory(path);
  if (directory !== undefined) {
    const preview = await execute(ports, { ...request, dryRun: true }, signal);
    if (preview.kind !== "decided" || !names(preview.decision, directory)) {
      throw badRequest(
        `path is in ${directory}: transfers need an allow rule that names ${directory}; use ssh_execute instead`,
      );
    }
  }
  const result = await execute(ports, request, signal);
  if (result.kind !== "executed") throw new TypeError("A dry run was not asked for");
  const { exitCode, stdout, stderr, serial, warnings, host } = result;
  if (exitCode !== 0) {
    const shown = quoteText(shortenText(outputText(keptBytes(stderr)).trim(), MAX_DETAIL));
    throw new AppError(
      "upstream_failure",
      `upstream failure: remote ${verb} failed (exit ${exitCode}): ${shown}`,
    );
  }
  const bytes = bytesOf(stdout);
  const sha256 = sha256Of(bytes);
  const moved = { ...request, command: `path=${path} bytes=${bytes.length} sha256=${sha256}` };
  await ports.events.require({ ...describeRequest(moved, host), serial, outcome });
  return { sha256, serial, warnings, bytes };
}

function sha256Of(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

function names({ allowed, matched_rule = "" }: WireDecision, path: string): boolean {
  return allowed && matched_rule.startsWith("allow:") && new RegExp(`${path}(?![\\w-])`).test(matched_rule);
}

/**
 * The command that writes its stdin to a file. Command policies and rules on the hosts are written against this
 * text: it must not change.
 */
export function putCommand(path: string, mode: string): string {
  const quoted = singleQuote(path);
  return `cat > ${quoted}${mode === "" ? "" : ` && chmod ${mode} ${quoted}`}`;
}

/** The command that prints a file, and one byte beyond the limit. Command policies are written against this text. */
export function getCommand(path: string, maxBytes: number): string {
  return `head -c ${maxBytes + 1} < ${singleQuote(path)}`;
}

/**
 * Rejects a path that would break the audit record of the transfer, whose fields are separated by spaces, or that
 * cannot be written exactly.
 * @throws {AppError} `invalid_request`
 */
export function checkPath(path: string): void {
  if (path === "") throw badRequest("path is required");
  if (path.includes("\0")) throw badRequest("path contains null bytes");
  if (/[\r\n]/.test(path)) throw badRequest("path contains newline characters");
  if (!path.isWellFormed()) throw badRequest("path is not well-formed Unicode");
  if (isUnsafe(path)) throw badRequest("path contains whitespace or control characters");
  const [directory, network = ""] = absoluteParts(path);
  if (directory === "dev" && ["tcp", "udp"].includes(network)) {
    throw badRequest(`path is in /dev/${network}, which is a network connection to some shells`);
  }
}

/**
 * The directory of the kernel that contains a path, such as `/proc`. The files there are devices and switches: a read
 * may never end, and a write changes the machine. Symbolic links are not resolved.
 */
export function findKernelDirectory(path: string): string | undefined {
  const [first = ""] = absoluteParts(path);
  return ["dev", "proc", "sys"].includes(first) ? `/${first}` : undefined;
}

/** The parts of a path below `/`. A relative path that climbs counts as if it began at `/`. */
function absoluteParts(path: string): readonly string[] {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return path.startsWith("/") || path.split("/").includes("..") ? parts : [];
}

/**
 * Rejects a malformed mode, and a path that chmod would read as an option.
 * @throws {AppError} `invalid_request`
 */
export function checkMode(mode: string, path: string): void {
  if (mode === "") return;
  if (!/^[0-7]{3,4}$/.test(mode)) {
    throw badRequest(`invalid mode ${quoteText(mode)} (expect 3-4 octal digits)`);
  }
  if (path.startsWith("-")) throw badRequest('path begins with "-": with a mode, write it as "./-…"');
}

/**
 * The bytes of a content argument.
 * @throws {AppError} `invalid_request` if it is not base64 (RFC 4648 section 4, padded; line ends are ignored), or not
 * well-formed text
 */
export function decodeContent(content: string, { base64 }: { readonly base64: boolean }): Uint8Array {
  if (!base64) {
    if (content.isWellFormed()) return new TextEncoder().encode(content);
    throw badRequest("content is not well-formed Unicode: send it as base64");
  }
  const text = content.replaceAll(/[\r\n]/g, "");
  // The decoder would skip spaces.
  if (/\s/.test(text)) throw badRequest("invalid base64 content: it contains spaces");
  try {
    return Uint8Array.fromBase64(text, { lastChunkHandling: "strict" });
  } catch {
    throw badRequest("invalid base64 content: expect the standard alphabet with padding");
  }
}

const HEAD_LINES = 20;
const HEAD_LENGTH = 1500;

export function describeContent(
  bytes: Uint8Array,
): Pick<SignRequest, "content_sha256" | "content_bytes" | "content_head"> {
  const { content, base64 } = encodeContent(bytes);
  return {
    content_sha256: sha256Of(bytes),
    content_bytes: bytes.length,
    content_head: base64 ? "" : cutText(content.split("\n", HEAD_LINES).join("\n"), HEAD_LENGTH),
  };
}

/** UTF-8 without NUL as text, with its byte order mark, and all other bytes in base64. */
export function encodeContent(bytes: Uint8Array): { readonly content: string; readonly base64: boolean } {
  if (!bytes.includes(0)) {
    try {
      const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
      return { content: decoder.decode(bytes), base64: false };
    } catch {
      // The bytes are not UTF-8.
    }
  }
  return { content: bytes.toBase64(), base64: true };
}
