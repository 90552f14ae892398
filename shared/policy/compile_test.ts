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

function assertProblem(config: PolicyConfig, problem: RegExp): void {
  const problems = findProblems(config);
  assert.equal(problems.length, 1, problems.join("\n"));
  assert.match(problems[0]!, problem);
}

const BASTION = { allow_as_bastion: true };

Deno.test.each<[name: string, policy: object, problem: RegExp]>([
  [
    "a bad inline pattern",
    { mode: "allowlist", allow: ["a", "("] },
    /^allow\[1\]: Cannot compile pattern "\("/,
  ],
  ["a bad deny pattern", { mode: "denylist", deny: ["(?=a)"] }, /^deny\[0\]: /],
  ["a bad approval pattern", { require_approval: ["a{2000}"] }, /^require_approval\[0\]: /],
  ["a bad pattern of a policy that is off", { mode: "off", deny: ["("] }, /^deny\[0\]/],
  ["allow rules on a denylist", { mode: "denylist", allow: ["a"] }, /^allow: a denylist has no allow rules/],
  ["an unknown mode", { mode: "alowlist" }, /^mode: unknown mode/],
  ["an unknown enforcement", { enforcement: "warn" }, /^enforcement: unknown enforcement/],
  [
    "deny patterns under an empty mode",
    { mode: "", deny: ["^rm"] },
    /^mode: the deny patterns have no effect .* write mode "denylist"/,
  ],
])("compilePolicy() rejects a host's command policy with %s", (_name, command_policy, problem) => {
  const path = String.raw`^hosts\.web01\.command_policy\.`;
  assertProblem(sampleConfig({ command_policy }), new RegExp(problem.source.replace("^", path)));
});

Deno.test.each<[name: string, host: Partial<HostPolicy>, problem: RegExp]>([
  ["an undefined bastion", { jump: "nowhere" }, /^hosts\.web01\.jump: unknown host "nowhere"/],
  ["a jump to itself", { jump: "web01" }, /^hosts\.web01\.jump: the chain never ends, "web01" -> "web01"/],
  [
    "a TTL above 900 (C13)",
    { max_ttl_seconds: 901 },
    /^hosts\.web01\.max_ttl_seconds: 901 is not between 0 and 900/,
  ],
  ["a negative TTL", { max_ttl_seconds: -1 }, /max_ttl_seconds/],
  [
    "a bastion with rules",
    { ...BASTION, command_policy: { require_approval: ["a"] } },
    /^hosts\.web01\.allow_as_bastion: a host with command rules/,
  ],
  ["an addr without port", { addr: "10.0.0.1" }, /^hosts\.web01\.addr: "10\.0\.0\.1" is not host:port/],
  ["a user with a space", { user: "a b" }, /^hosts\.web01\.user: /],
  ["an invalid host key", { host_key: "ssh-ed25519 AAAA" }, /^hosts\.web01\.host_key: /],
  ["a principal with a newline", { principal: "a\nb" }, /^hosts\.web01\.principal: /],
  ["an invalid source address", { source_address: "10.0.0.1/8" }, /^hosts\.web01\.source_address: /],
  [
    "a sudo user that is not an account",
    { allowed_sudo_users: ["db", "a b"] },
    /^hosts\.web01\.allowed_sudo_users\[1\]: "a b"/,
  ],
  ...["a,b", "*", "host:*", "a b", "a\u200bb", "a\nb"].map((principal): [string, object, RegExp] => [
    `the principal ${JSON.stringify(principal)}`,
    { principal },
    /^hosts\.web01\.principal: contains /,
  ]),
])("compilePolicy() rejects %s", (_name, host, problem) => assertProblem(sampleConfig(host), problem));

const hostNamed = (name: string, keys: Partial<HostPolicy> = {}) => ({ hosts: { [name]: sampleHost(keys) } });

Deno.test.each<[name: string, keys: Partial<PolicyConfig>, problem: RegExp]>([
  [
    "a bad library pattern",
    { command_policies: { base: { mode: "denylist", deny: ["("] } } },
    /^command_policies\.base\.deny\[0\]: /,
  ],
  [
    "a name that is not in the library",
    { group_command_policies: { web: ["a"] } },
    /^group_command_policies\.web\[0\]: unknown command policy "a"/,
  ],
  ["a global TTL above 900 (C13)", { max_ttl_seconds: 901 }, /^max_ttl_seconds: 901/],
  ["a host name with a space", hostNamed("web 01"), /^hosts\["web 01"\]: a host name must not/],
  ["an empty host name", hostNamed(""), /^hosts\[""\]: /],
  [
    "a jump of a host whose name has a dot, in the notation of the schema",
    hostNamed("web.01", { jump: "nope" }),
    /^hosts\["web\.01"\]\.jump: unknown host/,
  ],
  ["a host name with a control character", hostNamed("a\x1b"), /^hosts\["a\\x1b"\]: /],
  ...["web", "_default"].map((group): [string, Partial<PolicyConfig>, RegExp] => [
    `a bastion that ${group} gives rules`,
    {
      ...hostNamed("b", { ...BASTION, groups: ["web"] }),
      command_policies: { base: { mode: "allowlist" } },
      group_command_policies: { [group]: ["base"] },
    },
    /^hosts\.b\.allow_as_bastion: /,
  ]),
  [
    "a library policy whose patterns have no mode",
    { command_policies: { base: { allow: ["^uptime$"], require_approval: ["^reboot$"] } } },
    /^command_policies\.base\.mode: the allow patterns have no effect .* write mode "allowlist"/,
  ],
])("compilePolicy() rejects %s", (_name, keys, problem) => assertProblem(sampleConfig({}, keys), problem));

