/** `audit.jsonl` has one line for each tool call. The line is written before anyone sees the result. */
import { AppError, AUDIT_UNAVAILABLE } from "@gateway/shared/errors";
import { redactValue } from "../context/redact_context.ts";
import type { AuditLine } from "../engine/ports.ts";
import type { Redact } from "./define_tool.ts";

/** The log keeps no file open between lines, so that an operator can move the file away at any time. */
export function createToolAuditLog(path: string, redact: Redact) {
  let last: Promise<void> = Promise.resolve();
  return {
    append(line: AuditLine): Promise<void> {
      const { args, proposed_args } = line;
      const masked = {
        ...line,
        args: redactValue(args, redact),
        ...(proposed_args !== undefined && { proposed_args: redactValue(proposed_args, redact) }),
      };
      const text = `${JSON.stringify(masked)}\n`;
      const written = last.then(() => appendLine(path, text));
      last = written.catch(() => {});
      return written;
    },
    close: () => last,
  };
}

async function appendLine(path: string, line: string): Promise<void> {
  try {
    using file = await Deno.open(path, { read: true, append: true, create: true, mode: 0o600 });
    // A line that another process is writing must not be mistaken for a truncated one.
    await file.lock(true);
    // A line truncated by a crash must not spoil the next one. Closing the file unlocks it.
    const bytes = new TextEncoder().encode(await endsInLine(file) ? line : `\n${line}`);
    if (await file.write(bytes) < bytes.length) throw new Error("the line was written in part");
    await file.syncData();
  } catch (cause) {
    throw new AppError("audit_unavailable", AUDIT_UNAVAILABLE, { cause });
  }
}

async function endsInLine(file: Deno.FsFile): Promise<boolean> {
  const { size } = await file.stat();
  if (size === 0) return true;
  await file.seek(-1, Deno.SeekMode.End);
  const byte = new Uint8Array(1);
  await file.read(byte);
  return byte[0] === 0x0a;
}
