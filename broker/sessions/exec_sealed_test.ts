import assert from "node:assert/strict";
import type { SignAnswer } from "../authority/authority.ts";
import { HOSTS, ISSUED_UPTIME, SERIAL } from "../testing/fake_authority.ts";
import { FakeLink } from "../testing/fake_link.ts";
import { printed } from "../testing/fake_runner.ts";
import { openedSession, SessionFixture } from "../testing/session_fixture.ts";
import { explainShimRefusal } from "./exec.ts";

/** A broker and a signer that seals web01 according to the current value of `host`. */
function sealable(host: { sealed: boolean; envelopes?: boolean; prefix?: string; waited?: boolean }) {
  const broker = new SessionFixture();
  let count = 0;
  broker.authority.answer = (request): SignAnswer => {
    count += 1;
    if (request.dry_run !== true) {
      const elevationPrefix = host.prefix ?? "";
      const serial = SERIAL - BigInt(broker.links.length);
      const shim = host.sealed ? { shim: "gateway-shim" } : {};
      return { ...ISSUED_UPTIME, serial, elevationPrefix, ...shim };
    }
    const envelope = host.envelopes ?? host.sealed ? { envelope: `SEALED${count}` } : {};
    const waited = host.waited === true ? { waited: true } : {};
    return { kind: "decided", decision: { allowed: true, matched_rule: "" }, ...envelope, ...waited };
  };
  return broker;
}

Deno.test("execInSession() sends a sealed host the unchanged envelope and records the command", async () => {
  const broker = sealable({ sealed: true, prefix: "sudo -n" });
  const id = await broker.open({ sudo: true });
  await broker.exec(id, { command: "id" });
  assert.deepEqual(broker.links[0]?.runs, ["SEALED2"]);
  assert.equal(broker.log.entries.at(-1)?.command, "id");
});

Deno.test("execInSession() holds a sealed command's stdin open if stop_on_disconnect is true", async () => {
  const broker = sealable({ sealed: true });
  const id = await broker.open();
  broker.authority.list = () => ({ web01: { ...HOSTS["web01"]!, stop_on_disconnect: true } });
  let isHeld: boolean | undefined;
  broker.links[0]!.answer = (_command, { stopsAtStdinEnd }) => {
    isHeld = stopsAtStdinEnd;
    return printed("");
  };
  await broker.exec(id);
  assert.deepEqual([isHeld, broker.links[0]?.runs], [true, ["SEALED2"]]);
});

Deno.test.each([
  { name: "before its host was sealed", sealed: true, words: "sealed", run: /^SEALED\d$/ },
  { name: "while its host was sealed", sealed: false, words: "not sealed", run: /^id$/ },
])("a session that was opened $name reconnects and closes its old connection", async (row) => {
  const host = { sealed: !row.sealed };
  const broker = sealable(host);
  const id = await broker.open();
  host.sealed = row.sealed;
  const result = await broker.exec(id, { command: "id" });
  assert.equal(result.serial, SERIAL - 1n);
  const [old, current] = broker.links;
  assert.deepEqual([old?.runs, old?.closed, current?.closed], [[], true, false]);
  assert.match(current?.runs.join() ?? "", row.run);
  assert.deepEqual(
    broker.log.entries.map((
      { outcome, serial, session_id, warning },
    ) => [outcome, serial, session_id, warning]),
    [
      ["session_open", SERIAL, id, ""],
      ["session_open", SERIAL - 1n, id, `reopened: the host is now ${row.words}`],
      ["session_exec", SERIAL - 1n, id, ""],
    ],
  );
  await broker.exec(id, { command: "id" });
  assert.equal(broker.links.length, 2, "once is enough");
  assert.equal(broker.registry.size, 1);
});

