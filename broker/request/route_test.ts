import assert from "node:assert/strict";
import fc from "fast-check";
import type { HostInfo } from "@gateway/shared/wire";
import { buildRoute, routeSignature, targetOf } from "./route.ts";

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
])("buildRoute() leads to $name", ({ jumps, names }) => {
  const route = buildRoute(hostsOf(jumps), "web");
  assert.deepEqual(route.map(({ name }) => name), names);
  assert.deepEqual(route.map(({ role }) => role), [...names.slice(1).map(() => "bastion"), "target"]);
  assert.equal(targetOf(route).name, "web");
});

Deno.test.each([
  { name: "an unknown host", jumps: {}, code: "unknown_host", message: 'unknown host: "web"' },
  {
    name: "an unknown bastion",
    jumps: { web: "edge" },
    code: "unknown_host",
    message: 'unknown host in chain: "edge"',
  },
  {
    name: "a host that is its own bastion",
    jumps: { web: "web" },
    code: "invalid_config",
    message: 'bastion cycle at "web"',
  },
  {
    name: "a circle of bastions",
    jumps: { web: "a", a: "b", b: "a" },
    code: "invalid_config",
    message: 'bastion cycle at "a"',
  },
])("buildRoute() refuses $name", ({ jumps, code, message }) => {
  assert.throws(() => buildRoute(hostsOf(jumps), "web"), { code, message });
});

Deno.test.each([
  { name: "target", without: "web" },
  { name: "bastion", without: "edge" },
])("buildRoute() rejects a $name without address or host key", ({ without }) => {
  const hosts = hostsOf({ web: "edge", edge: undefined });
  for (const missing of ["addr", "host_key"]) {
    const info = { ...host(without, without === "web" ? "edge" : undefined), [missing]: "" };
    assert.throws(() => buildRoute(new Map([...hosts, [without, info]]), "web"), {
      code: "invalid_config",
      message: `cannot connect to host "${without}": it has no ${missing}`,
    });
  }
});

Deno.test("buildRoute() ends for any table of hosts, and no name is twice on a route", () => {
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

Deno.test("routeSignature() does not change with what only the policy is about", () => {
  const [first, ...rest] = ROUTE.map((entry) => ({
    ...entry,
    host: { ...entry.host, allow_sudo: true, groups: ["x"] },
  }));
  assert.ok(first !== undefined);
  assert.equal(routeSignature([first, ...rest]), routeSignature(ROUTE));
});
