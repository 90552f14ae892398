import assert from "node:assert/strict";
import { callerFromCertificate, parseDeniedCallers } from "./caller.ts";

Deno.test.each(
  ["broker-1", "a", "Ops Broker", "brøker", "host:web01", "_default", "\u00a0"].map((name) => ({ name })),
)(
  "callerFromCertificate() accepts $name",
  ({ name }) => {
    assert.equal(callerFromCertificate(true, name), name);
    assert.equal(callerFromCertificate(false, name), undefined);
  },
);

Deno.test.each<{ readonly name: string; readonly commonName: unknown }>([
  { name: "none", commonName: undefined },
  { name: "null", commonName: null },
  { name: "an empty one", commonName: "" },
  { name: "two", commonName: ["broker-1", "admin"] },
  { name: "a list of one", commonName: ["broker-1"] },
  { name: "an object", commonName: { toString: () => "broker-1" } },
  { name: "a String object", commonName: new String("broker-1") },
  { name: "a NUL", commonName: "broker-1\0" },
  { name: "a line feed", commonName: "broker-1\nadmin" },
  { name: "a tab", commonName: "broker\t1" },
  { name: "DEL", commonName: "broker\x7f" },
  { name: "the first C1 control", commonName: "broker\x80" },
  { name: "the last C1 control", commonName: "broker\x9f" },
  { name: "a zero-width space", commonName: "broker\u200b-1" },
  { name: "a bidi override", commonName: "\u202e1-rekorb" },
  { name: "a tag", commonName: "broker-1\u{e0041}" },
  { name: "a variation selector", commonName: "broker-1\ufe0f" },
  { name: "private use", commonName: "broker-1\ue000" },
  { name: "half of a surrogate pair", commonName: "broker\ud800" },
])("callerFromCertificate() refuses $name (I8)", ({ commonName }) => {
  assert.equal(callerFromCertificate(true, commonName), undefined);
});

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
