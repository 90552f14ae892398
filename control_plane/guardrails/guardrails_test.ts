import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { FakeClock } from "@gateway/shared/testing";
import type { BehaviorConfig, BehaviorMode } from "../config/config.ts";
import { type Baseline, subjectOf } from "./tracker.ts";
import { FakeBaselineStore } from "../testing/baseline_store.ts";
import { Guardrails } from "./guardrails.ts";

const CONFIG: BehaviorConfig = {
  mode: "enforce",
  rate_limit_per_min: 0,
  max_subjects: 4096,
  subject_ttl_minutes: 1440,
  max_distinct_per_subject: 1024,
};
const DAY_MS = 86_400_000;
const SUBJECT = subjectOf({ caller: "broker-1", endUser: "", trusted: false });
const USUAL = { subject: SUBJECT, host: "web01", command: "uptime" };
const UNUSUAL = { subject: SUBJECT, host: "db01", command: "psql -c 'drop table users'" };

async function start(
  config: Partial<BehaviorConfig> = {},
  store = new FakeBaselineStore(),
  clock = new FakeClock(),
) {
  let errors = 0;
  const guardrails = await Guardrails.open({
    config: { ...CONFIG, ...config },
    store,
    clock,
    logger: { info() {}, warn() {}, error() {} },
    onStoreError: () => errors++,
  });
  const check = (request = USUAL) => guardrails.check(request);
  const anomaliesOf = (request = USUAL) => {
    const verdict = guardrails.check(request);
    return verdict.kind === "normal" ? [] : verdict.anomalies;
  };
  return { guardrails, store, clock, check, anomaliesOf, errors: () => errors };
}

Deno.test("a subject whose first request is denied stays unknown", async () => {
  const { check, anomaliesOf } = await start();
  assert.equal(check(UNUSUAL).kind, "normal");
  check(USUAL).learn();
  assert.deepEqual(anomaliesOf(UNUSUAL), ["new-host:db01", "new-command:psql"]);
});

Deno.test("in mode off, every request is normal and the store is not used", async () => {
  const store = new FakeBaselineStore();
  store.failure = new Error("must not be asked");
  const { guardrails, check } = await start({ mode: "off", rate_limit_per_min: 1 }, store);
  for (const request of [USUAL, UNUSUAL, UNUSUAL]) {
    const verdict = check(request);
    assert.equal(verdict.kind, "normal");
    verdict.learn();
    guardrails.learn(request);
  }
  assert.equal(guardrails.subjects, 0);
  await guardrails.close();
  assert.deepEqual(store.calls, []);
});

Deno.test.each<{ mode: BehaviorMode }>([{ mode: "observe" }, { mode: "enforce" }])(
  "above the rate limit, $mode reports rate-exceeded first and whole seconds to wait",
  async ({ mode }) => {
    const { clock, check } = await start({ mode, rate_limit_per_min: 2 });
    check().learn();
    await clock.advance(10_500);
    check();
    const { learn: _, ...verdict } = check(UNUSUAL);
    assert.deepEqual(verdict, {
      kind: "anomalous",
      rateExceeded: true,
      anomalies: ["rate-exceeded", "new-host:db01", "new-command:psql"],
      retryAfterSeconds: 60,
    });
    await clock.advance(59_500);
    const { learn: __, ...later } = check();
    assert.deepEqual(later, {
      kind: "anomalous",
      rateExceeded: true,
      anomalies: ["rate-exceeded"],
      retryAfterSeconds: 1,
    });
  },
);

Deno.test("a request after retryAfterSeconds passes", async () => {
  const { clock, check } = await start({ rate_limit_per_min: 3 });
  for (let i = 0; i < 50; i++) {
    const verdict = check();
    if (verdict.kind === "anomalous") {
      await clock.advance(1000 * verdict.retryAfterSeconds);
      assert.equal(check().kind, "normal");
    }
    await clock.advance(700);
  }
});

Deno.test("in enforce, a request above the rate limit is not learned", async () => {
  const { check } = await start({ rate_limit_per_min: 1 });
  check(USUAL);
  check(UNUSUAL).learn();
  const verdict = check(USUAL);
  assert.deepEqual(verdict.kind === "anomalous" && verdict.anomalies, ["rate-exceeded"]);
});

