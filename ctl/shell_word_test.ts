import assert from "node:assert/strict";
import { quoteWord } from "./shell_word.ts";

Deno.test.each([
  { name: "a flag", word: "--allow-net=[::1]:1,a:2", expected: "'--allow-net=[::1]:1,a:2'" },
  { name: "a path", word: "/etc/gateway/signer.json", expected: "/etc/gateway/signer.json" },
  { name: "a space", word: "a b", expected: "'a b'" },
  { name: "a quote", word: "a'b", expected: String.raw`'a'\''b'` },
  { name: "a substitution", word: "$(id)", expected: "'$(id)'" },
  { name: "a home folder", word: "~/x", expected: "'~/x'" },
  { name: "a line break", word: "a\nb", expected: "'a\nb'" },
  { name: "nothing", word: "", expected: "''" },
])("quoteWord() writes $name", ({ word, expected }) => {
  assert.equal(quoteWord(word), expected);
});
