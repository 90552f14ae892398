import assert from "node:assert/strict";
import { PAGE_FILES } from "../page_files.ts";

const MAX_BYTES = 150_000;

Deno.test("the page is small enough for a phone: all its files have at most 150 KB, compressed", async () => {
  const texts = [...PAGE_FILES.values()].map(({ text }) => text);
  const zipped = new Blob(texts).stream().pipeThrough(new CompressionStream("gzip"));
  const { length } = new Uint8Array(await new Response(zipped).arrayBuffer());
  assert.ok(length > 10_000 && length <= MAX_BYTES, `${length} bytes`);
});
