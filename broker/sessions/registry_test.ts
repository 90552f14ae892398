import assert from "node:assert/strict";
import type { Recorder } from "./recorder.ts";
import { printed, sent } from "../testing/fake_runner.ts";
import { CALLER, openedSession, SessionFixture } from "../testing/session_fixture.ts";
import type { SignAnswer } from "../authority/authority.ts";
import { CHAINED_HOSTS, HOSTS, ISSUED_UPTIME, SERIAL } from "../testing/fake_authority.ts";
import { FakeLink } from "../testing/fake_link.ts";

async function withReaper(test: (broker: SessionFixture) => Promise<void>): Promise<void> {
  const broker = new SessionFixture();
  const stop = new AbortController();
  const reaping = broker.registry.reapUntil(stop.signal);
  await test(broker);
  stop.abort();
  await reaping;
}

Deno.test("a session without commands is closed after the idle timeout", () =>
  withReaper(async (broker) => {
    const id = await broker.open();
    await broker.clock.advance(299_000);
    assert.equal(broker.registry.size, 1);
    await broker.clock.advance(31_000);
    assert.deepEqual([broker.registry.size, broker.links[0]?.closed], [0, true]);
    const entry = broker.log.entries.at(-1);
    assert.deepEqual([entry?.outcome, entry?.err, entry?.session_id], [
      "session_close",
      "reaped (idle/lifetime)",
      id,
    ]);
    await assert.rejects(broker.exec(id), { message: `unknown or expired session: "${id}"` });
  }));

Deno.test("each command restarts the idle time at its start and at its end", () =>
  withReaper(async (broker) => {
    const id = await broker.open();
    await broker.clock.advance(280_000);
    broker.links[0]!.answer = async () => {
      await broker.clock.advance(280_000);
      return printed("");
    };
    await broker.exec(id);
    await broker.clock.advance(280_000);
    assert.equal(broker.registry.size, 1);
  }));

Deno.test("a session is closed at its maximum age even if it is used regularly", () =>
  withReaper(async (broker) => {
    const id = await broker.open();
    for (let used = 0; used < 1700; used += 100) {
      await broker.clock.advance(100_000);
      await broker.exec(id);
    }
    assert.equal(broker.registry.size, 1);
    await broker.clock.advance(130_000);
    assert.equal(broker.registry.size, 0);
  }));

Deno.test("a busy session is not closed for idleness or age", () =>
  withReaper(async (broker) => {
    const id = await broker.open();
    const hold = Promise.withResolvers<void>();
    broker.links[0]!.answer = () => hold.promise.then(() => printed("done"));
    const running = broker.exec(id);
    await broker.clock.advance(4_000_000);
    assert.equal(broker.registry.size, 1);
    hold.resolve();
    assert.deepEqual((await running).stdout, sent("done"));
    await broker.clock.advance(30_000);
    assert.equal(broker.registry.size, 0);
  }));

Deno.test("a session above its maximum age rejects new commands while a command runs (K10)", () =>
  withReaper(async (broker) => {
    const id = await broker.open();
    const hold = Promise.withResolvers<void>();
    broker.links[0]!.answer = () => hold.promise.then(() => printed("done"));
    const running = broker.exec(id);
    await broker.clock.advance(1_800_000);
    await assert.rejects(broker.exec(id), {
      code: "not_found",
      message: `unknown or expired session: "${id}"`,
    });
    hold.resolve();
    assert.deepEqual((await running).stdout, sent("done"));
    await broker.clock.advance(30_000);
    assert.equal(broker.registry.size, 0);
  }));

Deno.test("a session above its maximum age can still be closed by its owner", async () => {
  const { broker, id } = await openedSession();
  await broker.clock.advance(1_900_000);
  await broker.close(id);
  assert.equal(broker.registry.size, 0);
});

