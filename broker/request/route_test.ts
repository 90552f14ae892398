import assert from "node:assert/strict";
import fc from "fast-check";
import type { HostInfo, HostsResponse } from "@gateway/shared/wire";
import { buildRoute, Inventory, routeSignature, targetOf } from "./route.ts";
import { FakeClock } from "@gateway/shared/testing";
import { AppError } from "@gateway/shared/errors";
import type { CertificateRequest, SignAnswer } from "../authority/authority.ts";
import { BrokerFixture, MAX_TTL_SECONDS } from "../testing/broker_fixture.ts";
import { ISSUED_UPTIME, SERIAL } from "../testing/fake_authority.ts";

const host = (name: string, jump?: string): HostInfo => ({
  addr: `${name}.internal:22`,
  user: "deploy",
  host_key: `ssh-ed25519 ${name}`,
  ...(jump === undefined ? {} : { jump }),
});

function hostsOf(jumps: Readonly<Record<string, string | undefined>>): ReadonlyMap<string, HostInfo> {
  return new Map(Object.entries(jumps).map(([name, jump]) => [name, host(name, jump)]));
}

Deno.test.each([
  { name: "a direct host", jumps: { web: undefined }, names: ["web"] },
  { name: "a host with an empty jump", jumps: { web: "" }, names: ["web"] },
  { name: "a host behind one bastion", jumps: { web: "edge", edge: undefined }, names: ["edge", "web"] },
  {
    name: "a host behind three, outermost first",
    jumps: { web: "c", c: "b", b: "a", a: undefined },
    names: ["a", "b", "c", "web"],
  },
])("buildRoute() returns the route to $name", ({ jumps, names }) => {
  const route = buildRoute(hostsOf(jumps), "web");
  assert.deepEqual(route.map(({ name }) => name), names);
  assert.deepEqual(route.map(({ role }) => role), [...names.slice(1).map(() => "bastion"), "target"]);
  assert.equal(targetOf(route).name, "web");
});

Deno.test("buildRoute() ends for any host table and repeats no name on a route (property)", () => {
  const names = ["a", "b", "c", "d", "e"];
  const table = fc.record(
    Object.fromEntries(names.map((name) => [name, fc.option(fc.constantFrom(...names, "x"))])),
  );
  fc.assert(fc.property(table, (jumps) => {
    const hosts = hostsOf(
      Object.fromEntries(Object.entries(jumps).map(([name, jump]) => [name, jump ?? undefined])),
    );
    try {
      const visited = buildRoute(hosts, "a").map(({ name }) => name);
      assert.equal(new Set(visited).size, visited.length);
    } catch (error) {
      assert.match(String(error), /cycle|unknown/);
    }
  }));
});

const ROUTE = buildRoute(hostsOf({ web: "edge", edge: undefined }), "web");

Deno.test.each([
  { name: "the bastion's address", change: { addr: "other:22" }, hop: 0 },
  { name: "the bastion's key", change: { host_key: "ssh-ed25519 other" }, hop: 0 },
  { name: "the account", change: { user: "root" }, hop: 1 },
  { name: "the bastion", change: { jump: "other" }, hop: 1 },
])("routeSignature() changes with $name", ({ change, hop }) => {
  const [first, ...rest] = ROUTE.map((entry, index) =>
    index === hop ? { ...entry, host: { ...entry.host, ...change } } : entry
  );
  assert.ok(first !== undefined);
  assert.notEqual(routeSignature([first, ...rest]), routeSignature(ROUTE));
});

Deno.test("routeSignature() ignores policy fields", () => {
  const [first, ...rest] = ROUTE.map((entry) => ({
    ...entry,
    host: { ...entry.host, allow_sudo: true, groups: ["x"] },
  }));
  assert.ok(first !== undefined);
  assert.equal(routeSignature([first, ...rest]), routeSignature(ROUTE));
});

