import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import type { SignAnswer } from "../authority/authority.ts";
import { ASKED, BrokerFixture, MAX_TTL_SECONDS } from "../testing/broker_fixture.ts";
import { HOSTS, SERIAL } from "../testing/fake_authority.ts";
import { hangUntilAborted, printed, sent } from "../testing/fake_runner.ts";

Deno.test("execute() runs the command with its certificate and returns the output", async () => {
  const broker = new BrokerFixture();
  broker.runner.answer = () => printed("out\n", { stderr: "err\n", exitCode: 3 });
  assert.deepEqual(await broker.run(), {
    kind: "executed",
    stdout: sent("out\n"),
    stderr: sent("err\n"),
    exitCode: 3,
    serial: SERIAL,
    warnings: [],
    host: HOSTS["web01"],
  });
  const [run] = broker.runner.runs;
  assert.deepEqual(run?.hops.map(({ key: _key, ...hop }) => hop), [{
    name: "web01",
    addr: "10.0.0.1:22",
    hostKey: "ssh-ed25519 AAAA",
    user: "deploy",
    certificate: "ssh-ed25519-cert-v01@openssh.com CCCC",
  }]);
  assert.equal(run?.command, "uptime");
});

Deno.test("execute() requests a certificate only for this command, key and end user", async () => {
  const broker = new BrokerFixture();
  await broker.run();
  assert.deepEqual(broker.authority.requests, [{
    host: "web01",
    role: "target",
    purpose: "oneshot",
    command: "uptime",
    ttl_seconds: MAX_TTL_SECONDS,
    public_key: "ssh-ed25519 EEEE",
    end_user: "agent-1",
    end_user_groups: null,
  }]);
});

Deno.test("execute() forwards sudo, pty and groups, and keeps an empty group list (I3)", async () => {
  const broker = new BrokerFixture();
  await broker.run({ sudo: true, sudoUser: "app", pty: true, callerGroups: [] });
  const [request] = broker.authority.requests;
  assert.equal(request?.sudo, true);
  assert.equal(request?.sudo_user, "app");
  assert.equal(request?.pty, true);
  assert.deepEqual(request?.end_user_groups, []);
  assert.equal(broker.runner.runs[0]?.pty, true);
  assert.equal(broker.runner.runs[0]?.command, "uptime", "elevation is the certificate's, not the broker's");
});

Deno.test.each([
  { name: "the maximum if the request has none", asked: 0, sent: MAX_TTL_SECONDS },
  { name: "the maximum when a negative one is", asked: -1, sent: MAX_TTL_SECONDS },
  { name: "the maximum when more is", asked: MAX_TTL_SECONDS + 1, sent: MAX_TTL_SECONDS },
  { name: "a requested lifetime below the maximum", asked: 60, sent: 60 },
])("execute() requests a validity of $name", async ({ asked, sent }) => {
  const broker = new BrokerFixture();
  await broker.run({ ttlSeconds: asked });
  assert.equal(broker.authority.requests[0]?.ttl_seconds, sent);
});

Deno.test("execute() does not use a host after its removal (K15)", async () => {
  const broker = new BrokerFixture();
  await broker.run();
  broker.authority.list = () => ({});
  await assert.rejects(broker.run(), { message: 'unknown host: "web01"' });
  assert.equal(broker.runner.runs.length, 1);
});

Deno.test.each([
  {
    name: "an unknown host",
    request: { host: 'no"such' },
    error: { code: "unknown_host", message: String.raw`unknown host: "no\"such"` },
    record: { outcome: "denied", host: 'no"such', host_name: 'no"such', err: "unknown host" },
  },
  {
    name: "a host named like a member of every object",
    request: { host: "constructor" },
    error: { code: "unknown_host", message: 'unknown host: "constructor"' },
    record: { outcome: "denied", host: "constructor", host_name: "constructor", err: "unknown host" },
  },
  {
    name: "a host behind an unknown bastion",
    request: { host: "db01" },
    error: { code: "denied", message: 'unknown host in chain: "bastion01"' },
    record: {
      outcome: "denied",
      host: "10.0.0.2:22",
      host_name: "db01",
      addr: "10.0.0.2:22",
      user: "dba",
      err: 'unknown host in chain: "bastion01"',
    },
  },
])("execute() rejects $name before it requests a certificate", async ({ request, error, record }) => {
  const broker = new BrokerFixture();
  await assert.rejects(broker.run(request), error);
  assert.deepEqual(broker.log.entries, [{ ...ASKED, ...record }]);
  assert.deepEqual(broker.authority.requests, []);
  assert.deepEqual(broker.runner.runs, []);
});

