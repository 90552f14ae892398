import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import type { HostsResponse } from "@gateway/shared/wire";
import type { CertificateRequest, SignAnswer } from "../authority/authority.ts";
import { BrokerFixture, MAX_TTL_SECONDS } from "../testing/broker_fixture.ts";
import { SERIAL } from "../testing/fake_authority.ts";

const host = (name: string, jump?: string) => ({
  addr: `${name}.test:22`,
  user: `${name}-user`,
  host_key: `ssh-ed25519 ${name}`,
  ...(jump === undefined ? {} : { jump }),
});

const CHAIN: HostsResponse = { db: host("db", "inner"), inner: host("inner", "outer"), outer: host("outer") };

/** A broker whose authority names its certificates after their hosts. */
function chained(hosts: HostsResponse = CHAIN): BrokerFixture {
  const broker = new BrokerFixture();
  broker.authority.list = () => hosts;
  broker.authority.answer = issue;
  return broker;
}

function issue({ host, role }: CertificateRequest): SignAnswer {
  return {
    kind: "issued",
    certificate: `certificate for ${host}`,
    serial: role === "target" ? SERIAL : 1n,
    decision: { allowed: true },
    elevationPrefix: "",
    waited: false,
  };
}

Deno.test("execute() gets a certificate for each hop in the order of dialling, and connects after that", async () => {
  const broker = chained();
  broker.authority.answer = (request) => {
    assert.deepEqual(broker.runner.runs, []);
    return issue(request);
  };
  const result = await broker.run({ host: "db" });
  assert.equal(result.kind === "executed" && result.serial, SERIAL);
  assert.deepEqual(broker.authority.requests.map(({ host, role }) => `${role} ${host}`), [
    "bastion outer",
    "bastion inner",
    "target db",
  ]);
  assert.deepEqual(broker.runner.runs[0]?.hops.map(({ key: _key, ...hop }) => hop), [
    {
      name: "outer",
      addr: "outer.test:22",
      hostKey: "ssh-ed25519 outer",
      user: "outer-user",
      certificate: "certificate for outer",
    },
    {
      name: "inner",
      addr: "inner.test:22",
      hostKey: "ssh-ed25519 inner",
      user: "inner-user",
      certificate: "certificate for inner",
    },
    {
      name: "db",
      addr: "db.test:22",
      hostKey: "ssh-ed25519 db",
      user: "db-user",
      certificate: "certificate for db",
    },
  ]);
});

Deno.test("execute() uses a key of its own for every hop", async () => {
  const broker = chained();
  await broker.run({ host: "db" });
  assert.equal(new Set(broker.runner.runs[0]?.hops.map(({ key }) => key)).size, 3);
});

Deno.test("execute() asks a bastion's certificate for nothing but the way, for the same end user", async () => {
  const broker = chained();
  await broker.run({
    host: "db",
    sudo: true,
    sudoUser: "app",
    pty: true,
    ttlSeconds: 60,
    callerGroups: ["ops"],
    bearerToken: "secret",
    consent: { via: "elicitation", rule: "r" },
  });
  const [outer] = broker.authority.requests;
  assert.deepEqual(outer, {
    host: "outer",
    role: "bastion",
    purpose: "oneshot",
    ttl_seconds: 60,
    public_key: outer?.public_key,
    end_user: "agent-1",
    end_user_groups: ["ops"],
    bearer_token: "secret",
  });
  const { command, sudo, pty, approved, bearer_token } = broker.authority.requests[2] ?? {};
  assert.deepEqual([command, sudo, pty, approved, bearer_token], ["uptime", true, true, true, "secret"]);
});

Deno.test("execute() writes the token into no record", async () => {
  const broker = chained();
  await broker.run({ host: "db", bearerToken: "secret-token" });
  assert.ok(!JSON.stringify(broker.log.entries, (_key, value) => String(value)).includes("secret-token"));
});

