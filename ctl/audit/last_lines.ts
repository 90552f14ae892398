import type { FileHandle } from "node:fs/promises";
import { readAt } from "@gateway/shared/files";

const NEWLINE = 0x0a;
const CHUNK_BYTES = 65_536;

/** The offset at which the last whole lines of a file begin; an unfinished line at the end does not count. */
export async function findLastLines(file: FileHandle, lines: number): Promise<number> {
  // The newline that ends the last of them is met first, the one before the first of them last.
  let wanted = lines + 1;
  for (let end = (await file.stat()).size; end > 0;) {
    const start = Math.max(0, end - CHUNK_BYTES);
    const chunk = await readAt(file, start, end - start);
    for (let index = chunk.lastIndexOf(NEWLINE); index >= 0;) {
      wanted--;
      if (wanted === 0) return start + index + 1;
      index = index === 0 ? -1 : chunk.lastIndexOf(NEWLINE, index - 1);
    }
    end = start;
  }
  return 0;
}
