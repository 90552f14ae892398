import assert from "node:assert/strict";
import { shellQuote } from "./shell_quote.ts";

Deno.test.each([
  { name: "nothing", word: "", quoted: "''" },
  { name: "a path", word: "/etc/gateway/signer.json", quoted: "/etc/gateway/signer.json" },
  { name: "a dash", word: "a-b", quoted: "a-b" },
  { name: "what zsh takes for the path of a program", word: "=ls", quoted: "'=ls'" },
  { name: "an option with its value", word: "--lines=5", quoted: "'--lines=5'" },
  { name: "a blank", word: "a b", quoted: "'a b'" },
  { name: "a line break", word: "a\nb", quoted: "'a\nb'" },
  { name: "a quote", word: "a'b", quoted: String.raw`'a'\''b'` },
  { name: "a substitution", word: "$(id)", quoted: "'$(id)'" },
  { name: "brackets", word: "[::1]:1", quoted: "'[::1]:1'" },
  { name: "a home folder", word: "~/x", quoted: "'~/x'" },
])("shellQuote() writes $name", ({ word, quoted }) => {
  assert.equal(shellQuote(word), quoted);
});