Deno.test("execute() asks about the target alone in a dry run", async () => {
  const broker = chained();
  broker.authority.answer = () => ({ kind: "decided", decision: { allowed: true } });
  await broker.run({ host: "db", dryRun: true });
  assert.deepEqual(broker.authority.requests.map(({ host }) => host), ["db"]);
});

Deno.test.each<{ name: string; answer: SignAnswer; code: string; message: string }>([
  {
    name: "is denied",
    answer: { kind: "rejected", status: 403, detail: 'host "inner" is not allowed as a bastion' },
    code: "denied",
    message: 'signing cert for "inner": signing rejected (403): host "inner" is not allowed as a bastion',
  },
  {
    name: "needs an approval",
    answer: { kind: "needs_approval", rule: "r" },
    code: "approval_required",
    message: 'command on "inner" requires human approval (r); ' +
      "approve it in-chat (if enabled), via the control plane, or with broker-ctl",
  },
])("execute() goes no further when a bastion $name", async ({ answer, code, message }) => {
  const broker = chained();
  broker.authority.answer = (request) => request.host === "inner" ? answer : issue(request);
  await assert.rejects(broker.run({ host: "db" }), { code, message });
  assert.deepEqual(broker.authority.requests.map(({ host }) => host), ["outer", "inner"]);
  assert.deepEqual(broker.runner.runs, []);
  assert.deepEqual(broker.log.entries.map(({ outcome, err, host }) => [outcome, err, host]), [
    ["error", message, "db.test:22"],
  ]);
});

Deno.test.each([
  {
    name: "an unknown bastion",
    hosts: { db: host("db", "gone") },
    message: 'unknown host in chain: "gone"',
  },
  {
    name: "a circle of bastions",
    hosts: { db: host("db", "a"), a: host("a", "b"), b: host("b", "a") },
    message: 'bastion cycle at "a"',
  },
  {
    name: "a host that is its own bastion",
    hosts: { db: host("db", "db") },
    message: 'bastion cycle at "db"',
  },
  {
    name: "a host without an address",
    hosts: { db: { ...host("db"), addr: "" } },
    message: 'cannot connect to host "db": it has no addr',
    recorded: "",
  },
  {
    name: "a bastion without a host key",
    hosts: { db: host("db", "a"), a: { ...host("a"), host_key: "" } },
    message: 'cannot connect to host "a": it has no host_key',
  },
])(
  "execute() refuses $name before anything is signed",
  async ({ hosts, message, recorded = "db.test:22" }) => {
    const broker = chained(hosts);
    await assert.rejects(broker.run({ host: "db" }), { code: "denied", message });
    assert.deepEqual(broker.authority.requests, []);
    assert.deepEqual(broker.log.entries.map(({ outcome, err, host }) => [outcome, err, host]), [
      ["denied", message, recorded],
    ]);
  },
);

Deno.test("execute() gets new certificates for the bastions after a wait for a human (K15)", async () => {
  const broker = chained();
  broker.authority.answer = (request) => {
    if (request.role === "target") {
      broker.authority.list = () => ({ db: host("db", "other"), other: host("other") });
    }
    return { ...issue(request), waited: request.role === "target" };
  };
  await broker.run({ host: "db" });
  assert.deepEqual(broker.authority.requests.map(({ host }) => host), ["outer", "inner", "db", "other"]);
  assert.deepEqual(broker.runner.runs[0]?.hops.map(({ name }) => name), ["other", "db"]);
  const [request] = broker.authority.requests;
  assert.equal(request?.ttl_seconds, MAX_TTL_SECONDS);
});

Deno.test.each(["frozen", "denied"] as const)(
  "execute() tells a broker that is %s what the signer says of it",
  async (code) => {
    const broker = chained();
    broker.authority.list = () => {
      throw new AppError(code, "host list refused (403): caller is frozen");
    };
    const message = "refreshing host list: host list refused (403): caller is frozen";
    await assert.rejects(broker.run({ host: "db" }), { code, message });
    assert.deepEqual(broker.log.entries.map(({ outcome, err }) => [outcome, err]), [["error", message]]);
  },
);
