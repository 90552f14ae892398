import assert from "node:assert/strict";
import { sampleConfig, sampleHost, sampleIntent } from "../testing/sample_policy.ts";
import { type CompiledPolicy, compilePolicy } from "./compile.ts";
import type { PolicyConfig } from "./model.ts";
import { decideSsh } from "./ssh.ts";

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
