import assert from "node:assert/strict";
import { createRedactStreams } from "@gateway/shared/redact";
import { TextTap } from "./recorder.ts";

const open = createRedactStreams(undefined);

async function tapped(chunks: readonly Uint8Array[], maxBytes = 1_000_000): Promise<readonly string[]> {
  const texts: string[] = [];
  const write = (text: string) => Promise.resolve(void texts.push(text));
  const tap = new TextTap({ openRedaction: open, output: write, error: write }, "stdout", maxBytes);
  for (const chunk of chunks) tap.push(chunk);
  await tap.end("");
  return texts;
}

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("TextTap gives whole lines, and at the end what is left", async () => {
  assert.deepEqual(await tapped([bytes("a\nb"), bytes("c\nd\ne")]), ["a\n", "bc\nd\n", "e"]);
});

Deno.test("TextTap does not tear a character that two packets share", async () => {
  const euro = bytes("€\n");
  assert.deepEqual(await tapped([euro.subarray(0, 1), euro.subarray(1)]), ["€\n"]);
});

Deno.test("TextTap drops what is above its limit, and the word that the limit cuts", async () => {
  assert.deepEqual(await tapped([bytes("ab c"), bytes("def")], 6), ["ab "]);
  assert.deepEqual(await tapped([bytes("ab "), bytes("c")], 4), ["ab c"]);
});

Deno.test("TextTap gives the first error of its writes at the end", async () => {
  let count = 0;
  const write = () => Promise.reject(new Error(`no ${count += 1}`));
  const tap = new TextTap({ openRedaction: open, output: write, error: write }, "stdout", 100);
  tap.push(bytes("a\nb"));
  await assert.rejects(tap.end(""), { message: "no 1" });
});