Deno.test("an expired certificate does not close a session", () =>
  withReaper(async (broker) => {
    const id = await broker.open({ ttlSeconds: 60 });
    await broker.clock.advance(200_000);
    assert.equal((await broker.exec(id)).exitCode, 0);
  }));

Deno.test("closing all sessions records each one and the digest of its recording", async () => {
  const broker = new SessionFixture();
  broker.startRecording = () =>
    Promise.resolve(
      { close: () => Promise.resolve({ sha256: "abc", bytes: 1, complete: true }) } as Recorder,
    );
  await broker.open({ mode: "shell" });
  await broker.open();
  await broker.registry.closeAll();
  const closed = broker.log.entries.filter(({ outcome }) => outcome === "session_close");
  assert.deepEqual(closed.map(({ body_sha256 }) => body_sha256).toSorted(), ["abc", undefined]);
  assert.ok(broker.links.every((link) => link.closed));
  assert.equal(broker.registry.size, 0);
});

Deno.test.each([
  ["is whole", "abc", true, ""],
  ["has gaps", "abc", false, "the recording is not complete"],
  ["could not be closed", undefined, false, "the recording could not be closed"],
])("the end record of a session reports that its recording %s", async (_name, sha256, complete, warning) => {
  const broker = new SessionFixture();
  const close = () => Promise.resolve({ sha256, bytes: 1, complete });
  broker.startRecording = () => Promise.resolve({ close } as Recorder);
  await broker.close(await broker.open({ mode: "shell" }));
  const entry = broker.log.entries.at(-1);
  assert.deepEqual([entry?.warning, entry?.body_sha256], [warning, sha256]);
});

Deno.test("the recording's digest is recorded even if the connection fails to close", async () => {
  const broker = new SessionFixture();
  broker.startRecording = () =>
    Promise.resolve(
      { close: () => Promise.resolve({ sha256: "abc", bytes: 1, complete: true }) } as Recorder,
    );
  const id = await broker.open({ mode: "pty" });
  broker.links[0]!.close = () => Promise.reject(new Error("no"));
  await broker.close(id);
  assert.equal(broker.log.entries.at(-1)?.body_sha256, "abc");
});

Deno.test("a session that is ended several times is recorded only once (K17)", async () => {
  const { broker, id } = await openedSession();
  const session = broker.registry.find(id, "alice", "");
  await Promise.all([
    broker.close(id),
    broker.registry.kill(() => true, "x"),
    broker.registry.end(session, { outcome: "session_close" }),
  ]);
  assert.equal(broker.log.entries.length, 2);
});

Deno.test("openSession() requests a session certificate and records the session", async () => {
  const { broker, id } = await openedSession({ bearerToken: "t", callerGroups: ["ops"] });
  assert.match(id, /^[0-9a-f]{24}$/);
  const [request] = broker.authority.requests;
  const { host, role, purpose, session_mode, end_user, end_user_groups, bearer_token } = request ?? {};
  assert.deepEqual(
    { host, role, purpose, session_mode, end_user, end_user_groups, bearer_token },
    {
      host: "web01",
      role: "target",
      purpose: "session",
      session_mode: "exec",
      end_user: CALLER,
      end_user_groups: ["ops"],
      bearer_token: "t",
    },
  );
  const [entry] = broker.log.entries;
  assert.deepEqual(
    [entry?.outcome, entry?.session_id, entry?.serial, entry?.command, entry?.host, entry?.user],
    ["session_open", id, SERIAL, "mode=exec", "10.0.0.1:22", "deploy"],
  );
  assert.equal(JSON.stringify(broker.log.entries, (_key, value) => String(value)).includes('"t"'), false);
});

Deno.test("openSession() sends the reason with each certificate request", async () => {
  const broker = new SessionFixture();
  broker.authority.list = () => CHAINED_HOSTS;
  await broker.open({ host: "db01", reason: "ticket 42" });
  assert.deepEqual(broker.authority.requests.map(({ reason }) => reason), ["ticket 42", "ticket 42"]);
});

