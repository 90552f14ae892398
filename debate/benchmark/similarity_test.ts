import assert from "node:assert/strict";
import { compareCauses, meaningfulWords } from "./metrics.ts";

Deno.test.each([
  { name: "small letters, no accents", text: "Conexión ÁGIL", words: ["conexion", "agil"] },
  { name: "no English stop words", text: "the pool is in the way of it", words: ["pool", "way"] },
  { name: "no Spanish stop words", text: "el disco de la base", words: ["disco", "base"] },
  {
    name: "no plurals",
    text: "queries caches conexiones pools",
    words: ["query", "cach", "conexion", "pool"],
  },
  {
    name: "words that only look like plurals",
    text: "status access redis",
    words: ["status", "access", "redis"],
  },
  {
    name: "parts of identifiers",
    text: "http-5xx max_connections",
    words: ["http", "5xx", "max", "connection"],
  },
  { name: "nothing", text: " … ", words: [] },
])("meaningfulWords() gives $name", ({ text, words }) => {
  assert.deepEqual([...meaningfulWords(text)], words);
});

Deno.test.each([
  { name: "the same cause", a: "The pool leaks.", b: "pool leak", score: 1 },
  { name: "half of the words", a: "pool leak", b: "pool exhaustion", score: 0.5 },
  { name: "a part of a longer cause", a: "pool leak", b: "pool leak after deploy nine", score: 4 / 7 },
  { name: "other causes", a: "pool leak", b: "certificate expired", score: 0 },
  { name: "nothing with something", a: "", b: "pool", score: 0 },
  { name: "nothing with nothing", a: "", b: "the", score: 0 },
])("compareCauses() rates $name", ({ a, b, score }) => {
  assert.equal(compareCauses(a, b), score);
  assert.equal(compareCauses(b, a), score);
});
