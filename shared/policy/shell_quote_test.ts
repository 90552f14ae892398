import assert from "node:assert/strict";
import { shellQuote } from "./shell_quote.ts";

Deno.test.each([
  { word: "", quoted: "''" },
  { word: "a-b", quoted: "a-b" },
  { word: "=a", quoted: "'=a'" },
  { word: "a b", quoted: "'a b'" },
  { word: "'", quoted: "''\\'''" },
  { word: "~", quoted: "'~'" },
])("shellQuote() writes $word as $quoted", ({ word, quoted }) => {
  assert.equal(shellQuote(word), quoted);
});
