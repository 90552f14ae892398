import assert from "node:assert/strict";
import { createRedactor } from "@gateway/shared/redact";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { type Card, LONGEST_CARD, makeCard } from "./card.ts";

const PENDING: ApprovalRecord = {
  id: "0123456789abcdef0123456789abcdef",
  caller: "broker-1",
  host: "web01",
  command: "uptime",
  status: "pending",
  created_at: "2026-01-02T03:04:05Z",
  decided_at: "0001-01-01T00:00:00Z",
};

function cardOf(changes: Partial<ApprovalRecord>): Card {
  const context = {
    ...{ nonce: "n", joined: [] },
    redact: createRedactor(undefined),
    pageOf: (id: string) => `https://gw/${id}`,
  };
  return makeCard(PENDING.id, { ...PENDING, ...changes }, context);
}

Deno.test("makeCard() offers to approve what it shows whole", () => {
  assert.deepEqual(cardOf({}).verbs, ["approve", "deny", "learn"]);
});

Deno.test("makeCard() of more than a chat takes is cut, says so, and can be denied", () => {
  const changes = Array.from({ length: 25 }, (_, index) => ({
    path: `data.k${index}`,
    before: "a".repeat(300),
    after: "b".repeat(300),
  }));
  const { lines, verbs, note } = cardOf({
    target_type: "k8s",
    command: "x".repeat(1_900),
    k8s_diff: { kind: "changed", changes },
  });
  assert.ok(lines.join("\n").length <= LONGEST_CARD + 100, `${lines.join("\n").length}`);
  assert.match(lines.at(-1)!, /^\[CUT: \d+ of \d+ lines\]$/);
  assert.deepEqual([verbs, note === ""], [["deny"], false]);
});
