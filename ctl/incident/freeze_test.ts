import assert from "node:assert/strict";
import { describeSpread, spreadOf } from "./freeze.ts";

Deno.test("describeSpread() lists outdated hosts first, with their revocation list versions", () => {
  const readers = [
    { caller: "a.krl", hosts: ["a"], version: 10, seen_at: "2026-01-02T03:04:05Z" },
    { caller: "b.krl", hosts: ["b", "c"], version: 8, seen_at: "2026-01-02T03:04:05Z" },
    { caller: "d.krl", hosts: [] },
    { caller: "e.krl", hosts: ["e"], version: 11, seen_at: "2026-01-02T03:04:05Z" },
  ];
  assert.deepEqual(describeSpread(spreadOf({ version: 10, readers }, 9), 9), [
    "revocation list 9: installed on 1 of 4",
    "outdated: b,c (b.krl) has version 8, last request at 2026-01-02T03:04:05Z",
    "outdated: d.krl has not fetched it since the signer's start",
    "outdated: e (e.krl) has version 11, later than this signer's 10, and rejects its lists; see revocation-lists.md",
    "current: a (a.krl)",
  ]);
});
