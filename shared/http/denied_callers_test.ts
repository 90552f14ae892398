import assert from "node:assert/strict";
import { parseDeniedCallers } from "./denied_callers.ts";

Deno.test.each([
  { name: "nothing of an empty file", text: "", names: [] },
  { name: "a name a line, without comments and blanks", text: "# lost\na\n\n b c \n", names: ["a", "b c"] },
])("parseDeniedCallers() gives $name", ({ text, names }) => {
  assert.deepEqual([...parseDeniedCallers(text)], names);
});

Deno.test.each([
  { name: "a last line without its end", text: "agent-1\nage", why: /written in part/ },
  { name: "a control character", text: "a\nb\0c\n", why: /^line 2/ },
])("parseDeniedCallers() refuses $name", ({ text, why }) => {
  assert.throws(() => parseDeniedCallers(text), { code: "invalid_config", message: why });
});
