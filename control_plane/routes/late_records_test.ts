import assert from "node:assert/strict";
import type { AuditEntry } from "@gateway/shared/audit";
import { inRequest } from "@gateway/shared/service";
import { FakeClock } from "@gateway/shared/testing";
import { LateRecords } from "../app.ts";

/** Records over a disk that writes when it is told to. */
function start(delayMs = 20) {
  const clock = new FakeClock();
  const stopping = new AbortController();
  const appended: string[] = [];
  const disk = Promise.withResolvers<void>();
  const append = ({ outcome }: AuditEntry) => {
    appended.push(outcome);
    return disk.promise;
  };
  const records = new LateRecords({ append, clock, delayMs, signal: stopping.signal });
  const add = (outcome: string) => records.add({ outcome });
  return { add, appended, clock, disk, records, stopping };
}

Deno.test("LateRecords appends together, in order, a moment later", async () => {
  const { add, appended, clock } = start();
  await add("a");
  await clock.advance(10);
  await add("b");
  assert.deepEqual(appended, []);
  await clock.advance(10);
  assert.deepEqual(appended, ["a", "b"]);
  await add("c");
  await clock.advance(20);
  assert.deepEqual(appended, ["a", "b", "c"]);
  assert.equal(clock.sleeping, 0);
});

Deno.test("LateRecords appends those that wait before whatever comes next", async () => {
  const { add, appended, clock, records } = start();
  await add("a");
  records.flush();
  assert.deepEqual(appended, ["a"]);
  await clock.advance(20);
  assert.deepEqual(appended, ["a"], "and once");
});

Deno.test("LateRecords appends at once when the process is to end, and from then on", async () => {
  const { add, appended, clock, stopping } = start();
  await add("a");
  stopping.abort();
  await clock.advance(0);
  await add("b");
  await clock.advance(0);
  assert.deepEqual(appended, ["a", "b"]);
});

Deno.test("LateRecords makes wait when very many are on their way to the disk", async () => {
  const { add, disk } = start(0);
  for (let count = 0; count < 1024; count++) await add("forwarded");
  let isWritten = false;
  const last = add("forwarded").then(() => isWritten = true);
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.equal(isWritten, false);
  disk.resolve();
  await last;
  await add("forwarded");
});

Deno.test("LateRecords names of each record its own request, also when another's has them appended", async () => {
  const clock = new FakeClock();
  const appended: unknown[] = [];
  const append = ({ outcome, request_id }: AuditEntry) => {
    appended.push([outcome, request_id]);
    return Promise.resolve();
  };
  const records = new LateRecords({ append, clock, delayMs: 20, signal: new AbortController().signal });
  const within = (id: string, run: () => Promise<void>) => inRequest({ name: "POST", id }, run);
  await within("r-1", () => records.add({ outcome: "a" }));
  await records.add({ outcome: "b" });
  await within("r-2", async () => {
    await records.add({ outcome: "c" });
    records.flush();
  });
  assert.deepEqual(appended, [["a", "r-1"], ["b", ""], ["c", "r-2"]]);
});
