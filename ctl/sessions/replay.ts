import { splitLines } from "@gateway/shared/audit";
import { type Clock, systemClock } from "@gateway/shared/clock";
import { openFile, readAt, readChunks } from "@gateway/shared/files";
import { visibleText } from "@gateway/shared/text";
import * as z from "@zod/zod";
import type { Environment } from "../kit/output.ts";
import { readJson } from "../kit/values.ts";
import { createTerminalFilter } from "./terminal_filter.ts";

/** The longest line of a recording that is read. */
const MAX_LINE_BYTES = 16 * 1024 * 1024;
/** The beginning of a file with the header, and the end with the time of the last event. */
const ENDS_BYTES = 256 * 1024;
const MAX_PAUSE_SECONDS = 2;

const header = z.object({
  version: z.literal(2),
  timestamp: z.number().min(0).max(253_402_300_799).default(0),
  gateway: z.object({ caller: z.string(), host: z.string() }).default({ caller: "", host: "" }),
});
const event = z.tuple([z.number().min(0), z.string(), z.string()]);

/** The facts of a recording; absent: the file is not a recording in the format asciicast v2. */
export async function describeRecording(path: string) {
  await using file = await openFile(path);
  const { size } = await file.stat();
  const facts = readJson(header, decode(await readAt(file, 0, ENDS_BYTES)).split("\n", 1)[0] ?? "");
  const tail = decode(await readAt(file, Math.max(0, size - ENDS_BYTES), ENDS_BYTES));
  const seconds = [...tail.matchAll(/\n\[(\d{1,9}(?:\.\d+)?), "/g)].at(-1)?.[1];
  return facts && { ...facts, size, seconds: Number(seconds ?? 0) };
}

/** The events of a recording. Lines that are not events are skipped. */
export async function* readEvents(path: string) {
  await using file = await openFile(path);
  for await (const { bytes, tooLong } of splitLines(readChunks(file), MAX_LINE_BYTES)) {
    const found = tooLong ? undefined : readJson(event, decode(bytes));
    if (found !== undefined) yield found;
  }
}

const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/** Plays events in the terminal until they end, or the operator ends the playback. */
export async function play(
  events: AsyncIterable<z.infer<typeof event>>,
  speed: number,
  { terminal, keys }: Environment,
  clock: Clock = systemClock,
): Promise<void> {
  const ended = new AbortController();
  const isTimed = terminal.columns !== undefined;
  const show = async () => {
    const filter = createTerminalFilter();
    let last = 0;
    for await (const [seconds, type, data] of events) {
      const pause = Math.min(Math.max(0, seconds - last), MAX_PAUSE_SECONDS) / speed;
      last = seconds;
      if (isTimed) await clock.sleep(pause * 1000, ended.signal).catch(() => {});
      if (ended.signal.aborted) break;
      if (type === "i") terminal.out(`\x1b[0;1m$ ${visibleText(data.trimEnd())}\x1b[0m\r\n`);
      else if (type === "o" || type === "e") terminal.out(filter(data));
    }
    terminal.out("\x1b[0m\r\n");
  };
  const followKeys = async () => {
    // In raw mode, the terminal delivers Ctrl-C as a character.
    for await (const key of keys?.(ended.signal) ?? []) if (key === "q" || key === "\x03") return;
  };
  const following = isTimed && keys !== undefined ? [show, followKeys] : [show];
  await Promise.all(following.map((follow) => follow().finally(() => ended.abort())));
}
