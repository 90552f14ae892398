import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { FailingControlStore, openMemoryStore } from "../testing/failing_control_store.ts";
import type { ControlStore } from "../state/store.ts";
import { approvalOf } from "../testing/sample_approval.ts";
import { type Attempt, CLAIM_MS, type Delivery, type NotificationResult, Outbox } from "./outbox.ts";
import { RecordingLogger } from "./testing/recording_logger.ts";
import { sampleApproval } from "./testing/sample_approval.ts";

const SENT: Attempt = { kind: "sent" };
const DOWN: Attempt = { kind: "failed", reason: "answered 503", mayRetry: true };
const REFUSED: Attempt = { kind: "failed", reason: "answered 404", mayRetry: false };

function scene(
  deliver: (id: string, signal: AbortSignal) => Promise<Attempt>,
  store: ControlStore = openMemoryStore(),
) {
  const known = new Map<string, ApprovalRecord>();
  const clock = new FakeClock();
  const logger = new RecordingLogger();
  const results: NotificationResult[] = [];
  const attempts: string[] = [];
  let prepared = 0;
  const outbox = new Outbox({
    store,
    find: (id) => known.get(id),
    clock,
    logger,
    count: (result) => results.push(result),
    prepare({ id }): Delivery {
      prepared++;
      return (signal) => {
        attempts.push(id);
        return deliver(id, signal);
      };
    },
  });
  const add = (id: string, change = {}) => outbox.add(sampleApproval({ id, ...change }));
  /** Parks an approval as the registry does, with this process as its sender until the given time. */
  const park = async (id: string, notifyUntil = clock.now() + CLAIM_MS) => {
    await store.insertApproval(approvalOf({ id }), { notifyUntil });
    known.set(id, sampleApproval({ id }));
    return { until: notifyUntil, send: () => outbox.add(sampleApproval({ id }), notifyUntil) };
  };
  /** The notifications that can be claimed after all current claims have expired. */
  const left = () =>
    store.claimNotifications({ now: Number.MAX_SAFE_INTEGER, until: Number.MAX_SAFE_INTEGER, limit: 999 });
  return {
    outbox,
    clock,
    logger,
    results,
    attempts,
    add,
    park,
    left,
    known,
    store,
    prepared: () => prepared,
  };
}

/** Returns these answers in order. */
function answers(...attempts: readonly Attempt[]) {
  const left = [...attempts];
  return () => Promise.resolve(left.shift() ?? SENT);
}

/** Never answers. Like a post, it ends when its signal aborts. */
function hang(_id: string, signal: AbortSignal): Promise<Attempt> {
  return new Promise((resolve) => {
    const end = () => resolve({ kind: "failed", reason: "ended", mayRetry: true });
    signal.addEventListener("abort", end, { once: true });
  });
}

Deno.test("Outbox tries a failing receiver three times, with pauses of 1 and 4 seconds", async () => {
  const { add, clock, attempts, results, logger, prepared } = scene(answers(DOWN, DOWN, DOWN, SENT));
  add("a");
  await clock.advance(999);
  assert.equal(attempts.length, 1);
  await clock.advance(1);
  assert.equal(attempts.length, 2);
  await clock.advance(3999);
  assert.equal(attempts.length, 2);
  await clock.advance(1);
  assert.equal(attempts.length, 3);
  await clock.advance(60_000);
  assert.equal(attempts.length, 3);
  assert.equal(prepared(), 1);
  assert.deepEqual(results, ["failed"]);
  assert.deepEqual(logger.calls, [{
    level: "warn",
    message: "approval notification failed",
    fields: { approval: "a", reason: "answered 503" },
  }]);
});

Deno.test("Outbox logs no failure if a later attempt succeeds", async () => {
  const { add, clock, results, logger } = scene(answers(DOWN, SENT));
  add("a");
  await clock.advance(1000);
  assert.deepEqual([results, logger.calls], [["sent"], []]);
});

Deno.test("Outbox does not retry a final rejection", async () => {
  const { add, clock, attempts, results } = scene(answers(REFUSED));
  add("a");
  await clock.advance(60_000);
  assert.deepEqual([attempts, results], [["a"], ["failed"]]);
});

Deno.test("Outbox continues after a delivery throws and does not log the error's message", async () => {
  const { outbox, add, results, logger } = scene((id) => {
    if (id === "a") throw new TypeError("https://hooks.example/s3cret");
    return Promise.resolve(SENT);
  });
  add("a");
  add("b");
  await outbox.close();
  assert.deepEqual(results.toSorted(), ["failed", "sent"]);
  assert.deepEqual(logger.calls.map(({ fields }) => fields), [
    { approval: "a", reason: "internal error: TypeError" },
  ]);
});

