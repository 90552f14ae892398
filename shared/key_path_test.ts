import assert from "node:assert/strict";
import fc from "fast-check";
import { formatKeyPath } from "./key_path.ts";

Deno.test.each([
  { name: "plain names", path: ["hosts", "web01", "addr"], text: "hosts.web01.addr" },
  { name: "a place in a list", path: ["redact", "patterns", 0, "name"], text: "redact.patterns[0].name" },
  { name: "a blank", path: ["hosts", "web 01", "jump"], text: 'hosts["web 01"].jump' },
  { name: "a dot, which is not a step", path: ["hosts", "web.01", "addr"], text: 'hosts["web.01"].addr' },
  { name: "an at sign", path: ["hosts", "db@1", "addr"], text: 'hosts["db@1"].addr' },
  { name: "an empty name", path: ["hosts", "", "addr"], text: 'hosts[""].addr' },
  { name: "a quote", path: ["hosts", 'a"]b', "addr"], text: String.raw`hosts["a\"]b"].addr` },
  { name: "a bidi override", path: ["hosts", "\u202ea"], text: String.raw`hosts["\u202ea"]` },
  { name: "an escape", path: ["hosts", "\x1b[2J"], text: String.raw`hosts["\x1b[2J"]` },
  { name: "a name at the top", path: ["a.b"], text: '["a.b"]' },
  { name: "a number as a name", path: ["hosts", "0"], text: "hosts.0" },
  { name: "nothing", path: [], text: "" },
])("formatKeyPath() of $name", ({ path, text }) => {
  assert.equal(formatKeyPath(path), text);
});

Deno.test("formatKeyPath() gives two paths two texts", () => {
  const step = fc.oneof(fc.nat(3), fc.string({ unit: fc.constantFrom(...'ab.0[]" \\') }));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 4 }), fc.array(step, { maxLength: 4 }), (one, other) => {
      assert.equal(
        formatKeyPath(one) === formatKeyPath(other),
        JSON.stringify(one) === JSON.stringify(other),
      );
    }),
    { numRuns: 2000 },
  );
});
