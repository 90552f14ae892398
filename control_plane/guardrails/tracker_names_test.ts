import assert from "node:assert/strict";
import fc from "fast-check";
import { fingerprintOf, novelty, rememberedName } from "./tracker.ts";

Deno.test.each([
  { name: "the first word", command: "systemctl restart nginx", fingerprint: "systemctl" },
  { name: "the word without the space around it", command: "  uptime  ", fingerprint: "uptime" },
  { name: "the word up to a tab or a line's end", command: "\tid\n-u", fingerprint: "id" },
  { name: "the path as it stands", command: "/usr/bin/id", fingerprint: "/usr/bin/id" },
  { name: "the case as it stands", command: "ID", fingerprint: "ID" },
  { name: "nothing for no command", command: "", fingerprint: "" },
  { name: "nothing for space", command: " \t\n", fingerprint: "" },
  {
    name: "all that a shell takes for one word",
    command: "ls\u00a0-l\u2003x",
    fingerprint: "ls\u00a0-l\u2003x",
  },
])("fingerprintOf() is $name", ({ command, fingerprint }) => {
  assert.equal(fingerprintOf(command), fingerprint);
});

Deno.test.each([
  { what: "a program", name: "systemctl" },
  { what: "a path", name: "/usr/bin/env" },
  { what: "a host", name: "web-01.example_a" },
  { what: "64 characters", name: "x".repeat(64) },
])("rememberedName() keeps $what", ({ name }) => assert.equal(rememberedName(name), name));

Deno.test.each([
  { what: "what may be a secret", name: "TOKEN=hunter2" },
  { what: "65 characters", name: "x".repeat(65) },
  { what: "60,000 characters", name: "x".repeat(60_000) },
  { what: "a name with a line's end", name: "ls\n" },
  { what: "a name that looks like a digest", name: "sha256:0" },
  { what: "a lone surrogate", name: "\ud800" },
  { what: "letters beyond ASCII", name: "naïve" },
])("rememberedName() keeps only a digest of $what", ({ name }) => {
  assert.match(rememberedName(name), /^sha256:[\w-]{43}$/);
});

Deno.test("rememberedName() keeps different names apart, and remembered ones from others", () => {
  const name = fc.oneof(
    fc.string({ unit: fc.constantFrom("a", "/", "=", "\ud800", "\udc00", "\ufffd"), maxLength: 5 }),
    fc.constantFrom("x".repeat(64), "x".repeat(65)),
    fc.string().map((text) => rememberedName(`=${text}`)),
  );
  fc.assert(
    fc.property(name, name, (a, b) => assert.equal(rememberedName(a) === rememberedName(b), a === b)),
    { numRuns: 1000 },
  );
});

Deno.test.each(
  [
    { what: "a host", kind: "new-host", name: "web01", text: "new-host:web01" },
    { what: "a word as it stands", kind: "new-command", name: "TOKEN=x,y", text: "new-command:TOKEN=x,y" },
    {
      what: "256 letters",
      kind: "new-command",
      name: "x".repeat(256),
      text: `new-command:${"x".repeat(256)}`,
    },
    {
      what: "the start of more",
      kind: "new-command",
      name: "x".repeat(9999),
      text: `new-command:${"x".repeat(256)}…`,
    },
    {
      what: "256 emoji",
      kind: "new-command",
      name: "💥".repeat(256),
      text: `new-command:${"💥".repeat(256)}`,
    },
    {
      what: "the start of more, without halving one",
      kind: "new-command",
      name: `${"💥".repeat(256)}x`,
      text: `new-command:${"💥".repeat(256)}…`,
    },
    { what: "a mark for half of one", kind: "new-command", name: "\ud800", text: "new-command:\ufffd" },
  ] as const,
)("novelty() shows $what", ({ kind, name, text }) => {
  assert.equal(novelty(kind, name), text);
});
