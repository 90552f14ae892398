import assert from "node:assert/strict";
import type { SignAnswer } from "../authority/authority.ts";
import { HOSTS, SERIAL } from "../testing/fake_authority.ts";
import { FakeLink } from "../testing/fake_link.ts";
import { CALLER, SessionFixture } from "../testing/session_fixture.ts";

const issued = (more: Partial<Extract<SignAnswer, { kind: "issued" }>> = {}): SignAnswer => ({
  kind: "issued",
  certificate: "ssh-ed25519-cert-v01@openssh.com CCCC",
  serial: SERIAL,
  decision: undefined,
  elevationPrefix: "",
  waited: false,
  ...more,
});

Deno.test("openSession() asks for a session certificate and records the session", async () => {
  const broker = new SessionFixture();
  const id = await broker.open({ bearerToken: "t", callerGroups: ["ops"] });
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

Deno.test("openSession() tells whoever has to approve why, for each certificate", async () => {
  const broker = new SessionFixture();
  broker.authority.list = () => ({
    ...HOSTS,
    bastion01: { addr: "10.0.0.9:22", user: "jump", host_key: "k" },
  });
  await broker.open({ host: "db01", reason: "ticket 42" });
  assert.deepEqual(broker.authority.requests.map(({ reason }) => reason), ["ticket 42", "ticket 42"]);
});

Deno.test("openSession() tells whoever has to approve how long the session may live, for the target alone", async () => {
  const broker = new SessionFixture();
  broker.authority.list = () => ({
    ...HOSTS,
    bastion01: { addr: "10.0.0.9:22", user: "jump", host_key: "k" },
  });
  await broker.open({ host: "db01", mode: "shell" });
  assert.deepEqual(broker.authority.requests.map((each) => each.session_max_seconds), [undefined, 1800]);
});

Deno.test("openSession() gets a certificate for every bastion, none of which is told the mode", async () => {
  const broker = new SessionFixture();
  const bastion = { addr: "10.0.0.9:22", user: "jump", host_key: "k" };
  broker.authority.list = () => ({ ...HOSTS, bastion01: bastion });
  await broker.open({ host: "db01", mode: "shell" });
  const asked = broker.authority.requests.map(({ host, role, purpose, session_mode }) =>
    [host, role, purpose, session_mode].join(" ")
  );
  assert.deepEqual(asked, ["bastion01 bastion session ", "db01 target session shell"]);
  assert.deepEqual(broker.connects[0]?.hops.map(({ name }) => name), ["bastion01", "db01"]);
});

Deno.test("openSession() asks for a terminal in mode pty, and for elevation", async () => {
  const broker = new SessionFixture();
  broker.authority.answer = () => issued({ elevationPrefix: "sudo -n -u db" });
  await broker.open({ mode: "pty", sudo: true, sudoUser: "db" });
  const { pty, sudo, sudo_user } = broker.authority.requests[0] ?? {};
  assert.deepEqual({ pty, sudo, sudo_user }, { pty: true, sudo: true, sudo_user: "db" });
  assert.equal(broker.connects[0]?.elevationPrefix, "sudo -n -u db");
  assert.deepEqual([broker.log.entries[0]?.elevation, broker.log.entries[0]?.pty], ["sudo:db", true]);
});

Deno.test.each<{ name: string; sudo: boolean; elevationPrefix: string; message: RegExp }>([
  { name: "no elevation that was asked for", sudo: true, elevationPrefix: "", message: /no elevation/ },
  { name: "an elevation unasked", sudo: false, elevationPrefix: "sudo -n", message: /nobody asked for/ },
])("openSession() refuses a certificate with $name", async ({ sudo, elevationPrefix, message }) => {
  const broker = new SessionFixture();
  broker.authority.answer = () => issued({ elevationPrefix });
  await assert.rejects(broker.open({ sudo }), { message });
  assert.deepEqual([broker.connects.length, broker.outcomes], [0, ["error"]]);
});

Deno.test.each<
  [name: string, request: Parameters<SessionFixture["open"]>[0], message: string, outcomes: readonly string[]]
>([
  ["a host that there is not", { host: "nope" }, 'unknown host: "nope"', ["denied"]],
  ["a mode that there is not", { mode: "tty" }, 'invalid mode: "tty" (exec|shell|pty)', []],
  ["a host whose bastion is missing", { host: "db01" }, 'unknown host in chain: "bastion01"', ["denied"]],
])("openSession() refuses %s and asks for no certificate", async (_name, request, message, outcomes) => {
  const broker = new SessionFixture();
  await assert.rejects(broker.open(request), { message });
  assert.deepEqual([broker.outcomes, broker.authority.requests.length], [outcomes, 0]);
});

Deno.test.each<{ name: string; answer: SignAnswer; message: RegExp }>([
  {
    name: "the signer's refusal",
    answer: { kind: "rejected", status: 403, detail: "no" },
    message: /^signing cert for "web01": signing rejected \(403\): no$/,
  },
  {
    name: "a wanted approval",
    answer: { kind: "needs_approval", rule: "r" },
    message: /^command on "web01" requires human approval \(r\)/,
  },
])("openSession() fails with $name, and gives its place back", async ({ answer, message }) => {
  const broker = new SessionFixture();
  broker.authority.answer = () => answer;
  for (let round = 0; round < 25; round++) await assert.rejects(broker.open(), { message });
  assert.equal(broker.outcomes[0], "error");
});

Deno.test("a caller has at most 20 sessions, and the 21st is refused before anything is signed", async () => {
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

Deno.test("a broker has at most 200 sessions, those being opened included", async () => {
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

Deno.test("a caller that opens many sessions at once gets 20, and no more certificates than that", async () => {
  const broker = new SessionFixture();
  const opens = await Promise.allSettled(Array.from({ length: 25 }, () => broker.open()));
  assert.equal(opens.filter(({ status }) => status === "fulfilled").length, 20);
  assert.deepEqual([broker.registry.size, broker.authority.requests.length], [20, 20]);
});

Deno.test("a session that is closed makes room for another", async () => {
  const broker = new SessionFixture();
  const ids: string[] = [];
  for (let count = 0; count < 20; count++) ids.push(await broker.open());
  await broker.close(ids[0]!);
  await broker.open();
  await assert.rejects(broker.open());
});

Deno.test("a session whose opening can't be recorded is closed and not given out", async () => {
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
])("a session of mode $mode that goes unrecorded has the warning '$warning'", async ({ mode, warning }) => {
  const broker = new SessionFixture();
  broker.startRecording = () => Promise.resolve(undefined);
  await broker.open({ mode });
  assert.equal(broker.log.entries[0]?.warning, warning);
});

Deno.test("a recording that can't be opened in strict mode closes the connection", async () => {
  const broker = new SessionFixture();
  broker.startRecording = () => Promise.reject(new Error("opening session recording: NotFound"));
  await assert.rejects(broker.open({ mode: "shell" }), { message: "opening session recording: NotFound" });
  assert.deepEqual([broker.links[0]?.closed, broker.outcomes], [true, ["error"]]);
});

Deno.test("an opening that is canceled leaves nothing behind", async () => {
  const broker = new SessionFixture();
  const cancel = new AbortController();
  broker.authority.answer = (_request, signal) => {
    cancel.abort();
    return Promise.reject(signal.reason);
  };
  await assert.rejects(broker.open({}, cancel.signal), { code: "canceled" });
  assert.deepEqual([broker.outcomes, broker.registry.size], [["error"], 0]);
});

Deno.test("openSession() uses, records and remembers the way as it is after a wait for a human (K15)", async () => {
  const broker = new SessionFixture();
  const { answer } = broker.authority;
  broker.authority.answer = () => {
    broker.authority.list = () => ({ web01: { ...HOSTS["web01"]!, addr: "10.0.0.9:22" } });
    return issued({ waited: true });
  };
  const id = await broker.open();
  assert.equal(broker.connects[0]?.hops[0].addr, "10.0.0.9:22");
  assert.equal(broker.log.entries[0]?.host, "10.0.0.9:22");
  broker.authority.answer = answer;
  // Each command is refused when the way is not the one that the session remembers.
  await broker.exec(id);
});
