import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import {
  formatFlags,
  formatJson,
  formatV8Flags,
  mergeSets,
  type PermissionJson,
  type PermissionSet,
} from "./mod.ts";

const NOTHING = ["--no-prompt", "--cached-only", "--no-code-cache", "--v8-flags=--max-semi-space-size=2"];

Deno.test.each<{ name: string; set: PermissionSet; flags: string[]; json: PermissionJson }>([
  { name: "an empty set", set: {}, flags: [], json: {} },
  { name: "empty lists", set: { read: [], write: [], net: [], ignoreEnv: [] }, flags: [], json: {} },
  {
    name: "every kind",
    set: {
      read: ["/a", "/b"],
      write: ["/c"],
      denyWrite: ["/c/d"],
      net: ["[::1]:1", "h:2"],
      ignoreEnv: ["X"],
    },
    flags: [
      "--allow-read=/a,/b",
      "--allow-write=/c",
      "--deny-write=/c/d",
      "--allow-net=[::1]:1,h:2",
      "--ignore-env=X",
    ],
    json: {
      read: ["/a", "/b"],
      write: { allow: ["/c"], deny: ["/c/d"] },
      net: ["[::1]:1", "h:2"],
      env: { ignore: ["X"] },
    },
  },
  {
    name: "any network and the whole environment",
    set: { write: ["/c"], net: "any", ignoreEnv: "all" },
    flags: ["--allow-write=/c", "--allow-net", "--ignore-env"],
    json: { write: ["/c"], net: true, env: { ignore: true } },
  },
])("formatFlags() and formatJson() write $name", ({ set, flags, json }) => {
  assert.deepEqual(formatFlags(set), [...NOTHING, ...flags]);
  assert.deepEqual(formatJson(set), json);
});

Deno.test.each<{ name: string; set: PermissionSet }>([
  { name: "reading", set: { read: ["/a,/etc/shadow"] } },
  { name: "writing", set: { write: ["/a,/etc"] } },
  { name: "denying", set: { write: ["/a"], denyWrite: ["/a/b,c"] } },
  { name: "connecting", set: { net: ["a:1,b:2"] } },
])("formatFlags() refuses a comma, which would grant two things, in $name", ({ set }) => {
  assert.throws(
    () => formatFlags(set),
    (error) => error instanceof AppError && error.code === "invalid_config",
  );
});

Deno.test.each<[name: string, sets: PermissionSet[], merged: PermissionSet]>([
  ["nothing into nothing", [{}, { read: [] }], {}],
  ["lists sorted and without repetition", [{ read: ["/b", "/a"], net: ["h:2"] }, {
    read: ["/a", "/c"],
    net: ["h:1", "h:2"],
    denyWrite: ["/x"],
  }], { read: ["/a", "/b", "/c"], net: ["h:1", "h:2"], denyWrite: ["/x"] }],
  ["any network over a list", [{ net: ["h:1"] }, { net: "any" }], { net: "any" }],
  ["all variables over a list", [{ ignoreEnv: "all" }, { ignoreEnv: ["X"] }], { ignoreEnv: "all" }],
])("mergeSets() merges %s", (_name, sets, merged) => {
  assert.deepEqual(mergeSets(...sets), merged);
});

Deno.test("formatV8Flags() names the limits, and leaves the growth of the heap and when to compile to V8 unless told", () => {
  assert.equal(formatV8Flags({}), "--v8-flags=--max-semi-space-size=2");
  assert.equal(
    formatV8Flags({ semiSpaceMegabytes: 1, heapGrowingPercent: 50 }),
    "--v8-flags=--max-semi-space-size=1,--heap-growing-percent=50",
  );
  assert.equal(
    formatV8Flags({ compilesInTurn: true }),
    "--v8-flags=--max-semi-space-size=2,--no-concurrent-recompilation",
  );
});