Deno.test("execute() rejects an empty command on a known host without a record", async () => {
  const broker = new BrokerFixture();
  await assert.rejects(broker.run({ command: "" }), {
    code: "invalid_request",
    message: "bad request: command is required",
  });
  assert.deepEqual(broker.log.entries, []);
});

Deno.test("execute() fails closed if the host list cannot be refreshed", async () => {
  const broker = new BrokerFixture();
  await broker.hosts.refresh();
  broker.authority.list = () => {
    throw new AppError("upstream_failure", "signing service unavailable (503): maintenance");
  };
  const message = "upstream failure: refreshing host list: signing service unavailable (503): maintenance";
  await assert.rejects(broker.run(), { code: "upstream_failure", message });
  assert.deepEqual(broker.log.entries.map(({ outcome, err, host }) => ({ outcome, err, host })), [
    { outcome: "error", err: message, host: "web01" },
  ]);
});

Deno.test.each<{ name: string; answer: SignAnswer | AppError; code: string; message: string }>([
  {
    name: "a denial",
    answer: { kind: "rejected", status: 403, detail: "command denied by policy" },
    code: "denied",
    message: 'signing cert for "web01": signing rejected (403): command denied by policy',
  },
  {
    name: "a rate limit",
    answer: { kind: "rejected", status: 429, detail: "slow down" },
    code: "denied",
    message: 'signing cert for "web01": signing rejected (429): slow down',
  },
  {
    name: "an approval without a configured wait",
    answer: { kind: "undecided", approvalId: "ab12", why: "not_configured" },
    code: "approval_required",
    message:
      'signing cert for "web01": operation requires human approval (id ab12); client is not configured to wait',
  },
  {
    name: "an approval that is not granted in time",
    answer: { kind: "undecided", approvalId: "ab12", why: "deadline" },
    code: "approval_required",
    message: 'signing cert for "web01": approval not granted within deadline (id ab12)',
  },
  {
    name: "an approval beyond the limit of waiting requests",
    answer: { kind: "undecided", approvalId: "ab12", why: "too_many" },
    code: "approval_required",
    message: 'signing cert for "web01": operation requires human approval (id ab12); ' +
      "too many requests wait for approval already",
  },
  {
    name: "a denied approval",
    answer: { kind: "not_granted", status: 403, detail: "approval denied" },
    code: "denied",
    message: 'signing cert for "web01": approval not granted (403): approval denied',
  },
  {
    name: "an unreachable signer",
    answer: new AppError(
      "upstream_failure",
      "signing service unavailable: contacting signing service failed",
    ),
    code: "upstream_failure",
    message: 'upstream failure: signing cert for "web01": signing service unavailable: ' +
      "contacting signing service failed",
  },
])("execute() reports and records $name and opens no connection", async ({ answer, code, message }) => {
  const broker = new BrokerFixture();
  broker.authority.answer = () => {
    if (answer instanceof AppError) throw answer;
    return answer;
  };
  await assert.rejects(broker.run(), { code, message });
  assert.deepEqual(broker.log.entries, [{
    ...ASKED,
    host: "10.0.0.1:22",
    addr: "10.0.0.1:22",
    user: "deploy",
    outcome: "error",
    err: message,
  }]);
  assert.deepEqual(broker.runner.runs, []);
});

Deno.test.each([
  { name: "holds", flag: true, pty: false, held: true },
  { name: "does not hold, with a terminal,", flag: true, pty: true, held: false },
  { name: "does not hold", flag: false, pty: false, held: false },
])("execute() $name the stdin open if stop_on_disconnect is $flag (K16)", async ({ flag, pty, held }) => {
  const broker = new BrokerFixture();
  broker.authority.list = () => ({
    web01: { addr: "10.0.0.1:22", user: "u", host_key: "k", stop_on_disconnect: flag },
  });
  await broker.run({ pty });
  assert.equal(broker.runner.runs[0]?.stopsAtStdinEnd, held);
});

