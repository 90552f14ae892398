import { z } from "@zod/zod";
import { encodeContent } from "../transfer/content.ts";
import type { GetFile } from "../transfer/get.ts";
import { callerOf, defineTool, reasonArgument, type Tool } from "./tool.ts";

const input = z.strictObject({
  server: z.string().describe("Host name as ssh_list_servers shows it"),
  path: z.string().describe("File to read, an absolute path without blanks"),
  max_bytes: z.int().optional().describe("Refuse a file that is larger; leave it out for the broker's limit"),
  ttl_seconds: z.int().optional().describe("Life of the certificate; leave it out for the host's maximum"),
  reason: reasonArgument,
});

const output = z.strictObject({
  content: z.string(),
  base64: z.boolean().describe("content is base64, because the bytes are not text"),
  size: z.int().describe("Bytes of the file"),
  sha256: z.string().describe("Of the bytes of the file"),
  serial: z.bigint().describe("Serial of the certificate; finds the transfer in the audit logs"),
  warnings: z.array(z.string()).optional().describe("What the policy objects to but does not yet forbid"),
});

const description = [
  "Read a file from a server, all of it: one that is larger than the limit is an error and never cut off. Works",
  "only where allow_file_transfer is true, as the server's own account and without sudo; a command policy must",
  "allow the command behind it. What is not UTF-8 text comes as base64. The SHA-256 goes to the audit log.",
].join(" ");

/** `ssh_get_file`: reads one file. */
export function createSshGetFileTool({ getFile }: { readonly getFile: GetFile }): Tool {
  return defineTool({
    name: "ssh_get_file",
    title: "Read a file from a server",
    description,
    annotations: { idempotentHint: false, readOnlyHint: true },
    input,
    output,
    guarded: ["server", "path"],
    async handle({ server, path, max_bytes, ttl_seconds, reason }, context) {
      const { bytes, sha256, serial, warnings } = await getFile({
        ...callerOf(context),
        host: server,
        path,
        maxBytes: max_bytes ?? 0,
        ttlSeconds: ttl_seconds ?? 0,
        reason,
      }, context.signal);
      const { content, base64 } = encodeContent(bytes);
      const size = bytes.length;
      return {
        text: base64
          ? `[binary content: ${size} bytes, returned base64-encoded; sha256=${sha256} serial=${serial}]`
          : `${content}\n[${size} bytes sha256=${sha256} serial=${serial}]`,
        structured: {
          content,
          base64,
          size,
          sha256,
          serial,
          ...(warnings.length === 0 ? {} : { warnings }),
        },
      };
    },
  });
}
