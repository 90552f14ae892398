import { finish } from "../clock.ts";
import assert from "node:assert/strict";
import { compileSample, sampleConfig, sampleHost, sampleIntent } from "../testing/sample_policy.ts";
import { type CompiledPolicy, compilePolicy } from "./compile.ts";
import { findInertPolicies } from "./warnings.ts";
import type { HostPolicy, PolicyConfig } from "./model.ts";
import { decideSsh } from "./ssh.ts";

function findProblems(config: PolicyConfig): readonly string[] {
  const compiled = compilePolicy(config);
  return compiled.kind === "invalid" ? compiled.problems : [];
}

Deno.test.each(
  [
    {
      name: "a bad inline pattern",
      host: { command_policy: { mode: "allowlist", allow: ["a", "("] } },
      problem: /^hosts\.web01\.command_policy\.allow\[1\]: Cannot compile pattern "\("/,
    },
    {
      name: "a bad deny pattern",
      host: { command_policy: { mode: "denylist", deny: ["(?=a)"] } },
      problem: /^hosts\.web01\.command_policy\.deny\[0\]: /,
    },
    {
      name: "a bad approval pattern",
      host: { command_policy: { require_approval: ["a{2000}"] } },
      problem: /^hosts\.web01\.command_policy\.require_approval\[0\]: /,
    },
    {
      name: "a bad pattern of a policy that is off",
      host: { command_policy: { mode: "off", deny: ["("] } },
      problem: /deny\[0\]/,
    },
    {
      name: "allow rules on a denylist",
      host: { command_policy: { mode: "denylist", allow: ["a"] } },
      problem: /^hosts\.web01\.command_policy\.allow: a denylist has no allow rules/,
    },
    {
      name: "an unknown mode",
      host: { command_policy: { mode: "alowlist" as "allowlist" } },
      problem: /^hosts\.web01\.command_policy\.mode: unknown mode/,
    },
    {
      name: "an unknown enforcement",
      host: { command_policy: { enforcement: "warn" as "audit" } },
      problem: /enforcement: unknown enforcement/,
    },
    {
      name: "an undefined bastion",
      host: { jump: "nowhere" },
      problem: /^hosts\.web01\.jump: unknown host "nowhere"/,
    },
    {
      name: "a jump to itself",
      host: { jump: "web01" },
      problem: /^hosts\.web01\.jump: the chain never ends, "web01" -> "web01"/,
    },
    {
      name: "a TTL above 900 (C13)",
      host: { max_ttl_seconds: 901 },
      problem: /^hosts\.web01\.max_ttl_seconds: 901 is not between 0 and 900/,
    },
    { name: "a negative TTL", host: { max_ttl_seconds: -1 }, problem: /max_ttl_seconds/ },
    {
      name: "a bastion with rules",
      host: { allow_as_bastion: true, command_policy: { require_approval: ["a"] } },
      problem: /^hosts\.web01\.allow_as_bastion: a host with command rules/,
    },
    {
      name: "an addr without port",
      host: { addr: "10.0.0.1" },
      problem: /^hosts\.web01\.addr: "10\.0\.0\.1" is not host:port/,
    },
    { name: "a user with a blank", host: { user: "a b" }, problem: /^hosts\.web01\.user: / },
    {
      name: "an invalid host key",
      host: { host_key: "ssh-ed25519 AAAA" },
      problem: /^hosts\.web01\.host_key: /,
    },
    {
      name: "a principal with a newline",
      host: { principal: "a\nb" },
      problem: /^hosts\.web01\.principal: /,
    },
    {
      name: "an invalid source address",
      host: { source_address: "10.0.0.1/8" },
      problem: /^hosts\.web01\.source_address: /,
    },
    {
      name: "a sudo user that is not an account",
      host: { allowed_sudo_users: ["db", "a b"] },
      problem: /^hosts\.web01\.allowed_sudo_users\[1\]: "a b"/,
    },
  ] satisfies { name: string; host: Partial<HostPolicy>; problem: RegExp }[],
)(
  "compilePolicy() refuses $name",
  ({ host, problem }) => {
    const problems = findProblems(sampleConfig(host));
    assert.equal(problems.length, 1, problems.join("\n"));
    assert.match(problems[0]!, problem);
  },
);

