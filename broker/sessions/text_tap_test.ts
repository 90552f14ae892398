import assert from "node:assert/strict";
import { TextTap } from "./text_tap.ts";

async function tapped(chunks: readonly Uint8Array[], maxBytes = 1_000_000): Promise<readonly string[]> {
  const texts: string[] = [];
  const tap = new TextTap((text) => Promise.resolve(void texts.push(text)), maxBytes);
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

Deno.test("TextTap holds no more of a line than so much", async () => {
  const [first] = await tapped([new Uint8Array(70_000).fill(97)]);
  assert.equal(first?.length, 70_000);
});

Deno.test("TextTap drops what is above its limit", async () => {
  assert.deepEqual(await tapped([bytes("abc"), bytes("def")], 4), ["abcd"]);
});

Deno.test("TextTap gives the first error of its writes at the end", async () => {
  let count = 0;
  const tap = new TextTap(() => Promise.reject(new Error(`no ${count += 1}`)), 100);
  tap.push(bytes("a\nb"));
  await assert.rejects(tap.end(""), { message: "no 1" });
});
