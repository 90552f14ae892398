import { splitLines } from "@gateway/shared/audit";
import { openFile, readAt, readChunks } from "@gateway/shared/files";
import { parseJson } from "@gateway/shared/json";
import * as z from "@zod/zod";

/** The longest line of a recording that is read. */
const MAX_LINE_BYTES = 16 * 1024 * 1024;
const MAX_HEADER_BYTES = 16 * 1024;
/** The end of a file in which the time of the last event is searched. */
const TAIL_BYTES = 256 * 1024;

const header = z.object({
  version: z.literal(2),
  timestamp: z.number().min(0).max(253_402_300_799).default(0),
  gateway: z.object({ session_id: z.string(), caller: z.string(), host: z.string() }).optional(),
});
const event = z.tuple([z.number().min(0), z.string(), z.string()]);

/** The facts of a recording; absent: the file is not a recording in the format asciicast v2. */
export async function describeRecording(path: string) {
  await using file = await openFile(path);
  const { size } = await file.stat();
  const start = await readAt(file, 0, Math.min(size, MAX_HEADER_BYTES));
  const facts = parse(header, decode(start).split("\n", 1)[0]);
  const tail = decode(await readAt(file, Math.max(0, size - TAIL_BYTES), TAIL_BYTES));
  const seconds = [...tail.matchAll(/\n\[(\d{1,9}(?:\.\d+)?), "/g)].at(-1)?.[1];
  return facts && { ...facts, size, seconds: seconds === undefined ? undefined : Number(seconds) };
}

/** The events of a recording. Lines that are not events are skipped. */
export async function* readEvents(path: string) {
  await using file = await openFile(path);
  for await (const { bytes, tooLong } of splitLines(readChunks(file), MAX_LINE_BYTES)) {
    const [seconds, type, data] = parse(event, tooLong ? undefined : decode(bytes)) ?? [];
    if (seconds !== undefined && type !== undefined && data !== undefined) yield { seconds, type, data };
  }
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

function parse<T>(schema: z.ZodType<T>, text: string | undefined): T | undefined {
  try {
    return schema.safeParse(parseJson(text ?? "")).data;
  } catch {
    return undefined;
  }
}