const HOST = { addr: "10.0.0.1:22", user: "deploy", host_key: "k" };

/** A fetch whose responses the test sends one by one. */
class ScriptedFetch {
  readonly #waiting: PromiseWithResolvers<HostsResponse>[] = [];
  calls = 0;

  readonly fetch = (): Promise<HostsResponse> => {
    this.calls += 1;
    const answer = Promise.withResolvers<HostsResponse>();
    this.#waiting.push(answer);
    return answer.promise;
  };

  answer(hosts: HostsResponse): void {
    this.#waiting.shift()?.resolve(hosts);
  }

  fail(message: string): void {
    this.#waiting.shift()?.reject(new Error(message));
  }
}

Deno.test("Inventory.refresh() shares a running fetch among concurrent calls", async () => {
  const source = new ScriptedFetch();
  const view = new Inventory(source.fetch);
  const refreshes = [view.refresh(), view.refresh(), view.refresh()];
  source.answer({ web01: HOST });
  for (const hosts of await Promise.all(refreshes)) assert.deepEqual([...hosts.keys()], ["web01"]);
  assert.equal(source.calls, 1);
});

Deno.test("Inventory.refreshAgain() ignores running fetches and shares the next one", async () => {
  const source = new ScriptedFetch();
  const view = new Inventory(source.fetch);
  const before = view.refresh();
  const anew = [view.refreshAgain(), view.refreshAgain()];
  source.answer({ web01: HOST });
  assert.deepEqual([...(await before).keys()], ["web01"]);
  await Promise.resolve();
  source.answer({ web02: HOST });
  for (const hosts of await Promise.all(anew)) assert.deepEqual([...hosts.keys()], ["web02"]);
  assert.equal(source.calls, 2);
});

Deno.test("Inventory.refresh() fetches again after the previous fetch has ended", async () => {
  const source = new ScriptedFetch();
  const view = new Inventory(source.fetch);
  const first = view.refresh();
  source.answer({ web01: HOST });
  await first;
  const second = view.refresh();
  source.answer({ web02: HOST });
  assert.deepEqual([...(await second).keys()], ["web02"]);
  assert.equal(source.calls, 2);
});

Deno.test("Inventory.refresh() returns the same map for an unchanged list", async () => {
  const list = { web01: HOST };
  const lists: HostsResponse[] = [list, list, { web02: HOST }, list];
  const view = new Inventory(() => Promise.resolve(lists.shift() ?? {}));
  const first = await view.refresh();
  assert.equal(await view.refresh(), first);
  assert.deepEqual([...(await view.refresh()).keys()], ["web02"]);
  assert.deepEqual([...(await view.refresh()).keys()], ["web01"]);
});

Deno.test("Inventory.refresh() fails all calls that share a failed fetch, keeping the list", async () => {
  const source = new ScriptedFetch();
  const view = new Inventory(source.fetch);
  const first = view.refresh();
  source.answer({ web01: HOST });
  await first;
  const failing = [view.refresh(), view.refresh()];
  source.fail("down");
  for (const refresh of failing) await assert.rejects(refresh, { message: "down" });
  assert.deepEqual([...(await view.current()).keys()], ["web01"]);
  const retry = view.refresh();
  source.answer({});
  assert.equal((await retry).size, 0);
});

Deno.test("Inventory.current() waits for the first list and does not fetch again", async () => {
  const source = new ScriptedFetch();
  const view = new Inventory(source.fetch);
  const current = view.current();
  source.answer({ web01: HOST });
  assert.equal((await current).size, 1);
  assert.equal((await view.current()).size, 1);
  assert.equal(source.calls, 1);
});