Deno.test("openSession() sends the maximum session age for the target only", async () => {
  const broker = new SessionFixture();
  broker.authority.list = () => CHAINED_HOSTS;
  await broker.open({ host: "db01", mode: "shell" });
  assert.deepEqual(broker.authority.requests.map((each) => each.session_max_seconds), [undefined, 1800]);
});

Deno.test("openSession() requests a certificate for each bastion without the session mode", async () => {
  const broker = new SessionFixture();
  broker.authority.list = () => CHAINED_HOSTS;
  await broker.open({ host: "db01", mode: "shell" });
  const asked = broker.authority.requests.map(({ host, role, purpose, session_mode }) =>
    [host, role, purpose, session_mode].join(" ")
  );
  assert.deepEqual(asked, ["bastion01 bastion session ", "db01 target session shell"]);
  assert.deepEqual(broker.connects[0]?.hops.map(({ name }) => name), ["bastion01", "db01"]);
});

Deno.test("openSession() requests a terminal in mode pty, and elevation", async () => {
  const broker = new SessionFixture();
  broker.authority.answer = () => ({ ...ISSUED_UPTIME, elevationPrefix: "sudo -n -u db" });
  await broker.open({ mode: "pty", sudo: true, sudoUser: "db" });
  const { pty, sudo, sudo_user } = broker.authority.requests[0] ?? {};
  assert.deepEqual({ pty, sudo, sudo_user }, { pty: true, sudo: true, sudo_user: "db" });
  assert.equal(broker.connects[0]?.elevationPrefix, "sudo -n -u db");
  assert.deepEqual([broker.log.entries[0]?.elevation, broker.log.entries[0]?.pty], ["sudo:db", true]);
});

Deno.test.each<{ name: string; sudo: boolean; elevationPrefix: string; message: RegExp }>([
  { name: "a missing elevation", sudo: true, elevationPrefix: "", message: /no elevation/ },
  {
    name: "an elevation that was not requested",
    sudo: false,
    elevationPrefix: "sudo -n",
    message: /an elevation that was not requested/,
  },
])("openSession() rejects a certificate with $name", async ({ sudo, elevationPrefix, message }) => {
  const broker = new SessionFixture();
  broker.authority.answer = () => ({ ...ISSUED_UPTIME, elevationPrefix });
  await assert.rejects(broker.open({ sudo }), { message });
  assert.deepEqual([broker.connects.length, broker.outcomes], [0, ["error"]]);
});

Deno.test.each<
  [name: string, request: Parameters<SessionFixture["open"]>[0], message: string, outcomes: readonly string[]]
>([
  ["an unknown host", { host: "nope" }, 'unknown host: "nope"', ["denied"]],
  ["an unknown mode", { mode: "tty" }, 'invalid mode: "tty" (exec|shell|pty)', []],
  ["a host whose bastion is missing", { host: "db01" }, 'unknown host in chain: "bastion01"', ["denied"]],
])("openSession() rejects %s and requests no certificate", async (_name, request, message, outcomes) => {
  const broker = new SessionFixture();
  await assert.rejects(broker.open(request), { message });
  assert.deepEqual([broker.outcomes, broker.authority.requests.length], [outcomes, 0]);
});

Deno.test.each<{ name: string; answer: SignAnswer; message: RegExp }>([
  {
    name: "a rejection by the signer",
    answer: { kind: "rejected", status: 403, detail: "no" },
    message: /^signing cert for "web01": signing rejected \(403\): no$/,
  },
  {
    name: "a required approval",
    answer: { kind: "needs_approval", rule: "r" },
    message: /^command on "web01" requires human approval \(r\)/,
  },
])("openSession() fails with $name and releases its slot", async ({ answer, message }) => {
  const broker = new SessionFixture();
  broker.authority.answer = () => answer;
  for (let round = 0; round < 25; round++) await assert.rejects(broker.open(), { message });
  assert.equal(broker.outcomes[0], "error");
});

