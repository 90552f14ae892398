import assert from "node:assert/strict";
import { blocksOf } from "./slack_messages.ts";

Deno.test("blocksOf() has Slack show all of a text, for what is behind 'see more' is approved unseen", () => {
  const command = `command    "true ${" ".repeat(1_900)}; rm -rf /"`;
  const blocks = blocksOf({
    approval: "a",
    nonce: "n",
    title: "Approval required",
    lines: ["host       web01", command, "x".repeat(2_000)],
    note: "note",
    page: "https://gw/a",
    verbs: ["deny"],
  });
  const sections = blocks.filter(({ type }) => type === "section");
  assert.equal(sections.length, 3);
  for (const section of sections) assert.equal(section["expand"], true);
});
