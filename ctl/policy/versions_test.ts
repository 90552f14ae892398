import assert from "node:assert/strict";
import { diffHosts } from "./versions.ts";

Deno.test.each<{
  name: string;
  before: Record<string, unknown>;
  after: Record<string, unknown>;
  lines: readonly string[];
}>([
  {
    name: "the same, in another order",
    before: { a: { x: 1, y: [2] } },
    after: { a: { y: [2], x: 1 } },
    lines: [],
  },
  {
    name: "one host more, one less and one changed",
    before: { gone: 1, same: 1, web: { addr: "a", user: "u" } },
    after: { web: { addr: "b", user: "u" }, new: 2, same: 1 },
    lines: [
      ...["--- hosts.gone", "+++ hosts.gone", "@@ -1,1 +1,1 @@", "-1", "+"],
      ...["--- hosts.new", "+++ hosts.new", "@@ -1,1 +1,1 @@", "-", "+2"],
      ...["--- hosts.web", "+++ hosts.web", "@@ -1,4 +1,4 @@", " {", '-  "addr": "a",', '+  "addr": "b",'],
      ...['   "user": "u"', " }"],
    ],
  },
])("diffHosts() shows $name", ({ before, after, lines }) => {
  assert.deepEqual(diffHosts(before, after), lines);
});
