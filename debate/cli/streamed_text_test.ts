import assert from "node:assert/strict";
import { StreamedText } from "./run_view.ts";

function stream(pieces: readonly string[], width = 24): string {
  let written = "";
  const text = new StreamedText((part) => void (written += part), { width, indent: "  " });
  for (const piece of pieces) text.push(piece);
  text.end();
  return written;
}

Deno.test("StreamedText indents, and breaks at words", () => {
  assert.equal(stream(["one two three four five six"]), "  one two three four\n  five six\n");
});

Deno.test("StreamedText looks the same however a text is cut", () => {
  const text = "### H-1\n\nText: the café 😀 is\x1b[2J full of pools\n- a\n";
  assert.equal(stream([...Array(text.length).keys()].map((index) => text.charAt(index))), stream([text]));
});

Deno.test("StreamedText leaves out empty lines before the text, and knows whether there was any", () => {
  assert.equal(stream(["\n\n  a\n\nb"]), "    a\n\n  b\n");
  const text = new StreamedText(() => {}, { width: 40, indent: "" });
  text.push(" \n");
  assert.equal(text.isEmpty, true);
  text.push("a ");
  assert.equal(text.isEmpty, false);
});