Deno.test.each([
  {
    name: "a bad library pattern",
    keys: { command_policies: { base: { mode: "denylist", deny: ["("] } } },
    problem: /^command_policies\.base\.deny\[0\]: /,
  },
  {
    name: "a name that is not in the library",
    keys: { group_command_policies: { web: ["a"] } },
    problem: /^group_command_policies\.web\[0\]: unknown command policy "a"/,
  },
  { name: "a global TTL above 900 (C13)", keys: { max_ttl_seconds: 901 }, problem: /^max_ttl_seconds: 901/ },
  {
    name: "a host name with a blank",
    keys: { hosts: { "web 01": sampleHost() } },
    problem: /^hosts\["web 01"\]: a host name must not/,
  },
  { name: "an empty host name", keys: { hosts: { "": sampleHost() } }, problem: /^hosts\[""\]: / },
  {
    name: "a jump of a host whose name has a dot, in the notation of the schema",
    keys: { hosts: { "web.01": sampleHost({ jump: "nope" }) } },
    problem: /^hosts\["web\.01"\]\.jump: unknown host/,
  },
  {
    name: "a host name with a control character",
    keys: { hosts: { "a\x1b": sampleHost() } },
    problem: /^hosts\["a\\x1b"\]: /,
  },
  {
    name: "a bastion that a group gives rules",
    keys: {
      hosts: { b: sampleHost({ allow_as_bastion: true, groups: ["web"] }) },
      command_policies: { base: { mode: "allowlist" as const } },
      group_command_policies: { web: ["base"] },
    },
    problem: /^hosts\.b\.allow_as_bastion: /,
  },
  {
    name: "a bastion that _default gives rules",
    keys: {
      hosts: { b: sampleHost({ allow_as_bastion: true }) },
      command_policies: { base: { mode: "allowlist" as const } },
      group_command_policies: { _default: ["base"] },
    },
    problem: /^hosts\.b\.allow_as_bastion: /,
  },
  {
    name: "a library policy whose patterns have no mode",
    keys: { command_policies: { base: { allow: ["^uptime$"], require_approval: ["^reboot$"] } } },
    problem: /^command_policies\.base\.mode: the allow patterns have no effect .* write mode "allowlist"/,
  },
  {
    name: "deny patterns under an empty mode",
    keys: { hosts: { b: sampleHost({ command_policy: { mode: "" as const, deny: ["^rm"] } }) } },
    problem: /^hosts\.b\.command_policy\.mode: the deny patterns have no effect .* write mode "denylist"/,
  },
  ...["a,b", "*", "host:*", "a b", "a\u200bb", "a\nb"].map((principal) => ({
    name: `the principal ${JSON.stringify(principal)}`,
    keys: { hosts: { b: sampleHost({ principal }) } },
    problem: /^hosts\.b\.principal: contains /,
  })),
])("compilePolicy() refuses $name", ({ keys, problem }) => {
  const problems = findProblems(sampleConfig({}, keys));
  assert.equal(problems.length, 1, problems.join("\n"));
  assert.match(problems[0]!, problem);
});

Deno.test("compilePolicy() reports a jump cycle at each host in it and at no other", () => {
  const problems = findProblems(sampleConfig({}, {
    hosts: {
      a: sampleHost({ jump: "b" }),
      b: sampleHost({ jump: "c" }),
      c: sampleHost({ jump: "b" }),
    },
  }));
  assert.deepEqual(problems.map((problem) => problem.split(":")[0]), ["hosts.b.jump", "hosts.c.jump"]);
});

Deno.test("compilePolicy() reports every problem at once", () => {
  const problems = findProblems(sampleConfig({ addr: "x", user: "", jump: "y", max_ttl_seconds: 1000 }));
  assert.deepEqual(problems.map((problem) => problem.split(":")[0]), [
    "hosts.web01.addr",
    "hosts.web01.user",
    "hosts.web01.max_ttl_seconds",
    "hosts.web01.jump",
  ]);
});

Deno.test.each([
  { name: "the host's cap", host: 60, global: 120, cap: 60 },
  { name: "the global cap where the host sets none", host: 0, global: 120, cap: 120 },
  { name: "300 where nobody sets one", host: 0, global: 0, cap: 300 },
  { name: "a host's cap above the global one", host: 900, global: 120, cap: 900 },
])("compilePolicy() takes $name", ({ host, global, cap }) => {
  const policy = compileSample(sampleConfig({ max_ttl_seconds: host }, { max_ttl_seconds: global }));
  assert.equal(policy.hosts.get("web01")?.maxTtlSeconds, cap);
});

