/**
 * A process that makes an audit log without waiting for the disk. Arguments: file, seed file, bytes of the log,
 * bytes of each command.
 *
 * @module
 */
import { createAuditKey, encodeRecord, formatTime, GENESIS, seal } from "@gateway/shared/audit";
import { sampleEntry } from "./audit_entry.ts";

const WRITE_BYTES = 1 << 20;

const [path = "", seedPath = "", bytes = "0", commandBytes = "0"] = Deno.args;
const key = createAuditKey(await Deno.readFile(seedPath));
const encoder = new TextEncoder();
const time = formatTime(1_700_000_000_000);
using file = await Deno.open(path, { write: true, createNew: true });
let head = GENESIS;
for (let written = 0; written < Number(bytes);) {
  let text = "";
  while (text.length < WRITE_BYTES) {
    const { line, next } = seal(
      encodeRecord(sampleEntry(head.seq, Number(commandBytes)), { time }),
      head,
      key,
    );
    head = next;
    text += `${line}\n`;
  }
  let rest = encoder.encode(text);
  written += rest.length;
  while (rest.length > 0) rest = rest.subarray(await file.write(rest));
}
