import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { countEvents, createTimings, type Events, timeAuthority, trackRuns } from "./records.ts";
import { BrokerFixture, UPTIME } from "../testing/broker_fixture.ts";
import { hangUntilAborted } from "../testing/fake_runner.ts";
import { createMetrics } from "@gateway/shared/service/metrics";
import type { Authority, CertificateRequest, SignAnswer } from "../authority/authority.ts";
import { Semaphore } from "./semaphore.ts";
import { ask, type ObtainPorts, obtainRoute } from "./obtain.ts";

/** Records the order of events. */
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

Deno.test("countEvents() counts each event after it is recorded", async () => {
  const { happened, events } = fixture(false);
  await events.require({ outcome: "executed" });
  await events.bestEffort({ outcome: "denied" });
  assert.deepEqual(happened, ["append executed", "count executed", "append denied", "count denied"]);
});

Deno.test("countEvents() counts unrecorded events and still withholds their results", async () => {
  const { happened, events } = fixture(true);
  await assert.rejects(events.require({ outcome: "executed" }), { code: "audit_unavailable" });
  assert.deepEqual(happened, ["append executed", "count executed"]);
});

Deno.test("trackRuns() cancels running actions and waits for their records", async () => {
  const broker = new BrokerFixture();
  broker.runner.answer = hangUntilAborted;
  const runs = trackRuns();
  const execute = runs.track(broker.execute);
  const signal = new AbortController().signal;
  const running = [execute(UPTIME, signal), execute(UPTIME, signal)];
  const rejected = running.map((run) => assert.rejects(run, { code: "canceled" }));
  while (broker.runner.runs.length < 2) await Promise.resolve();
  await runs.cancel();
  assert.deepEqual(broker.log.entries.map(({ err }) => err), ["canceled", "canceled"]);
  await Promise.all(rejected);
});

Deno.test("trackRuns() cancels actions that start after cancel()", async () => {
  const broker = new BrokerFixture();
  const runs = trackRuns();
  const execute = runs.track(broker.execute);
  await runs.cancel();
  await assert.rejects(execute(UPTIME, new AbortController().signal), { code: "canceled" });
  assert.deepEqual(broker.runner.runs, []);
});

Deno.test("trackRuns() forwards results, errors and the caller's own signal", async () => {
  const broker = new BrokerFixture();
  const runs = trackRuns();
  const execute = runs.track(broker.execute);
  const { signal } = new AbortController();
  assert.equal((await execute(UPTIME, signal)).kind, "executed");
  await assert.rejects(execute({ ...UPTIME, host: "nope" }, signal), { code: "unknown_host" });
  await assert.rejects(execute(UPTIME, AbortSignal.abort()), { code: "canceled" });
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

/** The metric series that one answer of an authority increments. */
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
    name: "an answer as signing with its kind",
    sign: () => Promise.resolve(REJECTED),
    series: 'broker_sign_duration_seconds_count{result="rejected"} 1',
  },
  {
    name: "an AppError as signing with its code",
    sign: () => Promise.reject(new AppError("upstream_failure", "signer at 10.0.0.1")),
    series: 'broker_sign_duration_seconds_count{result="upstream_failure"} 1',
  },
  {
    name: "an internal error as signing without its text",
    sign: () => Promise.reject(new Error("x")),
    series: 'broker_sign_duration_seconds_count{result="internal"} 1',
  },
  {
    name: "an approval wait once and only as an approval",
    sign: (_request, { onWaiting }) => {
      for (let time = 0; time < 3; time += 1) onWaiting?.("id");
      return Promise.resolve(GRANTED);
    },
    series: 'broker_approval_wait_seconds_count{result="not_granted"} 1',
  },
])("timeAuthority() counts $name", async ({ sign, series }) => {
  assert.deepEqual(await counted(sign), [series]);
});

Deno.test("timeAuthority() forwards the progress of waits", async () => {
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

/** Enters the semaphore and shows whether it had room. */
function enter(gate: Semaphore, size: number, signal = NEVER) {
  const entered = { has: false, leave: () => {}, failure: undefined as unknown };
  gate.enter(signal, { size }).then(
    (place) => Object.assign(entered, { has: true, leave: () => place[Symbol.dispose]() }),
    (error) => entered.failure = error instanceof AppError ? error.code : error,
  );
  return entered;
}

async function settle(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 0));
}

Deno.test("Semaphore admits requests that fit and queues the rest in order", async () => {
  const gate = new Semaphore(100);
  const entered = [60, 40, 50, 50, 1].map((size) => enter(gate, size));
  const states = () => entered.map(({ has }) => has);
  await settle();
  assert.deepEqual(states(), [true, true, false, false, false]);
  entered[1]?.leave();
  await settle();
  // The last request would fit, but the others have waited longer.
  assert.deepEqual(states(), [true, true, false, false, false]);
  entered[0]?.leave();
  await settle();
  assert.deepEqual(states(), [true, true, true, true, false]);
  entered[2]?.leave();
  await settle();
  assert.deepEqual(states(), [true, true, true, true, true]);
});

