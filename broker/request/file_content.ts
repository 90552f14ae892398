import { createHash } from "node:crypto";
import { cutText } from "@gateway/shared/text";
import type { SignRequest } from "@gateway/shared/wire";
import { badRequest } from "./file_command.ts";

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