Deno.test("execute() records a failed connection with the serial of the certificate", async () => {
  const broker = new BrokerFixture();
  broker.runner.answer = () => {
    throw new AppError("upstream_failure", "connection: host key mismatch");
  };
  const message = "upstream failure: connection: host key mismatch";
  await assert.rejects(broker.run(), { code: "upstream_failure", message });
  const [entry] = broker.log.entries;
  assert.equal(entry?.outcome, "error");
  assert.equal(entry?.serial, SERIAL);
  assert.equal(entry?.err, message);
});

Deno.test("execute() records the command without its output", async () => {
  const broker = new BrokerFixture();
  broker.runner.answer = () => printed("secret output", { exitCode: 2 });
  await broker.run({ sudo: true, pty: true });
  assert.deepEqual(broker.log.entries, [{
    caller: "agent-1",
    host: "10.0.0.1:22",
    host_name: "web01",
    addr: "10.0.0.1:22",
    user: "deploy",
    command: "uptime",
    elevation: "sudo:root",
    pty: true,
    dry_run: false,
    outcome: "executed",
    serial: SERIAL,
    exit_code: 2,
    policy_rule: "allow:^uptime$",
    warning: "",
  }]);
  assert.deepEqual(broker.counted, ["executed"]);
});

Deno.test("execute() withholds the result in closed mode while the audit log fails (L11)", async () => {
  const broker = new BrokerFixture();
  broker.log.failing = true;
  await assert.rejects(broker.run(), { code: "audit_unavailable", message: "audit unavailable" });
  assert.equal(broker.blocked, 1);
  broker.log.failing = false;
  assert.equal((await broker.run()).kind, "executed");
});

Deno.test("execute() returns the result in open mode if the audit log fails", async () => {
  const broker = new BrokerFixture({ failMode: "open" });
  broker.log.failing = true;
  assert.equal((await broker.run()).kind, "executed");
  assert.equal(broker.blocked, 0);
});

Deno.test("execute() reports a rejection even if the audit log fails", async () => {
  const broker = new BrokerFixture();
  broker.log.failing = true;
  await assert.rejects(broker.run({ host: "nope" }), { code: "unknown_host" });
  assert.equal(broker.blocked, 0);
});

Deno.test.each([
  ["an allowed command", { allowed: true, matched_rule: "allow:x" }, "dry_run_allowed"],
  ["a denied command", { allowed: false, matched_rule: "deny:x", reason: "no" }, "dry_run_denied"],
])("execute() previews %s without connecting (I21)", async (_name, decision, outcome) => {
  const broker = new BrokerFixture();
  broker.authority.answer = () => ({ kind: "decided", decision });
  assert.deepEqual(await broker.run({ dryRun: true }), { kind: "decided", decision });
  assert.equal(broker.authority.requests[0]?.dry_run, true);
  assert.deepEqual(broker.runner.runs, []);
  const [entry] = broker.log.entries;
  assert.equal(entry?.outcome, outcome);
  assert.equal(entry?.dry_run, true);
  assert.equal(entry?.policy_rule, decision.matched_rule);
});

Deno.test("execute() returns a preview even if the audit log fails", async () => {
  const broker = new BrokerFixture();
  broker.log.failing = true;
  assert.equal((await broker.run({ dryRun: true })).kind, "decided");
});

Deno.test.each([
  {
    name: "while the hosts are refreshed",
    hang: (broker: BrokerFixture) => broker.authority.list = () => new Promise(() => {}),
  },
  {
    name: "while the certificate is signed",
    hang: (broker: BrokerFixture) =>
      broker.authority.answer = (_request, signal) =>
        new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  },
  {
    name: "while the command runs",
    hang: (broker: BrokerFixture) => broker.runner.answer = hangUntilAborted,
  },
])("execute() ends and records the request if it is canceled $name", async ({ hang }) => {
  const broker = new BrokerFixture();
  hang(broker);
  const canceled = new AbortController();
  const running = broker.run({}, canceled.signal);
  await settle();
  canceled.abort(new Error("client has gone"));
  await assert.rejects(running, { code: "canceled", message: "canceled" });
  assert.deepEqual(broker.log.entries.map(({ outcome, err }) => ({ outcome, err })), [
    { outcome: "error", err: "canceled" },
  ]);
});

/** Runs all pending continuations that do not wait for I/O. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}
