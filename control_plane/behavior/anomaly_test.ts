import assert from "node:assert/strict";
import { novelty } from "./anomaly.ts";

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