Deno.test("compilePolicy() accepts approval rules without a mode: they hold in every mode", () => {
  compileSample(sampleConfig({ command_policy: { require_approval: ["^reboot$"] } }));
});

Deno.test("findInertPolicies() names policies whose patterns are switched off, and no others", () => {
  const off = { mode: "off", deny: ["^rm"] } as const;
  const approval = { mode: "off", require_approval: ["^reboot$"] } as const;
  const config = sampleConfig({ command_policy: off }, { command_policies: { base: off, approval } });
  compileSample(config);
  assert.deepEqual(finish(findInertPolicies(config)), [
    "command_policies.base",
    "hosts.web01.command_policy",
  ]);
});

Deno.test("compilePolicy() accepts deny rules beside an allowlist", () => {
  compileSample(sampleConfig({ command_policy: { mode: "allowlist", allow: ["a"], deny: ["b"] } }));
});

Deno.test("compilePolicy() accepts group policies for groups without hosts", () => {
  compileSample(
    sampleConfig({}, { command_policies: { base: {} }, group_command_policies: { nobody: ["base"] } }),
  );
});

Deno.test("compilePolicy() composes _default, groups in order, then inline, a library policy once", () => {
  const policy = compileSample(sampleConfig(
    { groups: ["g2", "g1"], command_policy: { mode: "denylist", deny: ["inline"] } },
    {
      command_policies: Object.fromEntries(
        ["a", "b", "c"].map((name) => [name, { mode: "denylist" as const, deny: [name] }]),
      ),
      group_command_policies: { _default: ["b"], g1: ["a", "b"], g2: ["c", "a"] },
    },
  ));
  const members = policy.hosts.get("web01")?.commands.members ?? [];
  assert.deepEqual(members.map((member) => member.deny[0]?.source), ["b", "c", "a", "inline"]);
});

Deno.test("compilePolicy() counts a library policy that is off for parsing, and an inline one not", () => {
  const parses = (inline: boolean, library: Readonly<Record<string, { readonly mode: "off" }>>) =>
    compileSample(sampleConfig(
      { command_policy: inline ? { mode: "off" } : { mode: "denylist", deny: ["x"], shell_parse: false } },
      {
        command_policies: { ...library, raw: { mode: "denylist", deny: ["x"], shell_parse: false } },
        group_command_policies: { _default: [...Object.keys(library), "raw"] },
      },
    )).hosts.get("web01")?.commands.parses;
  assert.equal(parses(true, {}), false);
  assert.equal(parses(false, {}), false);
  assert.equal(parses(false, { idle: { mode: "off" } }), true);
});

Deno.test("compilePolicy() takes names of Object's own members for names", () => {
  const config = sampleConfig({}, { hosts: { constructor: sampleHost({ jump: "toString" }) } });
  assert.deepEqual(findProblems(config), ['hosts.constructor.jump: unknown host "toString"']);
});

Deno.test("compilePolicy() takes over the patterns of the policy before it, and no others", () => {
  const before = compileSample(
    sampleConfig({ command_policy: { mode: "allowlist", allow: ["^a$", "^b$"] } }),
  );
  const config = sampleConfig({
    command_policy: { mode: "allowlist", allow: ["^b$", "^c$"], deny: ["^b$"] },
  });
  const compiled = compilePolicy(config, before);
  assert(compiled.kind === "ok");
  const { patterns } = compiled.policy;
  assert.deepEqual([...patterns.keys()].sort(), ["^b$", "^c$"]);
  assert.equal(patterns.get("^b$"), before.patterns.get("^b$"));
});

Deno.test("compilePolicy() refuses a bad pattern also beside a policy before it", () => {
  const before = compileSample(sampleConfig());
  const compiled = compilePolicy(
    sampleConfig({ command_policy: { mode: "allowlist", allow: ["("] } }),
    before,
  );
  assert.equal(compiled.kind, "invalid");
});