Deno.test("Outbox runs at most four posts at a time", async () => {
  const { outbox, add, clock, attempts } = scene(hang);
  for (let index = 0; index < 10; index++) add(String(index));
  await clock.advance(0);
  assert.deepEqual(attempts, ["0", "1", "2", "3"]);
  await Promise.all([outbox.close(), clock.advance(2000)]);
});

Deno.test("Outbox queues at most 256 notifications and drops the oldest with a warning", async () => {
  const { outbox, add, clock, results, logger } = scene(hang);
  for (let index = 0; index < 4 + 256 + 2; index++) add(String(index));
  assert.deepEqual(results, ["dropped", "dropped"]);
  assert.deepEqual(logger.calls.map(({ level, fields }) => [level, fields]), [
    ["warn", { approval: "4", reason: "more than 256 are waiting" }],
    ["warn", { approval: "5", reason: "more than 256 are waiting" }],
  ]);
  await Promise.all([outbox.close(), clock.advance(2000)]);
  assert.equal(results.length, 4 + 256 + 2);
});

Deno.test("Outbox drops a notification that expired in the queue", async () => {
  const { add, clock, attempts, results, logger } = scene(async (_id, signal) => {
    await clock.sleep(121_000, signal);
    return SENT;
  });
  for (const id of ["a", "b", "c", "d", "late"]) add(id);
  add("endless", { expires_at: undefined });
  await clock.advance(121_000);
  assert.deepEqual(attempts, ["a", "b", "c", "d", "endless"]);
  assert.deepEqual(results.filter((result) => result === "dropped").length, 1);
  assert.deepEqual(logger.calls.map(({ fields }) => fields), [{
    approval: "late",
    reason: "expired meanwhile",
  }]);
  await clock.advance(121_000);
});

Deno.test("Outbox stops at the expiry of the request and reports the failure", async () => {
  const { add, clock, attempts, logger } = scene(answers(DOWN, DOWN, DOWN));
  add("a", { expires_at: "2026-01-02T03:04:07Z" });
  await clock.advance(60_000);
  assert.equal(attempts.length, 2);
  assert.deepEqual(logger.calls.map(({ fields }) => fields), [{ approval: "a", reason: "answered 503" }]);
});

Deno.test("Outbox.close() waits for notifications that finish in time", async () => {
  const { outbox, add, clock, results } = scene(async (_id, signal) => {
    await clock.sleep(900, signal);
    return SENT;
  });
  for (let index = 0; index < 8; index++) add(String(index));
  await Promise.all([outbox.close(), clock.advance(1800)]);
  assert.deepEqual(results, Array(8).fill("sent"));
  assert.equal(clock.sleeping, 0);
});

Deno.test("Outbox.close() drops hanging, queued and paused notifications after two seconds", async () => {
  const { outbox, add, clock, results, attempts } = scene((id, signal) =>
    id === "pausing" ? Promise.resolve(DOWN) : hang(id, signal)
  );
  add("pausing");
  await clock.advance(1000);
  for (let index = 0; index < 10; index++) add(String(index));
  const closed = outbox.close();
  await clock.advance(1999);
  assert.deepEqual(results, []);
  await clock.advance(1);
  await closed;
  assert.deepEqual(results, Array(11).fill("dropped"));
  assert.ok(!attempts.includes("9"));
  assert.equal(clock.sleeping, 0);
});

Deno.test("Outbox drops notifications that are added after close()", async () => {
  const { outbox, add, attempts, results } = scene(answers());
  await outbox.close();
  add("a");
  await outbox.close();
  assert.deepEqual([attempts, results], [[], ["dropped"]]);
});

Deno.test("Outbox marks sent and finally rejected notifications as done", async () => {
  const { outbox, park, left, results } = scene(answers(SENT, REFUSED));
  for (const id of ["a", "b"]) (await park(id)).send();
  await outbox.close();
  assert.deepEqual([results, await left()], [["sent", "failed"], []]);
});

Deno.test("Outbox retries a postponed notification until its receiver accepts it", async () => {
  const { outbox, park, left, clock, attempts, results, logger } = scene(answers(DOWN, DOWN, DOWN, SENT));
  outbox.start();
  (await park("a")).send();
  await clock.advance(5000);
  assert.deepEqual(results, ["postponed"]);
  await clock.advance(34_999);
  assert.equal(attempts.length, 3, "its claim still runs");
  await clock.advance(5001);
  assert.deepEqual([attempts.length, results], [4, ["postponed", "sent"]]);
  assert.deepEqual(await left(), []);
  assert.deepEqual(logger.calls.map(({ message, fields }) => [message, fields]), [
    ["approval notification postponed", { approval: "a", reason: "answered 503" }],
  ]);
  await outbox.close();
  assert.equal(clock.sleeping, 0);
});