Deno.test("Inventory.refreshEvery() refreshes in each interval and continues after a failure", async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const errors: unknown[] = [];
  let fetches = 0;
  const view = new Inventory(() => {
    fetches += 1;
    return fetches === 2 ? Promise.reject(new Error("down")) : Promise.resolve({ [`web0${fetches}`]: HOST });
  });
  const refreshing = view.refreshEvery({
    clock,
    seconds: 30,
    signal: stop.signal,
    onError: (error) => errors.push(error),
  });
  await clock.advance(29_999);
  assert.equal(fetches, 0);
  await clock.advance(1);
  assert.equal(fetches, 1);
  await clock.advance(30_000);
  assert.equal(errors.length, 1);
  assert.deepEqual([...(await view.current()).keys()], ["web01"], "the last good list stays");
  await clock.advance(30_000);
  assert.deepEqual([...(await view.current()).keys()], ["web03"]);
  stop.abort();
  await refreshing;
});

const hostExecute = (name: string, jump?: string) => ({
  addr: `${name}.test:22`,
  user: `${name}-user`,
  host_key: `ssh-ed25519 ${name}`,
  ...(jump === undefined ? {} : { jump }),
});

const CHAIN: HostsResponse = {
  db: hostExecute("db", "inner"),
  inner: hostExecute("inner", "outer"),
  outer: hostExecute("outer"),
};

/** A broker whose authority names its certificates after their hosts. */
function chained(hosts: HostsResponse = CHAIN): BrokerFixture {
  const broker = new BrokerFixture();
  broker.authority.list = () => hosts;
  broker.authority.answer = issue;
  return broker;
}

function issue({ host, role }: CertificateRequest): SignAnswer {
  const serial = role === "target" ? SERIAL : 1n;
  return { ...ISSUED_UPTIME, certificate: `certificate for ${host}`, serial, decision: { allowed: true } };
}

Deno.test("execute() requests a certificate for each hop in order before it connects", async () => {
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

Deno.test("execute() requests a bastion certificate for the same end user without command and consent", async () => {
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

Deno.test("execute() requests only the target's decision in a dry run", async () => {
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
    name: "requires an approval",
    answer: { kind: "needs_approval", rule: "r" },
    code: "approval_required",
    message: 'command on "inner" requires human approval (r); ' +
      "approve it in-chat (if enabled), via the control plane, or with broker-ctl",
  },
])("execute() requests no further certificates if a bastion $name", async ({ answer, code, message }) => {
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
    hosts: { db: hostExecute("db", "gone") },
    message: 'unknown host in chain: "gone"',
  },
  {
    name: "a cycle of bastions",
    hosts: { db: hostExecute("db", "a"), a: hostExecute("a", "b"), b: hostExecute("b", "a") },
    message: 'bastion cycle at "a"',
  },
  {
    name: "a host that is its own bastion",
    hosts: { db: hostExecute("db", "db") },
    message: 'bastion cycle at "db"',
  },
  {
    name: "a host without an address",
    hosts: { db: { ...hostExecute("db"), addr: "" } },
    message: 'cannot connect to host "db": it has no addr',
    recorded: "",
  },
  {
    name: "a bastion without a host key",
    hosts: { db: hostExecute("db", "a"), a: { ...hostExecute("a"), host_key: "" } },
    message: 'cannot connect to host "a": it has no host_key',
  },
])(
  "execute() rejects $name before it requests a certificate",
  async ({ hosts, message, recorded = "db.test:22" }) => {
    const broker = chained(hosts);
    await assert.rejects(broker.run({ host: "db" }), { code: "denied", message });
    assert.deepEqual(broker.authority.requests, []);
    assert.deepEqual(broker.log.entries.map(({ outcome, err, host }) => [outcome, err, host]), [
      ["denied", message, recorded],
    ]);
  },
);

Deno.test("execute() requests new certificates for the bastions after an approval wait (K15)", async () => {
  const broker = chained();
  broker.authority.answer = (request) => {
    if (request.role === "target") {
      broker.authority.list = () => ({ db: hostExecute("db", "other"), other: hostExecute("other") });
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
  "execute() reports the signer's message if the broker is %s",
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