Deno.test("repeated usual requests cause no further store write", async () => {
  const { store, clock, check } = await start();
  for (let i = 0; i < 3; i++) {
    check().learn();
    await clock.advance(5000);
  }
  assert.equal(store.calls.length, 1);
});

Deno.test("in enforce, two concurrent first requests are normal but only one is learned", async () => {
  const { check, anomaliesOf } = await start();
  const verdicts = [check(USUAL), check(UNUSUAL)];
  assert.deepEqual(verdicts.map(({ kind }) => kind), ["normal", "normal"]);
  for (const verdict of verdicts) verdict.learn();
  assert.deepEqual(anomaliesOf(UNUSUAL), ["new-host:db01", "new-command:psql"]);
});

Deno.test("a restart keeps baselines and resets rates", async () => {
  const store = new FakeBaselineStore();
  const clock = new FakeClock();
  const before = await start({ rate_limit_per_min: 1 }, store, clock);
  before.check().learn();
  before.guardrails.learn({ ...USUAL, host: "web02" });
  assert.deepEqual(before.anomaliesOf(), ["rate-exceeded"]);
  await before.guardrails.close();
  const after = await start({ rate_limit_per_min: 1 }, store, clock);
  assert.deepEqual(after.anomaliesOf({ ...UNUSUAL, host: "web02" }), ["new-command:psql"]);
});

Deno.test("a kill loses at most the changes of the last second", async () => {
  const store = new FakeBaselineStore();
  const { guardrails, clock, check } = await start({}, store);
  check().learn();
  await clock.advance(1000);
  guardrails.learn(UNUSUAL);
  const after = await start({}, store, clock);
  assert.deepEqual(after.anomaliesOf(UNUSUAL), ["new-host:db01", "new-command:psql"]);
  await guardrails.close();
});

Deno.test.each([
  { name: "that are idle for too long", idle: 2, maxSubjects: 32 },
  { name: "above max_subjects, the most recent subjects stay", idle: 0, maxSubjects: 18 },
])("a start removes baselines $name", async ({ idle, maxSubjects }) => {
  const clock = new FakeClock();
  const subjects = Array.from({ length: 20 }, (_, i) => JSON.stringify([`broker-${i}`]));
  const store = new FakeBaselineStore(subjects.map((subject, i) => {
    return { subject, lastSeen: clock.now() - DAY_MS + i - idle, hosts: ["web01"], commands: [] };
  }));
  const { guardrails } = await start({ max_subjects: maxSubjects }, store, clock);
  assert.equal(guardrails.subjects, 18);
  await guardrails.close();
  assert.deepEqual([...store.rows.keys()], subjects.slice(2));
});

Deno.test("a subject that makes only usual requests stays known after a restart", async () => {
  const store = new FakeBaselineStore();
  const clock = new FakeClock();
  const { guardrails, check } = await start({}, store, clock);
  check().learn();
  for (let day = 0; day < 3; day += 0.5) {
    await clock.advance(DAY_MS / 2);
    check();
  }
  // No close(), as after a kill.
  await clock.advance(DAY_MS / 2);
  const after = await start({}, store, clock);
  assert.deepEqual(after.anomaliesOf(UNUSUAL), ["new-host:db01", "new-command:psql"]);
  await guardrails.close();
});

Deno.test("Guardrails.open() fails if the store cannot be read", async () => {
  const store = new FakeBaselineStore();
  store.failure = new Error("database is damaged");
  await assert.rejects(start({}, store), store.failure);
});

Deno.test("a store that cannot be written delays and rejects no request", async () => {
  const { store, clock, check, anomaliesOf, errors, guardrails } = await start();
  store.failure = new Error("disk full");
  check().learn();
  await clock.advance(10_000);
  assert.ok(errors() > 0);
  assert.deepEqual(anomaliesOf(UNUSUAL), ["new-host:db01", "new-command:psql"]);
  await guardrails.close();
});

