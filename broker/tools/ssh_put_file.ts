import { visibleText } from "@gateway/shared/text";
import * as z from "@zod/zod";
import { decodeContent } from "../request/file_content.ts";
import type { PutFile } from "../request/transfer.ts";
import type { ToolLimits } from "./limits.ts";
import { callerOf, defineTool, reasonArgument, type Tool } from "./tool.ts";

const input = z.strictObject({
  server: z.string().describe("Host name as ssh_list_servers shows it"),
  path: z.string().describe("File to write, an absolute path without blanks"),
  content: z.string().describe(
    "What to write: text, or base64 with content_base64; empty makes an empty file",
  ),
  content_base64: z.boolean().optional().describe("content is base64, for bytes that are not text"),
  mode: z.string().optional().describe("Mode for chmod, 3 or 4 octal digits"),
  ttl_seconds: z.int().optional().describe("Life of the certificate; leave it out for the host's maximum"),
  reason: reasonArgument,
});

const output = z.strictObject({
  bytes_written: z.int(),
  sha256: z.string().describe("Of the bytes that were written"),
  serial: z.bigint().describe(
    "Serial of the certificate; finds the transfer in the audit logs; exact only in the text",
  ),
  warnings: z.array(z.string()).optional().describe("What the policy objects to but does not yet forbid"),
});

const descriptionFor = ({ maxFileBytes }: ToolLimits) =>
  [
    "Write a file on a server, replacing what it holds. Works only where allow_file_transfer is true, as the",
    "server's own account and without sudo; a command policy must allow the command behind it. Content above",
    `${maxFileBytes} bytes is an error. The write is not atomic: after an error the file may be incomplete, so write it again.`,
    "The SHA-256 of the content goes to the audit log.",
  ].join(" ");

export function createSshPutFileTool(
  { putFile, limits }: { readonly putFile: PutFile; readonly limits: ToolLimits },
): Tool {
  return defineTool({
    name: "ssh_put_file",
    title: "Write a file on a server",
    description: descriptionFor(limits),
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: true },
    input,
    output,
    guarded: ["server", "path", "mode"],
    async handle(
      { server, path, content, content_base64: base64 = false, mode = "", ttl_seconds, reason },
      context,
    ) {
      const bytes = decodeContent(content, { base64 });
      const { sha256, serial, warnings } = await putFile({
        ...callerOf(context),
        host: server,
        path,
        content: bytes,
        mode,
        ttlSeconds: ttl_seconds ?? 0,
        reason,
      }, context.signal);
      return {
        text: `wrote ${bytes.length} bytes to ${visibleText(path)} (sha256=${sha256}) [serial=${serial}]`,
        structured: {
          bytes_written: bytes.length,
          sha256,
          serial,
          ...(warnings.length === 0 ? {} : { warnings }),
        },
      };
    },
  });
}
