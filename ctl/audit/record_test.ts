import assert from "node:assert/strict";
import { createAuditKey, GENESIS, seal } from "@gateway/shared/audit";
import { escapeKey } from "@gateway/shared/testing";
import { readRecord } from "./record.ts";

Deno.test("readRecord() shows what a line says, whatever was read before", () => {
  const { before, text } = escapeKey('{"caller":"broker-1","outcome":"denied","host":"web01"', "outcome");
  const lines = [before, text].map((body) =>
    seal({ body, ext: "" }, GENESIS, createAuditKey(new Uint8Array(32))).line
  );
  const [, record] = lines.map((line) => readRecord(new TextEncoder().encode(line)));
  assert.equal(record?.record.outcome, "denied");
});
