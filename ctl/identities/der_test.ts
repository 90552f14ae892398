import assert from "node:assert/strict";
import { bmpString, encodeDer, integer, objectIdentifier, octetString, sequence, setOf } from "./der.ts";

Deno.test.each<{ name: string; bytes: Uint8Array; hex: string }>([
  { name: "a small integer", bytes: integer(3), hex: "020103" },
  { name: "an integer whose first bit is set", bytes: integer(0x80), hex: "02020080" },
  { name: "an integer of two bytes", bytes: integer(10_000), hex: "02022710" },
  {
    name: "an object identifier",
    bytes: objectIdentifier("1.2.840.113549.1.7.1"),
    hex: "06092a864886f70d010701",
  },
  { name: "a text", bytes: bmpString("ab"), hex: "1e0400610062" },
  { name: "a sequence", bytes: sequence(integer(1), octetString(Uint8Array.of(7))), hex: "3006020101040107" },
  { name: "a set, sorted", bytes: setOf(integer(2), integer(1)), hex: "3106020101020102" },
])("DER of $name", ({ bytes, hex }) => {
  assert.equal(bytes.toHex(), hex);
});

Deno.test.each([
  { length: 0x7f, head: "047f" },
  { length: 0x80, head: "048180" },
  { length: 0x100, head: "04820100" },
  { length: 0x10000, head: "0483010000" },
])("DER of $length bytes", ({ length, head }) => {
  const bytes = encodeDer(0x04, new Uint8Array(length));
  assert.equal(bytes.toHex().slice(0, head.length), head);
  assert.equal(bytes.length, head.length / 2 + length);
});