Deno.test("compilePolicy() reports a jump cycle only at each host in it", () => {
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
  { name: "300 if neither sets one", host: 0, global: 0, cap: 300 },
  { name: "a host's cap above the global one", host: 900, global: 120, cap: 900 },
])("compilePolicy() applies $name", ({ host, global, cap }) => {
  const policy = compileSample(sampleConfig({ max_ttl_seconds: host }, { max_ttl_seconds: global }));
  assert.equal(policy.hosts.get("web01")?.maxTtlSeconds, cap);
});

Deno.test("compilePolicy() accepts approval rules without a mode", () => {
  compileSample(sampleConfig({ command_policy: { require_approval: ["^reboot$"] } }));
});

Deno.test("findInertPolicies() reports only policies whose patterns are disabled", () => {
  const off = { mode: "off", deny: ["^rm"] } as const;
  const approval = { mode: "off", require_approval: ["^reboot$"] } as const;
  const config = sampleConfig({ command_policy: off }, { command_policies: { base: off, approval } });
  compileSample(config);
  const inert = ["command_policies.base", "hosts.web01.command_policy"];
  assert.deepEqual(finish(findInertPolicies(config)), inert);
});

Deno.test("compilePolicy() accepts deny rules in addition to an allowlist", () => {
  compileSample(sampleConfig({ command_policy: { mode: "allowlist", allow: ["a"], deny: ["b"] } }));
});

Deno.test("compilePolicy() accepts group policies for groups without hosts", () => {
  compileSample(
    sampleConfig({}, { command_policies: { base: {} }, group_command_policies: { nobody: ["base"] } }),
  );
});

Deno.test("compilePolicy() composes _default, groups in order, then inline, each library policy once", () => {
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

Deno.test("compilePolicy() counts a library policy of mode off for parsing, and not an inline one", () => {
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

Deno.test("compilePolicy() treats names of Object's own members as host names", () => {
  const config = sampleConfig({}, { hosts: { constructor: sampleHost({ jump: "toString" }) } });
  assert.deepEqual(findProblems(config), ['hosts.constructor.jump: unknown host "toString"']);
});

Deno.test("compilePolicy() reuses only the patterns of the previous policy that are still used", () => {
  const rules = (allow: string[], deny: string[] = []) =>
    sampleConfig({ command_policy: { mode: "allowlist", allow, deny } });
  const before = compileSample(rules(["^a$", "^b$"]));
  const config = rules(["^b$", "^c$"], ["^b$"]);
  const compiled = compilePolicy(config, before);
  assert(compiled.kind === "ok");
  const { patterns } = compiled.policy;
  assert.deepEqual([...patterns.keys()].sort(), ["^b$", "^c$"]);
  assert.equal(patterns.get("^b$"), before.patterns.get("^b$"));
});

Deno.test("compilePolicy() rejects a bad pattern even if it has a previous policy", () => {
  const config = sampleConfig({ command_policy: { mode: "allowlist", allow: ["("] } });
  assert.equal(compilePolicy(config, compileSample(sampleConfig())).kind, "invalid");
});

Deno.test("compilePolicy() shares rules only between hosts in equal groups", () => {
  const web = { groups: ["web"] };
  const { hosts } = compileSample(sampleConfig({}, {
    hosts: {
      a: sampleHost(web),
      b: sampleHost(web),
      c: sampleHost({ groups: ["db"] }),
      d: sampleHost({ ...web, command_policy: { mode: "denylist", deny: ["^id$"] } }),
    },
    command_policies: {
      web: { mode: "allowlist", allow: ["^a$"] },
      db: { mode: "allowlist", allow: ["^b$"] },
    },
    group_command_policies: { web: ["web"], db: ["db"] },
  }));
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

Deno.test("an unchanged host is reused as compiled, and a changed host is compiled", () => {
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

Deno.test("references to other hosts are checked again for reused hosts", () => {
  const hosts = { web01: sampleHost({ jump: "bastion" }), bastion: sampleHost({ allow_as_bastion: true }) };
  const first = compile(sampleConfig({}, { hosts }));
  const lonely = compilePolicy(sampleConfig({}, { hosts: { web01: hosts.web01 } }), first);
  assert.deepEqual(lonely, { kind: "invalid", problems: ['hosts.web01.jump: unknown host "bastion"'] });
  const own = { ...hosts.web01, jump: "", shared_principal: false };
  const twins = compilePolicy(sampleConfig({}, { hosts: { ...hosts, web02: own } }), first);
  assert.equal(twins.kind, "invalid");
});

Deno.test("the third policy reuses all compiled patterns", () => {
  const third = compile(CONFIG, compile(CONFIG, FIRST));
  assert.deepEqual([...third.patterns.keys()].sort(), ["^id$", "^uptime$"]);
  for (const [source, pattern] of third.patterns) assert.equal(pattern, FIRST.patterns.get(source));
});