Deno.test("Semaphore admits a size above its capacity only alone", async () => {
  const gate = new Semaphore(100);
  const entered = [1, 1000, 1].map((size) => enter(gate, size));
  const states = () => entered.map(({ has }) => has);
  await settle();
  assert.deepEqual(states(), [true, false, false]);
  entered[0]?.leave();
  await settle();
  assert.deepEqual(states(), [true, true, false]);
  entered[1]?.leave();
  await settle();
  assert.deepEqual(states(), [true, true, true]);
});

Deno.test("Semaphore removes a canceled waiter and admits the next one", async () => {
  const gate = new Semaphore(100);
  const canceled = new AbortController();
  const first = enter(gate, 60);
  const second = enter(gate, 60, canceled.signal);
  const third = enter(gate, 40);
  await settle();
  canceled.abort();
  await settle();
  assert.deepEqual([first.has, second.has, second.failure, third.has], [true, false, "canceled", true]);
  const late = enter(gate, 1, canceled.signal);
  await settle();
  assert.equal(late.failure, "canceled");
});

Deno.test("Semaphore limits its queue and rejects tryEnter() while others wait", async () => {
  const gate = new Semaphore(2);
  using _first = gate.tryEnter();
  const two = enter(gate, 2);
  await settle();
  assert.equal(gate.tryEnter(), undefined);
  await assert.rejects(gate.enter(NEVER, { maxWaiting: 1, full: "no" }), {
    code: "rate_limited",
    message: "no",
  });
  assert.equal(two.has, false);
});

Deno.test("Semaphore reports when the last holder leaves", async () => {
  let emptied = 0;
  const gate = new Semaphore(2, () => emptied += 1);
  for (let time = 1; time <= 3; time++) {
    const [one, two] = [gate.tryEnter(), await gate.enter(NEVER)];
    one?.[Symbol.dispose]();
    assert.equal(emptied, time - 1);
    two[Symbol.dispose]();
    assert.equal(emptied, time);
  }
});

const { signal } = new AbortController();
const HOST = { addr: "10.0.0.1:22", user: "deploy", host_key: "k" };
const lost = new AppError("answer_lost", "The answer of the signer was lost");

/** An authority whose first answers are lost. */
function losing(count: number) {
  const asked: CertificateRequest[] = [];
  const answer = () => {
    if (asked.length <= count) throw lost;
    return { kind: "issued" as const, serial: 7n, decision: undefined, waited: false };
  };
  const authority = {
    async sign(request: CertificateRequest) {
      asked.push(request);
      await Promise.resolve();
      return { ...answer(), certificate: "c", elevationPrefix: "" };
    },
    async token(request: unknown) {
      asked.push(request as CertificateRequest);
      await Promise.resolve();
      return { ...answer(), token: "t" };
    },
  };
  let keys = 0;
  const createKey = () => ({ publicKeyLine: `key-${++keys}` });
  return {
    asked,
    ports: { authority: authority as unknown as Authority, createKey } as unknown as ObtainPorts,
  };
}

const bastion = { name: "jump01", role: "bastion", host: HOST } as const;
const target = { name: "web01", role: "target", host: HOST } as const;
const INTENT = {
  caller: "a",
  callerGroups: null,
  purpose: "oneshot",
  ttlSeconds: 60,
  target: { command: "id" },
} as const;

Deno.test("obtainRoute() requests a certificate again with a new key if the answer is lost", async () => {
  const { asked, ports } = losing(2);
  const obtained = await obtainRoute(ports, { route: [bastion, target], intent: INTENT }, { signal });
  assert.equal(obtained.kind, "issued");
  assert.deepEqual(asked.map(({ host, public_key }) => [host, public_key]), [
    ["jump01", "key-1"],
    ["jump01", "key-2"],
    ["jump01", "key-3"],
    ["web01", "key-4"],
  ]);
});

Deno.test("ask() requests a token again if the answer is lost", async () => {
  const { asked, ports } = losing(1);
  const request = { host: "prod", command: "get pods" } as never;
  const answer = await ask("token", (options) => ports.authority.token(request, options), { signal });
  assert.equal(answer.kind, "issued");
  assert.equal(asked.length, 2);
});

Deno.test("obtainRoute() fails after three lost answers", async () => {
  const { asked, ports } = losing(9);
  const obtaining = obtainRoute(ports, { route: [target], intent: INTENT }, { signal });
  await assert.rejects(obtaining, { code: "upstream_failure", message: /answer of the signer was lost/ });
  assert.equal(asked.length, 3);
});
