import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import type { HostInfo } from "@gateway/shared/wire";
import type { SignAnswer } from "../authority/authority.ts";
import { HOSTS, ISSUED_UPTIME, SERIAL } from "../testing/fake_authority.ts";
import { FakeLink } from "../testing/fake_link.ts";
import { SessionFixture } from "../testing/session_fixture.ts";

/** A broker whose signer issues no session certificate for web01 while `host.own` is true. */
function stepwise(host: { own: boolean; more?: Partial<HostInfo> } = { own: true }) {
  const broker = new SessionFixture();
  const { authority } = broker;
  authority.list = () => ({
    web01: { ...HOSTS["web01"]!, ...host.more, ...(host.own ? { unsealed_sessions: false } : {}) },
    bastion01: { addr: "10.0.0.9:22", user: "hop", host_key: "ssh-ed25519 CCCC" },
  });
  authority.answer = ({ purpose, role, dry_run }): SignAnswer => {
    if (host.own && purpose === "session") return { kind: "rejected", status: 403, detail: "no certificate" };
    if (dry_run === true) return { kind: "decided", decision: { allowed: true, matched_rule: "" } };
    const serial = SERIAL - BigInt(authority.requests.length);
    const decision = { allowed: true, matched_rule: role === "target" ? "allow:^id$" : "", warning: "odd" };
    return { ...ISSUED_UPTIME, serial, decision };
  };
  return broker;
}

Deno.test("where sessions get no certificate, each command of one runs with a certificate of its own", async () => {
  const broker = stepwise({ own: true, more: { stop_on_disconnect: true } });
  const opened = await broker.sessions.open(
    {
      caller: "alice",
      callerGroups: null,
      host: "web01",
      mode: "",
      ttlSeconds: 0,
      sudo: true,
      sudoUser: "app",
    },
    new AbortController().signal,
  );
  assert.equal(opened.serial, undefined);
  assert.deepEqual(broker.authority.requests, [], "there is no command to ask about");
  for (const command of ["id", "date"]) await broker.exec(opened.sessionId, { command });
  assert.deepEqual(
    broker.authority.requests.map(({ purpose, command, sudo, sudo_user, dry_run }) => [
      purpose,
      command,
      sudo,
      sudo_user,
      dry_run,
    ]),
    [["oneshot", "id", true, "app", undefined], ["oneshot", "date", true, "app", undefined]],
  );
  assert.deepEqual(broker.links.map(({ runs, closed }) => [runs, closed]), [[["id"], true], [
    ["date"],
    true,
  ]]);
  await broker.close(opened.sessionId);
  assert.deepEqual(
    broker.log.entries.map(({ outcome, serial, session_id, command, policy_rule, warning }) => [
      outcome,
      serial,
      session_id,
      command,
      policy_rule,
      warning,
    ]),
    [
      ["session_open", undefined, opened.sessionId, "mode=exec", undefined, ""],
      ["session_exec", SERIAL - 1n, opened.sessionId, "id", "allow:^id$", "odd"],
      ["session_exec", SERIAL - 2n, opened.sessionId, "date", "allow:^id$", "odd"],
      ["session_close", undefined, opened.sessionId, "mode=exec", undefined, undefined],
    ],
  );
});

Deno.test.each<{ name: string; answer: SignAnswer; outcome: string; error: RegExp }>([
  {
    name: "denied",
    answer: { kind: "rejected", status: 403, detail: "allowlist:no-match" },
    outcome: "session_exec_denied",
    error: /session command: signing cert for "web01": signing rejected \(403\): allowlist:no-match/,
  },
  {
    name: "waiting for a human",
    answer: { kind: "needs_approval", rule: "require_approval:^id" },
    outcome: "session_exec_denied",
    error: /requires human approval \(require_approval:\^id\); use ssh_execute/,
  },
])("a command that is $name does not run, and its session goes on", async ({ answer, outcome, error }) => {
  const broker = stepwise();
  const id = await broker.open();
  const usual = broker.authority.answer;
  broker.authority.answer = () => answer;
  await assert.rejects(broker.exec(id), error);
  assert.deepEqual([broker.links.length, broker.outcomes.at(-1)], [0, outcome]);
  broker.authority.answer = usual;
  assert.equal((await broker.exec(id)).exitCode, 0);
});

Deno.test("a command whose connection fails is recorded with its own serial", async () => {
  const broker = stepwise();
  const id = await broker.open();
  broker.connect = () => Promise.reject(new AppError("upstream_failure", "connection: refused"));
  await assert.rejects(broker.exec(id), /connection: refused/);
  const { outcome, serial, command } = broker.log.entries.at(-1)!;
  assert.deepEqual([outcome, serial, command], ["error", SERIAL - 1n, "uptime"]);
});

Deno.test("a session without a certificate can be killed by the serial of any of its commands, bastions' too", async () => {
  for (const [hops, serials] of [[false, [1n, 2n]], [true, [1n, 2n, 3n, 4n]]] as const) {
    const broker = stepwise({ own: true, more: hops ? { jump: "bastion01" } : {} });
    const id = await broker.open();
    await broker.exec(id);
    await broker.exec(id);
    const { info } = broker.registry.find(id, "alice", "");
    assert.deepEqual(info.otherSerials, serials.map((number) => SERIAL - number));
    assert.equal(info.serial, undefined);
  }
});

Deno.test("a command that runs when its session is killed ends with its connection", async () => {
  const broker = stepwise();
  const id = await broker.open();
  broker.connect = () => {
    const link = new FakeLink();
    link.answer = () => new Promise(() => {});
    return link;
  };
  const ended = assert.rejects(broker.exec(id), /has ended/);
  while (broker.links.length === 0) await broker.clock.advance(0);
  await broker.registry.kill(({ id: each }) => each === id, "frozen");
  await ended;
  assert.equal(broker.links.every(({ closed }) => closed), true);
});

Deno.test("a session follows its host: the connection that is locked to nothing is closed, and comes back", async () => {
  const host = { own: false };
  const broker = stepwise(host);
  const id = await broker.open();
  await broker.exec(id);
  host.own = true;
  await broker.exec(id);
  assert.deepEqual(broker.links.map(({ closed }) => closed), [true, true]);
  host.own = false;
  await broker.exec(id);
  assert.deepEqual(broker.links.map(({ closed }) => closed), [true, true, false]);
  assert.deepEqual(broker.outcomes, [
    ...["session_open", "session_exec", "session_exec"],
    ...["session_open", "session_exec"],
  ]);
});

Deno.test("a command does not run on another way to the host than that of its session", async () => {
  const host = { own: true, more: {} };
  const broker = stepwise(host);
  const id = await broker.open();
  host.more = { addr: "10.0.0.7:22" };
  await assert.rejects(broker.exec(id), /connectivity changed/);
  assert.deepEqual([broker.authority.requests.length, broker.links.length], [0, 0]);
});

Deno.test("a shell gets the signer's answer: it has no commands that could be certified", async () => {
  const broker = stepwise();
  await assert.rejects(broker.open({ mode: "shell" }), /rejected \(403\): no certificate/);
});
