import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { writeFlagOptions } from "./certificate_options.ts";
import { SshReader, SshWriter } from "./wire_format.ts";

Deno.test("writeFlagOptions() puts names in the order of their bytes, whatever letters they have", () => {
  const letter = fc.constantFrom("a", "b", "-", "Z", "~", "\u007f", "é", "\uffee", "\u{1f600}");
  const names = fc.uniqueArray(fc.array(letter, { maxLength: 3 }).map((letters) => letters.join("")));
  fc.assert(fc.property(names, (given) => {
    const writer = new SshWriter();
    writeFlagOptions(writer, given);
    const reader = new SshReader(writer.bytes());
    const written: string[] = [];
    while (!reader.done) {
      written.push(reader.text());
      assert.equal(reader.text(), "");
    }
    const expected = given.map((name) => Buffer.from(name)).sort(Buffer.compare).map(String);
    assert.deepEqual(written, expected);
  }));
});