Deno.test("execInSession() discards an envelope that was issued before a reconnect", async () => {
  const host = { sealed: false };
  const broker = sealable(host);
  const id = await broker.open();
  host.sealed = true;
  await broker.exec(id, { command: "id" });
  const asked = broker.authority.requests.map(({ dry_run }) => dry_run === true ? "preflight" : "open");
  assert.deepEqual(asked, ["open", "preflight", "open", "preflight"]);
  assert.deepEqual(broker.links[1]?.runs, ["SEALED4"]);
});

Deno.test("concurrent commands share one reconnect; running commands end on the old connection", async () => {
  const host = { sealed: false };
  const broker = sealable(host);
  const id = await broker.open();
  const slow = Promise.withResolvers<ReturnType<typeof printed>>();
  broker.links[0]!.answer = () => slow.promise;
  const before = broker.exec(id, { command: "before" });
  await broker.clock.advance(0);
  host.sealed = true;
  await Promise.all([broker.exec(id), broker.exec(id), broker.exec(id)]);
  assert.deepEqual([broker.links.length, broker.links[0]?.closed], [2, false]);
  slow.resolve(printed("late\n"));
  assert.equal((await before).serial, SERIAL);
  assert.equal(broker.links[0]?.closed, true);
  await broker.close(id);
  assert.equal(broker.links[1]?.closed, true);
});

Deno.test("closing a session also closes connections from before a reconnect", async () => {
  const host = { sealed: false };
  const broker = sealable(host);
  const id = await broker.open();
  broker.links[0]!.answer = () => new Promise(() => {});
  const before = broker.exec(id);
  await broker.clock.advance(0);
  host.sealed = true;
  await broker.exec(id);
  await broker.close(id);
  await assert.rejects(before);
  assert.deepEqual(broker.links.map(({ closed }) => closed), [true, true]);
});

Deno.test("closing a session during a reconnect leaves no connection open", async () => {
  const host = { sealed: false };
  const broker = sealable(host);
  const id = await broker.open();
  host.sealed = true;
  const connected = Promise.withResolvers<FakeLink>();
  broker.connect = () => connected.promise;
  const running = broker.exec(id);
  const refused = assert.rejects(running);
  while (broker.connects.length < 2) await broker.clock.advance(0);
  await broker.close(id);
  connected.resolve(new FakeLink());
  await refused;
  await broker.clock.advance(0);
  assert.deepEqual(broker.links.map(({ closed }) => closed), [true, true]);
});

Deno.test.each([
  {
    name: "where the signer's envelopes are lost on the way",
    host: { sealed: true, envelopes: false },
    message: 'session execution: "web01" is sealed, but the signer\'s answer has no envelope; upgrade ' +
      "a control plane that drops envelopes",
  },
  {
    name: "where certificates are not sealed and commands are",
    host: { sealed: false, envelopes: true },
    message: 'session execution: the signer sent an envelope for "web01", which is not sealed',
  },
  {
    name: "that a human has approved for a session",
    host: { sealed: true, envelopes: false, waited: true },
    message: "the host is sealed and its sessions do not run approved commands; use ssh_execute for " +
      "approval-gated commands",
  },
])("execInSession() rejects a command $name and keeps the session", async ({ host, message }) => {
  const broker = sealable(host);
  const id = await broker.open();
  await assert.rejects(broker.exec(id, { command: "id" }), { message });
  assert.deepEqual(broker.links.flatMap(({ runs }) => runs), []);
  assert.equal(broker.outcomes.at(-1), "error");
  assert.equal(broker.registry.size, 1);
});

Deno.test("a failed reconnect runs nothing and keeps the session usable", async () => {
  const host = { sealed: false };
  const broker = sealable(host);
  const id = await broker.open();
  host.sealed = true;
  broker.connect = () => Promise.reject(new Error("no route"));
  await assert.rejects(broker.exec(id, { command: "id" }), /no route/);
  assert.deepEqual(broker.links.map(({ runs, closed }) => [runs, closed]), [[[], false]]);
  broker.connect = () => new FakeLink();
  broker.log.failing = true;
  await assert.rejects(broker.exec(id, { command: "id" }), { code: "audit_unavailable" });
  assert.deepEqual(broker.links[1]?.closed, true, "an unrecorded certificate is not used");
  broker.log.failing = false;
  assert.equal((await broker.exec(id, { command: "id" })).exitCode, 0);
});

