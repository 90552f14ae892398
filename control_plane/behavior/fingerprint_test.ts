import assert from "node:assert/strict";
import fc from "fast-check";
import { fingerprintOf, rememberedName } from "./fingerprint.ts";

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
