import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { countEvents, createTimings, type Events, timeAuthority, trackRuns } from "./records.ts";
import { BrokerFixture } from "../testing/broker_fixture.ts";
import { hangUntilAborted } from "../testing/fake_runner.ts";
import { createMetrics } from "@gateway/shared/service/metrics";
import type { Authority, CertificateRequest, SignAnswer } from "../authority/authority.ts";

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

const request = {
  caller: "agent-1",
  callerGroups: null,
  host: "web01",
  command: "uptime",
  ttlSeconds: 0,
  sudo: false,
  sudoUser: "",
  pty: false,
  dryRun: false,
};

Deno.test("trackRuns() cancels what runs and waits for its record", async () => {
  const broker = new BrokerFixture();
  broker.runner.answer = hangUntilAborted;
  const runs = trackRuns();
  const execute = runs.track(broker.execute);
  const signal = new AbortController().signal;
  const running = [execute(request, signal), execute(request, signal)];
  const rejected = running.map((run) => assert.rejects(run, { code: "canceled" }));
  while (broker.runner.runs.length < 2) await Promise.resolve();
  await runs.cancel();
  assert.deepEqual(broker.log.entries.map(({ err }) => err), ["canceled", "canceled"]);
  await Promise.all(rejected);
});

Deno.test("trackRuns() lets nothing run any more once it has canceled", async () => {
  const broker = new BrokerFixture();
  const runs = trackRuns();
  const execute = runs.track(broker.execute);
  await runs.cancel();
  await assert.rejects(execute(request, new AbortController().signal), { code: "canceled" });
  assert.deepEqual(broker.runner.runs, []);
});

Deno.test("trackRuns() passes results, errors and the caller's own signal on", async () => {
  const broker = new BrokerFixture();
  const runs = trackRuns();
  const execute = runs.track(broker.execute);
  const { signal } = new AbortController();
  assert.equal((await execute(request, signal)).kind, "executed");
  await assert.rejects(execute({ ...request, host: "nope" }, signal), { code: "unknown_host" });
  await assert.rejects(execute(request, AbortSignal.abort()), { code: "canceled" });
});

const NEVER = new AbortController().signal;
const REQUEST: CertificateRequest = {
  host: "web01",
  public_key: "ssh-ed25519 A",
  role: "target",
  purpose: "oneshot",
  end_user_groups: null,
};

const notAsked = () => Promise.reject(new Error("not asked"));
const NOT_ASKED = { hosts: notAsked, rules: notAsked, clusters: notAsked, token: notAsked };

/** The series that one answer of an authority leads to. */
async function counted(sign: Authority["sign"]): Promise<readonly string[]> {
  const metrics = createMetrics();
  const inner: Authority = { ...NOT_ASKED, sign };
  await timeAuthority(inner, createTimings(metrics)).sign(REQUEST, { signal: NEVER }).catch(() => {});
  return (await metrics.text()).match(/^broker_\w+_count\{.*$/gm) ?? [];
}

const REJECTED: SignAnswer = { kind: "rejected", status: 403, detail: "denied by policy" };
const GRANTED: SignAnswer = { kind: "not_granted", status: 403, detail: "approval denied" };

Deno.test.each<{ name: string; sign: Authority["sign"]; series: string }>([
  {
    name: "an answer as signing, by its kind",
    sign: () => Promise.resolve(REJECTED),
    series: 'broker_sign_duration_seconds_count{result="rejected"} 1',
  },
  {
    name: "a fault as signing, by its code",
    sign: () => Promise.reject(new AppError("upstream_failure", "signer at 10.0.0.1")),
    series: 'broker_sign_duration_seconds_count{result="upstream_failure"} 1',
  },
  {
    name: "a defect as signing, and nothing of its text",
    sign: () => Promise.reject(new Error("x")),
    series: 'broker_sign_duration_seconds_count{result="internal"} 1',
  },
  {
    name: "what a human was waited for as an approval alone, however often that is told",
    sign: (_request, { onWaiting }) => {
      for (let time = 0; time < 3; time += 1) onWaiting?.("id");
      return Promise.resolve(GRANTED);
    },
    series: 'broker_approval_wait_seconds_count{result="not_granted"} 1',
  },
])("timeAuthority() counts $name", async ({ sign, series }) => {
  assert.deepEqual(await counted(sign), [series]);
});

Deno.test("timeAuthority() passes on who waits for what", async () => {
  const told: string[] = [];
  const sign: Authority["sign"] = (request, { onWaiting }) => {
    onWaiting?.(request.host);
    return Promise.resolve(GRANTED);
  };
  const authority = timeAuthority(
    { ...NOT_ASKED, sign },
    createTimings(createMetrics()),
  );
  const answer = await authority.sign(REQUEST, { signal: NEVER, onWaiting: (id) => told.push(id) });
  assert.deepEqual([told, answer], [["web01"], GRANTED]);
});