Deno.test("execInSession() returns and records a warning if the shim rejects the command", async () => {
  const broker = sealable({ sealed: true });
  const id = await broker.open();
  const stderr = "gateway-shim: refused: the signature is not of a pinned key\n";
  broker.links[0]!.answer = () => printed("", { stderr, exitCode: 126 });
  const { exitCode, warnings } = await broker.exec(id, { command: "id" });
  assert.equal(exitCode, 126);
  const warning =
    "the shim of the sealed host rejected the command, which did not run (a command can print the same text): " +
    '"the signature is not of a pinned key"; ask an operator to install the signer\'s key (broker-ctl envelope pubkey)';
  assert.deepEqual(warnings, [warning]);
  assert.equal(broker.log.entries.at(-1)?.warning, warning);
});

Deno.test("execInSession() adds no shim warning on a host that is not sealed", async () => {
  const { broker, id } = await openedSession();
  broker.links[0]!.answer = () => printed("", { stderr: "gateway-shim: refused: x\n", exitCode: 126 });
  assert.deepEqual((await broker.exec(id)).warnings, []);
});

Deno.test.each([
  ["gateway-shim: refused: envelope already used (replay)\n", /if the command did not run, send it again/],
  ["gateway-shim: refused: the envelope has expired", /clocks of signer and host/],
  ["other-shim: refused: clock skew\n", /clocks of signer and host/],
  ["gateway-shim: refused: cannot record the use in /var/lib/x\n", /store of used envelopes/],
  ["gateway-shim: refused: no key in /etc/gateway/envelope_signers\n", /envelope pubkey/],
  ["gateway-shim: refused: the envelope is for another host\n", /name different hosts/],
  [
    "gateway-shim: refused: the envelope is malformed (is the broker too old to pass envelopes on?)\n",
    /envelope_domain/,
  ],
  ["bash: warning: setlocale\ngateway-shim: refused: x\n", /can print the same text\): "x"/],
])("explainShimRefusal() suggests a fix for %s", (says, remedy) => {
  assert.match(
    explainShimRefusal(printed("", { stderr: says, exitCode: 126 }), "gateway-shim") ?? "",
    remedy,
  );
});

Deno.test("explainShimRefusal() reports a missing shim", () => {
  const missing = printed("", { stderr: "sh: 1: gateway-shim: not found\n", exitCode: 127 });
  assert.match(
    explainShimRefusal(missing, "gateway-shim") ?? "",
    /did not find "gateway-shim", so the command did not run \(a command can print the same text\)/,
  );
});

Deno.test.each([
  ["another exit code", printed("", { stderr: "gateway-shim: refused: x\n", exitCode: 1 })],
  ["output", printed("out", { stderr: "gateway-shim: refused: x\n", exitCode: 126 })],
  ["other words", printed("", { stderr: "sh: 1: ./x: Permission denied\n", exitCode: 126 })],
  ["another program that is missing", printed("", { stderr: "sh: 1: foo: not found", exitCode: 127 })],
  ["words in the middle", printed("", { stderr: "a: refused: x\nmore\n", exitCode: 126 })],
])("explainShimRefusal() returns nothing for %s", (_name, result) => {
  assert.equal(explainShimRefusal(result, "gateway-shim"), undefined);
});

Deno.test("explainShimRefusal() escapes control characters and limits the length of the host's text", () => {
  const stderr = `gateway-shim: refused: \x1b[2J${"x".repeat(1000)}\n`;
  const text = explainShimRefusal(printed("", { stderr, exitCode: 126 }), "gateway-shim") ?? "";
  assert.equal(text.includes("\x1b"), false);
  assert.ok(text.length < 600);
});
