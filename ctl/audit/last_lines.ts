const NEWLINE = 0x0a;
const CHUNK_BYTES = 65_536;

/** The offset at which the last whole lines of a file begin; an unfinished line at the end does not count. */
export async function findLastLines(file: Deno.FsFile, lines: number): Promise<number> {
  const buffer = new Uint8Array(CHUNK_BYTES);
  // The newline that ends the last of them is met first, the one before the first of them last.
  let wanted = lines + 1;
  for (let end = (await file.stat()).size; end > 0;) {
    const start = Math.max(0, end - CHUNK_BYTES);
    const chunk = buffer.subarray(0, end - start);
    await file.seek(start, Deno.SeekMode.Start);
    await readFull(file, chunk);
    for (let index = chunk.lastIndexOf(NEWLINE); index >= 0;) {
      wanted--;
      if (wanted === 0) return start + index + 1;
      index = index === 0 ? -1 : chunk.lastIndexOf(NEWLINE, index - 1);
    }
    end = start;
  }
  return 0;
}

/** Fills the chunk, or leaves the rest of it without newlines when the file has become shorter. */
async function readFull(file: Deno.FsFile, chunk: Uint8Array): Promise<void> {
  chunk.fill(0);
  for (let filled = 0; filled < chunk.length;) {
    const count = await file.read(chunk.subarray(filled));
    if (count === null) return;
    filled += count;
  }
}
