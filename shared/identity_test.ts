import assert from "node:assert/strict";
import * as fc from "fast-check";
import { foldIdentity, isSameIdentity } from "./identity.ts";

Deno.test.each([
  { name: "capitals", left: "ALICE", right: "alice" },
  { name: "compatibility forms", left: "\uff21\uff4cice", right: "alice" },
  { name: "a ligature", left: "o\ufb03ce", right: "office" },
  { name: "composed and decomposed letters", left: "Zo\u00eb", right: "zoe\u0308" },
  { name: "sharp s, small and capital, and its two letters", left: "stra\u00dfe", right: "STRA\u1e9eE" },
  { name: "sharp s and its two letters", left: "stra\u00dfe", right: "STRASSE" },
  { name: "a sigma at the end and elsewhere", left: "\u03c3\u03c2", right: "\u03a3\u03a3" },
  { name: "the sign for kelvin", left: "\u212a1", right: "k1" },
  { name: "trailing dots", left: "web.example.", right: "web.example" },
  { name: "several trailing dots, also as one character", left: "alice\u2026", right: "alice" },
])("isSameIdentity() takes $name for one", ({ left, right }) => {
  assert.ok(isSameIdentity(left, right));
});

Deno.test.each([
  { name: "another name", left: "alice", right: "bob" },
  { name: "accents", left: "zoe", right: "zo\u00eb" },
  { name: "dots elsewhere", left: ".a.b", right: "ab" },
  { name: "another script", left: "alice", right: "\u0430lice" },
  { name: "nothing but dots, and no name", left: "...", right: "" },
])("isSameIdentity() tells apart $name", ({ left, right }) => {
  assert.ok(!isSameIdentity(left, right));
});

Deno.test("foldIdentity() folds alike whatever forms a name goes through, and twice as once", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (name) => {
    const folded = foldIdentity(name);
    assert.equal(foldIdentity(folded), folded);
    assert.equal(folded === "", name === "");
    for (const form of ["NFC", "NFD"] as const) {
      assert.equal(foldIdentity(name.normalize(form)), folded);
    }
  }));
});

Deno.test("foldIdentity() gives one form to the capitals and the small letters of each character", () => {
  for (let code = 0x21; code < 0x30000; code++) {
    const character = String.fromCodePoint(code);
    for (const other of [character.toUpperCase(), character.toLowerCase()]) {
      if (other !== character) assert.ok(isSameIdentity(`x${character}y`, `x${other}y`), code.toString(16));
    }
  }
});
