import { FakeClock } from "@gateway/shared/testing";
import { runInNewContext } from "node:vm";
import { setFlagsFromString } from "node:v8";
import { Guardrails } from "../../control_plane/guardrails/guardrails.ts";
import { subjectOf } from "../../control_plane/guardrails/tracker.ts";
import { openMemoryStore } from "../../control_plane/testing/failing_control_store.ts";
import type { Row } from "./row.ts";
import { median } from "./statistics.ts";

const SUBJECTS = 100_000;
const MAX_SUBJECTS = 4096;
const WARM_UP = 10_000;

/** A flood of subjects, three brokers' worth, under the bounds of the default config. */
export async function benchGuardrails(): Promise<readonly Row[]> {
  return [...await benchFlood(), await benchUsual(), await benchLongCommands()];
}

function openGuardrails(mode: "observe" | "enforce"): Promise<Guardrails> {
  return Guardrails.open({
    config: {
      mode,
      rate_limit_per_min: 60,
      max_subjects: MAX_SUBJECTS,
      subject_ttl_minutes: 1440,
      max_distinct_per_subject: 1024,
    },
    store: openMemoryStore(),
    clock: new FakeClock(),
    logger: { info() {}, warn() {}, error() {} },
  });
}

const requestOf = (number: number) => ({
  subject: subjectOf({ caller: `broker-${number % 3}`, endUser: `user-${number}`, trusted: true }),
  host: `web${number % 100}`,
  command: `systemctl status unit-${number}`,
});

/** Every request is of another subject; a part of them comes back once it was issued, so that all standings fill. */
async function benchFlood(): Promise<readonly Row[]> {
  const guardrails = await openGuardrails("enforce");
  const flood = (from: number, count: number) =>
    Array.from({ length: count }, (_, i) => {
      const request = requestOf(from + i);
      const start = performance.now();
      const verdict = guardrails.check(request);
      const elapsed = performance.now() - start;
      verdict.learn();
      for (let again = 0; again < i % 4; again++) guardrails.check(request).learn();
      return elapsed;
    });
  flood(0, WARM_UP);
  const few = usedBytes();
  const microseconds = 1000 * median(flood(WARM_UP, SUBJECTS));
  const many = usedBytes();
  const held = guardrails.subjects;
  await guardrails.close();
  return [
    decisionRow(`guardrails, each of ${SUBJECTS} subjects new, decision, median`, microseconds),
    {
      what: `guardrails, subjects held after ${SUBJECTS}`,
      measured: String(held),
      baseline: "",
      ratio: "",
      target: `at most ${MAX_SUBJECTS}`,
      met: held <= MAX_SUBJECTS,
    },
    {
      what: `guardrails, memory after ${SUBJECTS} subjects`,
      measured: megabytes(many),
      baseline: `${megabytes(few)} after ${WARM_UP}`,
      ratio: (many / few).toFixed(2),
      target: "at most 1.2",
      met: many <= 1.2 * few,
    },
  ];
}

/** Requests of subjects that are all known, as on any other day. */
async function benchUsual(): Promise<Row> {
  const guardrails = await openGuardrails("observe");
  for (let i = 0; i < MAX_SUBJECTS; i++) guardrails.learn(requestOf(i));
  const times = Array.from({ length: SUBJECTS }, (_, i) => {
    const request = requestOf((i * 7919) % MAX_SUBJECTS);
    const start = performance.now();
    const verdict = guardrails.check(request);
    const elapsed = performance.now() - start;
    verdict.learn();
    return elapsed;
  });
  await guardrails.close();
  return decisionRow(`guardrails, ${MAX_SUBJECTS} known subjects, decision, median`, 1000 * median(times));
}

/** A word that is remembered must not keep the command that it was cut from. */
async function benchLongCommands(): Promise<Row> {
  const guardrails = await openGuardrails("observe");
  const before = usedBytes();
  const arguments60KiB = JSON.stringify("x".repeat(60 * 1024));
  for (let i = 0; i < 1000; i++) {
    const command: unknown = JSON.parse(`"program-number-${i} ${arguments60KiB.slice(1)}`);
    guardrails.learn({ subject: '["broker"]', host: "web01", command: String(command) });
  }
  const grown = usedBytes() - before;
  await guardrails.close();
  return {
    what: "guardrails, memory for 1000 commands of 60 KiB",
    measured: megabytes(grown),
    baseline: "",
    ratio: "",
    target: "under 5 MB",
    met: grown < 5e6,
  };
}

function decisionRow(what: string, microseconds: number): Row {
  return {
    what,
    measured: `${microseconds.toFixed(1)} us`,
    baseline: "",
    ratio: "",
    target: "under 50 us",
    met: microseconds < 50,
  };
}

const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;

/** What is really in use: without collecting first, garbage would be counted. */
function usedBytes(): number {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect !== "function") throw new Error("no garbage collector to call");
  collect();
  return Deno.memoryUsage().heapUsed;
}