Deno.test("Outbox immediately sends notifications that a killed process left", async () => {
  const { outbox, park, left, clock, attempts, results } = scene(answers(SENT));
  await park("a");
  outbox.start();
  await clock.advance(0);
  assert.deepEqual([attempts, results, await left()], [["a"], ["sent"], []]);
  await outbox.close();
});

Deno.test("Outbox immediately sends as many left notifications as its queue holds", async () => {
  const { outbox, park, left, clock, attempts } = scene(answers());
  for (let index = 0; index < 256 + 1; index++) await park(`${index}`);
  outbox.start();
  await clock.advance(0);
  await outbox.close();
  assert.deepEqual([attempts.length, await left()], [256, ["256"]]);
});

Deno.test("Outbox does not claim notifications of other instances before their claims end", async () => {
  const memory = openMemoryStore();
  const shared = Object.assign(memory, {
    shared: { schema: 0, connect: () => Promise.reject(), load: () => Promise.reject() },
  });
  const { outbox, park, clock, attempts } = scene(answers(SENT), shared);
  await park("a");
  outbox.start();
  await clock.advance(CLAIM_MS);
  assert.deepEqual(attempts, []);
  await clock.advance(5000);
  assert.deepEqual(attempts, ["a"]);
  await outbox.close();
});

Deno.test.each([
  { status: "approved" as const, reason: "decided meanwhile" },
  { status: "expired" as const, reason: "expired meanwhile" },
])("Outbox drops and logs a claimed notification that is $status", async (row) => {
  const { outbox, park, left, clock, known, attempts, results, logger } = scene(answers(SENT));
  await park("a");
  known.set("a", sampleApproval({ id: "a", status: row.status }));
  outbox.start();
  await clock.advance(0);
  assert.deepEqual([attempts, results, await left()], [[], ["dropped"], []]);
  assert.deepEqual(logger.calls.map(({ fields }) => fields), [{ approval: "a", reason: row.reason }]);
  await outbox.close();
});

Deno.test("Outbox skips notifications of approvals that are not in this process", async () => {
  const { outbox, park, left, clock, known, attempts } = scene(answers(SENT));
  await park("a");
  known.clear();
  outbox.start();
  await clock.advance(0);
  assert.deepEqual([attempts, await left()], [[], ["a"]]);
  await outbox.close();
});

Deno.test("Outbox drops a queued notification whose approval is decided", async () => {
  const { outbox, park, known, attempts, results, logger } = scene(answers(SENT));
  const { send } = await park("a");
  known.set("a", sampleApproval({ id: "a", status: "denied" }));
  send();
  await outbox.close();
  assert.deepEqual([attempts, results], [[], ["dropped"]]);
  assert.deepEqual(logger.calls[0]?.fields, { approval: "a", reason: "decided meanwhile" });
});

Deno.test("Outbox starts no delivery that could outlast its claim", async () => {
  const { outbox, park, left, clock, attempts, results } = scene(answers(SENT));
  const { send } = await park("a", clock.now() + 20_999);
  send();
  await outbox.close();
  assert.deepEqual([attempts, results, await left()], [[], ["postponed"], ["a"]]);
});

Deno.test("Outbox leaves unsent notifications for the next start when it closes", async () => {
  const { outbox, park, left, clock, results } = scene(hang, new FailingControlStore());
  for (let index = 0; index < 5; index++) (await park(`${index}`)).send();
  await Promise.all([outbox.close(), clock.advance(2000)]);
  (await park("late")).send();
  assert.deepEqual(results, Array(6).fill("postponed"));
  assert.equal((await left()).length, 6);
});

Deno.test("Outbox postpones notifications above its queue limit", async () => {
  const { outbox, park, left, clock, results } = scene(hang);
  for (let index = 0; index < 4 + 256 + 1; index++) (await park(`${index}`)).send();
  assert.deepEqual(results, ["postponed"]);
  assert.equal((await left()).length, 4 + 256 + 1);
  await Promise.all([outbox.close(), clock.advance(2000)]);
});

Deno.test("Outbox logs a failing store once and continues", async () => {
  const store = new FailingControlStore();
  store.failing.add("claimNotifications");
  const { outbox, park, clock, attempts, logger } = scene(answers(SENT), store);
  await park("a");
  outbox.start();
  await clock.advance(20_000);
  assert.deepEqual(logger.calls.map(({ message }) => message), [
    "search for unsent approval notifications failed",
  ]);
  store.failing.clear();
  await clock.advance(CLAIM_MS);
  assert.deepEqual(attempts, ["a"]);
  await outbox.close();
});

Deno.test("Outbox logs that a notification may be sent again if its end cannot be stored", async () => {
  const store = new FailingControlStore();
  store.failing.add("endNotification");
  const { outbox, park, results, logger } = scene(answers(SENT), store);
  (await park("a")).send();
  await outbox.close();
  assert.deepEqual(results, ["sent"]);
  assert.match(logger.calls[0]?.message ?? "", /may be sent again/);
});