Deno.test("a clock that is set back neither blocks a subject for long nor frees it early", async () => {
  const { clock, check } = await start({ rate_limit_per_min: 1 });
  check();
  await clock.advance(-DAY_MS);
  const verdict = check();
  assert(verdict.kind === "anomalous");
  assert.equal(verdict.retryAfterSeconds, 60);
  await clock.advance(59_999);
  assert.equal(check().kind, "anomalous");
  await clock.advance(60_000);
  assert.equal(check().kind, "normal");
});

Deno.test("a clock that is set back makes no subject idle, also after a restart", async () => {
  const store = new FakeBaselineStore();
  const { guardrails, clock, check, anomaliesOf } = await start({}, store);
  check().learn();
  await clock.advance(-10 * DAY_MS);
  assert.deepEqual(anomaliesOf(UNUSUAL), ["new-host:db01", "new-command:psql"]);
  await guardrails.close();
  assert.equal(store.rows.get(SUBJECT)?.lastSeen, clock.now());
  const after = await start({}, store, clock);
  assert.deepEqual(after.anomaliesOf(UNUSUAL), ["new-host:db01", "new-command:psql"]);
});

Deno.test("a baseline with a time in the future counts as seen at the start", async () => {
  const clock = new FakeClock();
  const lastSeen = clock.now() + 100 * DAY_MS;
  const store = new FakeBaselineStore([{
    subject: SUBJECT,
    lastSeen,
    hosts: ["web01"],
    commands: ["uptime"],
  }]);
  const { clock: _, check, anomaliesOf, guardrails } = await start({}, store, clock);
  await clock.advance(DAY_MS);
  assert.deepEqual(anomaliesOf(UNUSUAL), ["new-host:db01", "new-command:psql"]);
  await clock.advance(DAY_MS + 1);
  assert.equal(check(UNUSUAL).kind, "normal", "and is idle as early as any other");
  await guardrails.close();
});

/** A store that other control planes write to. */
class SharedBaselineStore extends FakeBaselineStore {
  readonly asked: string[] = [];
  isDown = false;

  findBaseline(subject: string): Promise<Baseline | undefined> {
    this.asked.push(subject);
    if (this.isDown) return Promise.reject(new AppError("internal", "no database"));
    return Promise.resolve(this.rows.get(subject));
  }
}

const theirs = (lastSeen: number) => ({ subject: SUBJECT, lastSeen, hosts: ["web01"], commands: ["uptime"] });

Deno.test("a subject that another control plane has learned is known here and read only once", async () => {
  const store = new SharedBaselineStore();
  const { guardrails, anomaliesOf, clock, check } = await start({}, store);
  await guardrails.loadBaseline(UNUSUAL);
  assert.deepEqual(anomaliesOf(UNUSUAL), [], "nobody knows it");
  store.rows.set(SUBJECT, theirs(clock.now()));
  await Promise.all([guardrails.loadBaseline(UNUSUAL), guardrails.loadBaseline(USUAL)]);
  assert.deepEqual(anomaliesOf(UNUSUAL), ["new-host:db01", "new-command:psql"]);
  assert.deepEqual(anomaliesOf(USUAL), []);
  await guardrails.loadBaseline(UNUSUAL);
  assert.equal(store.asked.length, 3);
  assert.equal(check(USUAL).kind, "normal");
});

Deno.test("a baseline that is idle at another instance is not used here", async () => {
  const store = new SharedBaselineStore();
  const clock = new FakeClock(10 * DAY_MS);
  const { guardrails, anomaliesOf } = await start({}, store, clock);
  store.rows.set(SUBJECT, theirs(clock.now() - 2 * DAY_MS));
  await guardrails.loadBaseline(UNUSUAL);
  assert.deepEqual(anomaliesOf(UNUSUAL), []);
});

Deno.test("if baselines of others are unreadable, enforce rejects and observe continues", async () => {
  const store = new SharedBaselineStore();
  store.isDown = true;
  const enforcing = await start({}, store);
  await assert.rejects(enforcing.guardrails.loadBaseline(USUAL), { code: "internal" });
  enforcing.check().learn();
  await enforcing.guardrails.loadBaseline(USUAL);
  const observing = await start({ mode: "observe" }, store);
  await observing.guardrails.loadBaseline(USUAL);
  await (await start({ mode: "off" }, store)).guardrails.loadBaseline(USUAL);
});
