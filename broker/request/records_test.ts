import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { countEvents, type Events } from "./records.ts";

/** Keeps the order in which things happened. */
function fixture(fails: boolean) {
  const happened: string[] = [];
  const log: Events = {
    require({ outcome }) {
      happened.push(`append ${outcome}`);
      return fails
        ? Promise.reject(new AppError("audit_unavailable", "audit unavailable"))
        : Promise.resolve();
    },
    bestEffort({ outcome }) {
      happened.push(`append ${outcome}`);
      return Promise.resolve();
    },
  };
  return { happened, events: countEvents(log, (outcome) => happened.push(`count ${outcome}`)) };
}

Deno.test("countEvents() counts each event once it has been recorded", async () => {
  const { happened, events } = fixture(false);
  await events.require({ outcome: "executed" });
  await events.bestEffort({ outcome: "denied" });
  assert.deepEqual(happened, ["append executed", "count executed", "append denied", "count denied"]);
});

Deno.test("countEvents() counts also what could not be recorded, and still withholds it", async () => {
  const { happened, events } = fixture(true);
  await assert.rejects(events.require({ outcome: "executed" }), { code: "audit_unavailable" });
  assert.deepEqual(happened, ["append executed", "count executed"]);
});