Deno.test("compilePolicy() shares the rules of hosts in equal groups, and only of those", () => {
  const { hosts } = compileSample({
    hosts: {
      a: sampleHost({ groups: ["web"] }),
      b: sampleHost({ groups: ["web"] }),
      c: sampleHost({ groups: ["db"] }),
      d: sampleHost({ groups: ["web"], command_policy: { mode: "denylist", deny: ["^id$"] } }),
    },
    callers: {},
    command_policies: {
      web: { mode: "allowlist", allow: ["^a$"] },
      db: { mode: "allowlist", allow: ["^b$"] },
    },
    group_command_policies: { web: ["web"], db: ["db"] },
    max_ttl_seconds: 0,
  });
  assert.equal(hosts.get("a")?.commands, hosts.get("b")?.commands);
  const allows = (name: string) =>
    hosts.get(name)?.commands.members.map(({ mode, allow }) => [mode, ...allow.map(({ source }) => source)]);
  assert.deepEqual(allows("a"), [["allowlist", "^a$"]]);
  assert.deepEqual(allows("c"), [["allowlist", "^b$"]]);
  assert.deepEqual(allows("d"), [["allowlist", "^a$"], ["denylist"]]);
});

const LIBRARY = {
  command_policies: { base: { mode: "allowlist", allow: ["^uptime$"] } },
  group_command_policies: { web: ["base"] },
} as const;
const OWN = { mode: "allowlist", allow: ["^id$"] } as const;
const HOSTS = {
  web01: sampleHost({ groups: ["web"] }),
  db01: sampleHost({ command_policy: OWN }),
  any01: sampleHost(),
};
const CONFIG = sampleConfig({}, { ...LIBRARY, hosts: HOSTS });

function compile(config: PolicyConfig, previous?: CompiledPolicy): CompiledPolicy {
  const compiled = compilePolicy(config, previous);
  assert(compiled.kind === "ok", JSON.stringify(compiled));
  return compiled.policy;
}

const FIRST = compile(CONFIG);

Deno.test("a host that did not change is taken over as it was compiled, and one that did is not", () => {
  const changed = { ...HOSTS, db02: sampleHost({ user: "db" }) };
  const second = compile({ ...CONFIG, hosts: changed }, FIRST);
  assert.equal(second.hosts.get("web01"), FIRST.hosts.get("web01"));
  assert.equal(second.hosts.get("db02")?.user, "db");
  const third = compile({ ...CONFIG, hosts: { ...changed, web01: sampleHost() } }, second);
  assert.equal(decideSsh(third, sampleIntent({ host: "web01", command: "id" })).kind, "allowed");
  assert.equal(decideSsh(second, sampleIntent({ host: "web01", command: "id" })).kind, "denied");
});

Deno.test.each<{ name: string; keys: Partial<PolicyConfig> }>([
  { name: "rules", keys: { command_policies: { base: { mode: "denylist", deny: ["^uptime$"] } } } },
  { name: "rules of a group", keys: { group_command_policies: {} } },
  { name: "rules of all groups", keys: { group_command_policies: { _default: ["base"] } } },
  { name: "longest life", keys: { max_ttl_seconds: 60 } },
])("a host whose $name changed is compiled again", ({ keys }) => {
  const config = { ...CONFIG, ...keys };
  const [again, anew] = [compile(config, FIRST), compile(config)];
  for (const name of Object.keys(HOSTS)) {
    const [host, expected] = [again.hosts.get(name), anew.hosts.get(name)];
    assert.equal(host?.maxTtlSeconds, expected?.maxTtlSeconds);
    for (const command of ["uptime", "id", "reboot"]) {
      const intent = sampleIntent({ host: name, command });
      assert.equal(decideSsh(again, intent).kind, decideSsh(anew, intent).kind, `${name} ${command}`);
    }
  }
});

Deno.test("of hosts that are taken over all that depends on others is looked at again", () => {
  const hosts = { web01: sampleHost({ jump: "bastion" }), bastion: sampleHost({ allow_as_bastion: true }) };
  const first = compile(sampleConfig({}, { hosts }));
  const lonely = compilePolicy(sampleConfig({}, { hosts: { web01: hosts.web01 } }), first);
  assert.deepEqual(lonely, { kind: "invalid", problems: ['hosts.web01.jump: unknown host "bastion"'] });
  const own = { ...hosts.web01, jump: "", shared_principal: false };
  const twins = compilePolicy(sampleConfig({}, { hosts: { ...hosts, web02: own } }), first);
  assert.equal(twins.kind, "invalid");
});

Deno.test("no pattern is compiled again in the third policy", () => {
  const third = compile(CONFIG, compile(CONFIG, FIRST));
  assert.deepEqual([...third.patterns.keys()].sort(), ["^id$", "^uptime$"]);
  for (const [source, pattern] of third.patterns) assert.equal(pattern, FIRST.patterns.get(source));
});
