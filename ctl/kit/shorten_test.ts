import assert from "node:assert/strict";
import { joinNames, LONGEST_LISTED, shorten, shortenText } from "./table.ts";

const LONGEST = "a".repeat(LONGEST_LISTED);

Deno.test.each([
  { name: "nothing", text: "" },
  { name: "the longest that is listed", text: LONGEST },
  { name: "as many characters of two units each", text: "😀".repeat(LONGEST_LISTED) },
])("shorten() leaves $name whole", ({ text }) => {
  assert.deepEqual(shorten(text), { shown: text, cut: undefined });
  assert.equal(shortenText(text), text);
});

Deno.test("shorten() cuts what is longer between two characters, and says so", () => {
  assert.deepEqual(shorten(`${LONGEST}b`), { shown: LONGEST, cut: "first 400 of 401 characters" });
  assert.equal(shorten("😀".repeat(LONGEST_LISTED + 1)).shown, "😀".repeat(LONGEST_LISTED));
  assert.equal(shortenText(`${LONGEST}bc`), `${LONGEST}…[first 400 of 402 characters]`);
});

Deno.test("joinNames() shows eight names, and how many there are", () => {
  assert.equal(joinNames(["a", "b"]), "a,b");
  assert.equal(joinNames([..."abcdefgh"]), "a,b,c,d,e,f,g,h");
  assert.equal(joinNames([..."abcdefghi"]), "a,b,c,d,e,f,g,h,…[first 8 of 9]");
});
