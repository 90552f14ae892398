import assert from "node:assert/strict";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import type { BrokerHost, LocalPolicyConfig } from "../config/config.ts";
import { compileLocalPolicy } from "./local.ts";

const HOST: BrokerHost = { addr: "10.0.0.1:22", user: "deploy", host_key: SAMPLE_HOST_KEY };

function compile(hosts: Record<string, BrokerHost>, keys: Partial<LocalPolicyConfig> = {}) {
  return compileLocalPolicy({
    hosts,
    command_policies: {},
    group_command_policies: {},
    max_ttl_seconds: 300,
    source_address: "",
    ...keys,
  });
}

Deno.test.each([
  { name: "the global one where the host says none", own: undefined, expected: "10.9.0.0/16" },
  { name: "the global one where the host's is empty", own: "", expected: "10.9.0.0/16" },
  { name: "the host's own", own: "10.1.1.1", expected: "10.1.1.1" },
])("compileLocalPolicy() takes as source address $name", ({ own, expected }) => {
  const host = own === undefined ? HOST : { ...HOST, source_address: own };
  const { hosts } = compile({ web01: host }, { source_address: "10.9.0.0/16" });
  assert.equal(hosts.get("web01")?.source_address, expected);
});

Deno.test("compileLocalPolicy() lets a host be a bastion that says so, or that another one's jump names", () => {
  const { hosts } = compile({
    web01: { ...HOST, jump: "hop" },
    hop: HOST,
    open: { ...HOST, allow_as_bastion: true },
    refusing: { ...HOST, allow_as_bastion: false },
    behind: { ...HOST, jump: "refusing" },
  });
  assert.deepEqual(
    [...hosts.values()].map(({ name, allow_as_bastion }) => [name, allow_as_bastion ?? false]),
    [["web01", false], ["hop", true], ["open", true], ["refusing", true], ["behind", false]],
  );
});

Deno.test("compileLocalPolicy() caps the life of every certificate", () => {
  assert.equal(compile({ web01: HOST }, { max_ttl_seconds: 60 }).hosts.get("web01")?.maxTtlSeconds, 60);
});

Deno.test("compileLocalPolicy() knows hosts that are named like members of every object", () => {
  const hosts = Object.fromEntries([["__proto__", HOST], ["constructor", HOST]]);
  assert.deepEqual([...compile(hosts).hosts.keys()], ["__proto__", "constructor"]);
});

Deno.test.each<{ name: string; hosts: Record<string, BrokerHost>; problem: RegExp; keys?: object }>([
  {
    name: "a host without account",
    hosts: { web01: { ...HOST, user: "" } },
    problem: /hosts\.web01\.user: /,
  },
  {
    name: "a bastion with command rules, also when only a jump makes it one",
    hosts: { web01: { ...HOST, jump: "hop" }, hop: { ...HOST, command_policy: { mode: "allowlist" } } },
    problem: /hosts\.hop\.allow_as_bastion: a host with command rules cannot be a bastion/,
  },
  {
    name: "an invalid source address",
    hosts: { web01: HOST },
    keys: { source_address: "here" },
    problem: /hosts\.web01\.source_address: /,
  },
])("compileLocalPolicy() refuses $name", ({ hosts, problem, keys = {} }) => {
  assert.throws(() => compile(hosts, keys), (error) => {
    assert.ok(error instanceof Error);
    assert.match(error.message, /^Cannot use broker config: /);
    assert.match(error.message, problem);
    return true;
  });
});
