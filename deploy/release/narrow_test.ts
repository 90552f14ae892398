import assert from "node:assert/strict";
import { narrowComments } from "./bundle.ts";

Deno.test("narrowComments() leaves no character of two bytes where only comments have any", () => {
  const text = "// a — b\n  /* “c” */\n * é → 😀\nlet a = 'é';\n";
  assert.equal(narrowComments(text), "// a ? b\n  /* ?c? */\n * é ? ?\nlet a = 'é';\n");
});

Deno.test.each([
  ["in a string", "// a — b\nlet a = '—';\n"],
  ["behind code", "// a — b\nlet a = 1; // —\n"],
  ["nowhere", "// é\nlet a = 1;\n"],
])("narrowComments() changes nothing of a module that has them %s", (_where, text) => {
  assert.equal(narrowComments(text), text);
});
