import assert from "node:assert/strict";
import { MAX_RESULT, truncate } from "./truncate.ts";

Deno.test("truncate() leaves a text at the bound as it is", () => {
  const text = "x".repeat(MAX_RESULT);
  assert.equal(truncate(text), text);
  assert.equal(truncate(""), "");
});

Deno.test("truncate() keeps two thirds of the beginning and one third of the end", () => {
  const text = "a".repeat(5000) + "b".repeat(5000);
  const short = truncate(text);
  assert.ok(short.length <= MAX_RESULT);
  const [, head, omitted, total, tail] = /^(a+)\n\[\.\.\. (\d+) of (\d+) characters omitted \.\.\.\]\n(b+)$/
    .exec(short)!;
  assert.equal(Number(total), 10_000);
  assert.equal(head!.length + tail!.length + Number(omitted), 10_000);
  assert.ok(Math.abs(head!.length - 2 * tail!.length) <= 2);
});

Deno.test("truncate() never leaves half of a character", () => {
  for (let shift = 0; shift < 2; shift++) {
    assert.ok(truncate("x".repeat(shift) + "😀".repeat(5000)).isWellFormed());
  }
});
