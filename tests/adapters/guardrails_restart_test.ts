/** The guardrails over a real database: what they write is what they read at the next start. */
import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { Guardrails } from "../../control_plane/guardrails/guardrails.ts";
import { subjectOf } from "../../control_plane/guardrails/tracker.ts";
import { ControlFolder } from "./control_store_fixture.ts";

const DAY_MS = 86_400_000;
const COMMAND = "PGPASSWORD=hunter2 psql -c 'select 1'";
const PEOPLE = ["alice", 'a"],["b', "nul\0", "half \ud800", "\u202eecila", "x".repeat(60_000)];
const SUBJECTS = PEOPLE.map((endUser) => subjectOf({ caller: "broker-1", endUser, trusted: true }));

async function open(folder: ControlFolder, clock: FakeClock, maxSubjects = 4096) {
  const store = folder.open();
  const guardrails = await Guardrails.open({
    config: {
      mode: "enforce",
      rate_limit_per_min: 60,
      max_subjects: maxSubjects,
      subject_ttl_minutes: 1440,
      max_distinct_per_subject: 1024,
    },
    store,
    clock,
    logger: { info() {}, warn() {}, error() {} },
  });
  return {
    guardrails,
    anomaliesOf(subject: string, host = "web01", command = COMMAND) {
      const verdict = guardrails.check({ subject, host, command });
      return verdict.kind === "normal" ? [] : verdict.anomalies;
    },
    async [Symbol.asyncDispose]() {
      await guardrails.close();
      await store.close();
    },
  };
}

async function learnAll(folder: ControlFolder, clock: FakeClock) {
  await using plane = await open(folder, clock);
  for (const subject of SUBJECTS) {
    plane.guardrails.learn({ subject, host: "web01", command: COMMAND });
    await clock.advance(1);
  }
}

Deno.test("a restart brings back every baseline, whatever is in the names, and no secret is in the file", async () => {
  using folder = new ControlFolder();
  const clock = new FakeClock();
  await learnAll(folder, clock);
  assert.ok(!folder.bytes().includes("hunter2"));
  await using plane = await open(folder, clock);
  for (const subject of SUBJECTS) {
    assert.deepEqual(plane.anomaliesOf(subject), []);
    assert.deepEqual(plane.anomaliesOf(subject, "db01", "id"), ["new-host:db01", "new-command:id"]);
  }
  assert.deepEqual(folder.warnings, []);
});

Deno.test("what is forgotten leaves the file as well: idle subjects, and those beyond a bound that was lowered", async () => {
  using folder = new ControlFolder();
  const clock = new FakeClock();
  await learnAll(folder, clock);
  {
    await using _plane = await open(folder, clock, 4);
  }
  const kept = folder.query("SELECT subject FROM baselines ORDER BY last_seen").map(({ subject }) => subject);
  assert.deepEqual(kept, SUBJECTS.slice(2));
  await clock.advance(DAY_MS + 10);
  {
    await using plane = await open(folder, clock);
    assert.equal(plane.guardrails.subjects, 0);
  }
  assert.deepEqual(folder.query("SELECT subject FROM baselines"), []);
});
