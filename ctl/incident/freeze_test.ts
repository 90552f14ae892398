import assert from "node:assert/strict";
import { describeSpread, spreadOf } from "./freeze.ts";

Deno.test("describeSpread() names the hosts that are behind first, and what they have", () => {
  const readers = [
    { caller: "a.krl", hosts: ["a"], version: 10, seen_at: "2026-01-02T03:04:05Z" },
    { caller: "b.krl", hosts: ["b", "c"], version: 8, seen_at: "2026-01-02T03:04:05Z" },
    { caller: "d.krl", hosts: [] },
    { caller: "e.krl", hosts: ["e"], version: 11, seen_at: "2026-01-02T03:04:05Z" },
  ];
  assert.deepEqual(describeSpread(spreadOf({ version: 10, readers }, 9), 9), [
    "revocation list 9: installed by 1 of 4",
    "behind: b,c (b.krl) has version 8, asked at 2026-01-02T03:04:05Z",
    "behind: d.krl has not asked since the signer's start",
    "behind: e (e.krl) has version 11, later than any of this signer (now 10), and takes none of its lists: " +
    "shim/KRL.md says what to do there",
    "holds: a (a.krl)",
  ]);
});