Deno.test("a caller has at most 20 sessions, and the 21st is rejected without a signer request", async () => {
  const broker = new SessionFixture();
  for (let count = 0; count < 20; count++) await broker.open();
  const signed = broker.authority.requests.length;
  await assert.rejects(broker.open(), {
    code: "rate_limited",
    message: "per-caller session limit reached (20); close existing sessions before opening new ones",
  });
  assert.equal(broker.authority.requests.length, signed);
  assert.equal(broker.outcomes.at(-1), "denied");
  await broker.open({ caller: "bob" });
});

Deno.test("a broker has at most 200 sessions, including those that are opening", async () => {
  const broker = new SessionFixture();
  const gate = Promise.withResolvers<FakeLink>();
  broker.connect = () => gate.promise.then(() => new FakeLink());
  const opens = Array.from({ length: 220 }, (_, index) => broker.open({ caller: `user${index % 11}` }));
  const settled = Promise.allSettled(opens);
  gate.resolve(new FakeLink());
  const failed = (await settled).filter(({ status }) => status === "rejected");
  assert.deepEqual([failed.length, broker.registry.size], [20, 200]);
  assert.match(
    String(failed[0]?.status === "rejected" && failed[0].reason),
    /global session limit reached \(200\)/,
  );
});

Deno.test("a session whose opening cannot be recorded is closed and not returned", async () => {
  const broker = new SessionFixture();
  broker.connect = () => {
    broker.log.failing = true;
    return new FakeLink();
  };
  await assert.rejects(broker.open(), { code: "audit_unavailable", message: "audit unavailable" });
  assert.deepEqual([broker.links[0]?.closed, broker.registry.size], [true, 0]);
});

Deno.test.each([
  { mode: "shell", warning: "the session is not recorded" },
  { mode: "pty", warning: "the session is not recorded" },
  { mode: "exec", warning: "" },
])("a session of mode $mode without a recording has the warning '$warning'", async ({ mode, warning }) => {
  const broker = new SessionFixture();
  broker.startRecording = () => Promise.resolve(undefined);
  await broker.open({ mode });
  assert.equal(broker.log.entries[0]?.warning, warning);
});

Deno.test("openSession() closes the connection if a strict recording cannot be opened", async () => {
  const broker = new SessionFixture();
  broker.startRecording = () => Promise.reject(new Error("opening session recording: NotFound"));
  await assert.rejects(broker.open({ mode: "shell" }), { message: "opening session recording: NotFound" });
  assert.deepEqual([broker.links[0]?.closed, broker.outcomes], [true, ["error"]]);
});

Deno.test("openSession() keeps no session if it is canceled", async () => {
  const broker = new SessionFixture();
  const cancel = new AbortController();
  broker.authority.answer = (_request, signal) => {
    cancel.abort();
    return Promise.reject(signal.reason);
  };
  await assert.rejects(broker.open({}, cancel.signal), { code: "canceled" });
  assert.deepEqual([broker.outcomes, broker.registry.size], [["error"], 0]);
});

Deno.test("openSession() uses and records the host's new route after an approval wait (K15)", async () => {
  const broker = new SessionFixture();
  const { answer } = broker.authority;
  broker.authority.answer = () => {
    broker.authority.list = () => ({ web01: { ...HOSTS["web01"]!, addr: "10.0.0.9:22" } });
    return { ...ISSUED_UPTIME, waited: true };
  };
  const id = await broker.open();
  assert.equal(broker.connects[0]?.hops[0].addr, "10.0.0.9:22");
  assert.equal(broker.log.entries[0]?.host, "10.0.0.9:22");
  broker.authority.answer = answer;
  // Each command is rejected if the route differs from the one that the session stored.
  await broker.exec(id);
});
