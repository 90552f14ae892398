/**
 * The data of each event of a stream (HTML Living Standard, 9.2.6). `eventsource-parser` scans an unfinished line again
 * with each chunk, so that a line without end takes quadratic time.
 */
export async function* eventsOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let data: string[] = [];
  for await (const line of linesOf(chunks)) {
    if (line === "" && data.length > 0) {
      yield data.join("\n");
      data = [];
    } else if (line.startsWith("data:")) data.push(line.slice(line.startsWith("data: ") ? 6 : 5));
  }
  if (data.length > 0) yield data.join("\n");
}

async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const unfinished: string[] = [];
  let endedInReturn = false;
  for await (const chunk of chunks) {
    const text = decoder.decode(chunk, { stream: true });
    if (text === "") continue;
    const lines = (endedInReturn ? text.replace(/^\n/, "") : text).split(/\r\n|[\r\n]/);
    endedInReturn = text.endsWith("\r");
    for (const line of lines.slice(0, -1)) yield unfinished.splice(0).join("") + line;
    unfinished.push(lines.at(-1) ?? "");
  }
  yield unfinished.join("") + decoder.decode();
}
