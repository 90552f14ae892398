import assert from "node:assert/strict";
import { BrokerFixture } from "../testing/broker_fixture.ts";
import { ISSUED_UPTIME } from "../testing/fake_authority.ts";

const consent = { via: "elicitation", rule: "require_approval:^reboot" } as const;

Deno.test("execute() records a human's consent before it requests the certificate (A14)", async () => {
  const broker = new BrokerFixture();
  broker.authority.answer = (request) => {
    assert.equal(request.approved, true);
    assert.deepEqual(broker.log.entries.map(({ outcome }) => outcome), ["approval_granted"]);
    return ISSUED_UPTIME;
  };
  await broker.run({ consent });
  const facts = broker.log.entries.map(({ outcome, host, policy_rule, approved_via }) =>
    [outcome, host, policy_rule, approved_via].join(" ")
  );
  assert.deepEqual(facts, [
    "approval_granted 10.0.0.1:22 require_approval:^reboot elicitation",
    "executed 10.0.0.1:22 allow:^uptime$ elicitation",
  ]);
});

Deno.test("execute() never sends `approved` without a human's consent", async () => {
  const broker = new BrokerFixture();
  await broker.run();
  assert.ok(!("approved" in (broker.authority.requests[0] ?? {})));
});

Deno.test("execute() reports a pending approval as progress", async () => {
  const broker = new BrokerFixture();
  const told: string[] = [];
  broker.authority.answer = (_request, _signal, { onWaiting }) => {
    onWaiting?.("ab12");
    return ISSUED_UPTIME;
  };
  await broker.run({ onProgress: (text) => told.push(text) });
  assert.deepEqual(told, ["waiting for approval ab12"]);
});

Deno.test("execute() uses the updated host after an approval wait (K15)", async () => {
  const broker = new BrokerFixture();
  const moved = { addr: "10.0.0.9:22", user: "deploy2", host_key: "ssh-ed25519 BBBB" };
  broker.authority.answer = () => {
    broker.authority.list = () => ({ web01: moved });
    return { ...ISSUED_UPTIME, waited: true };
  };
  await broker.run();
  const [hop] = broker.runner.runs[0]?.hops ?? [];
  assert.equal(hop?.addr, "10.0.0.9:22");
  assert.equal(hop?.hostKey, "ssh-ed25519 BBBB");
  assert.equal(hop?.user, "deploy2");
  assert.equal(broker.log.entries[0]?.host, "10.0.0.9:22");
});

Deno.test.each([
  { name: "is no longer there", hosts: {}, code: "unknown_host" },
  {
    name: "has come to stand behind a bastion that is not there",
    hosts: { web01: { addr: "10.0.0.1:22", user: "u", host_key: "k", jump: "bastion01" } },
    code: "denied",
  },
])("execute() does not use a host that $name after an approval wait (K15)", async ({ hosts, code }) => {
  const broker = new BrokerFixture();
  broker.authority.answer = () => {
    broker.authority.list = () => hosts;
    return { ...ISSUED_UPTIME, waited: true };
  };
  await assert.rejects(broker.run(), { code });
  assert.deepEqual(broker.runner.runs, []);
});
