import assert from "node:assert/strict";
import fc from "fast-check";
import { SAMPLE_HOST_KEY } from "../../testing/mod.ts";
import {
  type ApproverConfig,
  type CommandPolicy,
  compilePattern,
  compilePolicy,
  decideCommand,
  type HostPolicy,
  type PolicyConfig,
} from "../mod.ts";
import { Automaton } from "./automaton.ts";
import { diffPolicies } from "./diff.ts";
import { NARROWER } from "./escapes.ts";
import { lintPattern, lintPolicy } from "./lint.ts";

const ALPHABET = ["a", "b", "A", " ", "\n", "-", "é", "ſ"];
const TEXTS = textsOf(4);

function textsOf(length: number): readonly string[] {
  if (length === 0) return [""];
  const shorter = textsOf(length - 1);
  return [
    ...shorter,
    ...shorter.filter((text) => text.length === length - 1).flatMap((text) =>
      ALPHABET.map((each) => text + each)
    ),
  ];
}

const pattern = fc.letrec<{ readonly node: string }>((tie) => ({
  node: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom(
      "a",
      "b",
      " ",
      ".",
      "^",
      "$",
      "\\b",
      "\\B",
      "[^a]",
      "\\w",
      "\\s",
      "(?i)s",
      "(?s).",
      "(?m)^",
      "(?m)$",
      "é",
      "",
    ),
    fc.tuple(tie("node"), tie("node")).map(([left, right]) => left + right),
    fc.tuple(tie("node"), tie("node")).map(([left, right]) => `(?:${left}|${right})`),
    fc.tuple(tie("node"), fc.constantFrom("*", "+", "?", "{2}", "{0,2}")).map(([inner, count]) =>
      `(?:${inner})${count}`
    ),
  ),
})).node;

Deno.test("the automaton finds exactly the combinations of patterns that match a text", () => {
  fc.assert(
    fc.property(pattern, pattern, pattern, (...sources) => {
      const compiled = sources.map(compilePattern);
      const combinationOf = (text: string) => compiled.map(({ test }) => test(text)).join();
      const found = new Set<string>();
      const isComplete = new Automaton(sources.map((source, group) => ({ source, group }))).search({
        hope: () => true,
        visit(text, matched) {
          const combination = compiled.map((_, group) => matched.has(group)).join();
          assert.equal(combination, combinationOf(text), JSON.stringify(text));
          found.add(combination);
          return false;
        },
      }, 5_000);
      if (!isComplete) return;
      for (const text of TEXTS) assert.ok(found.has(combinationOf(text)), JSON.stringify(text));
    }),
    { numRuns: 150 },
  );
});

const HOST: HostPolicy = { addr: "192.0.2.1:22", user: "agent", host_key: "" };

function compile(host: Partial<HostPolicy>, policy: CommandPolicy) {
  const compiled = compilePolicy({
    hosts: { web: { ...HOST, ...host, groups: ["web"] } },
    callers: {},
    command_policies: { web: policy },
    group_command_policies: { web: ["web"] },
    max_ttl_seconds: 0,
  });
  assert.equal(compiled.kind, "ok", JSON.stringify(compiled));
  return compiled.policy;
}

const commandPolicy = fc.record({
  mode: fc.constantFrom("allowlist", "denylist"),
  allow: fc.array(pattern, { maxLength: 2 }),
  deny: fc.array(pattern, { maxLength: 2 }),
  require_approval: fc.array(pattern, { maxLength: 1 }),
  enforcement: fc.constantFrom("enforce", "enforce", "audit"),
}).map((policy): CommandPolicy => {
  const { allow, ...others } = policy;
  return policy.mode === "denylist" ? others : { ...others, allow };
});

Deno.test("diffPolicies() reports each change of a decision with a command, and nothing else", () => {
  const commands = TEXTS.filter((text) => /^(?:[abA]+(?: (?=[abA-]))?)+[abA-]*$/.test(text));
  fc.assert(
    fc.property(commandPolicy, commandPolicy, (old, next) => {
      const [from, to] = [compile({}, old), compile({}, next)];
      const changes = diffPolicies(from, to).filter(({ change }) => change.includes(" becomes "));
      const outcomeOf = ({ hosts }: typeof from, command: string) => {
        const rules = hosts.get("web")?.commands;
        assert.ok(rules);
        const { kind, requireApproval } = decideCommand(rules, command);
        if (rules.enforcement === "audit") return "allowed";
        return kind === "denied" ? "denied" : requireApproval ? "allowed after approval" : "allowed";
      };
      const changeOf = (command: string) =>
        [from, to].map((policy) => outcomeOf(policy, command)).join(" becomes ");
      for (const { change, command } of changes) {
        if (!change.includes("the shell parser rejects")) assert.equal(changeOf(command), change, command);
      }
      if (changes.some(({ effect }) => effect === "unknown")) return;
      for (const command of commands) {
        const change = changeOf(command);
        const [before, after] = change.split(" becomes ");
        assert.ok(
          before === after || changes.some((each) => each.change.startsWith(change)),
          `${command}: ${change}`,
        );
      }
    }),
    { numRuns: 150 },
  );
});

Deno.test("diffPolicies() of a policy with itself is empty", () => {
  fc.assert(
    fc.property(commandPolicy, (policy) => {
      assert.deepEqual(diffPolicies(compile({}, policy), compile({}, policy)), []);
    }),
    { numRuns: 50 },
  );
});

Deno.test.each<[old: string, next: string, shows: string]>([
  // The parser rejects env, which the patterns do not distinguish from who.
  ["^ls$", "^(?:ls|env|who)$", "denied becomes allowed"],
  ["^ls [a-z]$", "^ls ?[a-z]? ?[a-z]$", "denied becomes allowed"],
  ["^ls x?y$", "^ls x?y\\t?$", "denied becomes allowed"],
])("diffPolicies() of allow %s and %s shows that %s", (old, next, shows) => {
  const [from, to] = [old, next].map((allow) => compile({}, { mode: "allowlist", allow: [allow] }));
  assert.ok(from && to);
  assert.match(diffPolicies(from, to)[0]?.change ?? "", new RegExp(`^${shows}`));
});

Deno.test.each<[allow: string, others: CommandPolicy, expected: readonly string[]]>([
  ["^uptime$", {}, []],
  ["^uptime( -p)?$", {}, []],
  ["uptime", {}, ["open-start"]],
  ["^uptime", {}, ["open-end"]],
  ["^tar ", {}, ["escape"]],
  ["^tar -tf /backup/[a-z0-9.-]+$", {}, []],
  ["^cp /etc/motd\\.(?:new|old) /etc/motd$", {}, []],
  ["^cp /etc/motd.new /etc/motd$", {}, ["escape"]],
  ["^tar |^uptime$", {}, ["escape"]],
  ["^tar \\(|\\) x", {}, ["open-start"]],
  ["^(?:env|who)$", {}, ["not-analyzed"]],
  ["^(?:env|sh)$", {}, ["not-analyzed"]],
  ["^git .*$", { deny: ["."] }, ["no-effect"]],
  ["a$b", {}, ["no-effect"]],
  ["\\Quptime", {}, ["not-analyzed"]],
  ["^tar .*$", { require_approval: ["^tar "] }, []],
  ["^systemctl ", { require_approval: ["^systemctl restart "] }, ["escape", "approval-avoided"]],
  ["^uptime$", { require_approval: ["^reboot$"] }, ["no-effect"]],
])("lintPolicy() of allow %s with %j finds %j", (allow, others, expected) => {
  const policy = compile({}, { mode: "allowlist", allow: [allow], ...others });
  const findings = lintPolicy(policy);
  assert.deepEqual([...new Set(findings.map(({ kind }) => kind))], expected);
  const rules = policy.hosts.get("web")?.commands;
  for (const { command } of findings) {
    if (command === "" || rules === undefined) continue;
    const { kind, requireApproval } = decideCommand(rules, command);
    assert.deepEqual([kind, requireApproval], ["allowed", false], command);
  }
});

Deno.test("lintPolicy() finds nothing in the patterns that it proposes", () => {
  assert.deepEqual(lintPolicy(compile({}, { mode: "allowlist", allow: Object.values(NARROWER) })), []);
});

Deno.test("lintPolicy() analyzes only the patterns of interest", () => {
  const policy = compile({}, { mode: "allowlist", allow: ["^tar ", "^find "] });
  const findings = lintPolicy(policy, (pattern) => pattern === "^find ");
  assert.deepEqual([...new Set(findings.map(({ pattern }) => pattern))], ["^find "]);
});

Deno.test.each<{
  name: string;
  list?: "allow" | "require_approval";
  pattern: string;
  rules?: CommandPolicy;
  isCluster?: true;
  kinds: readonly string[];
}>([
  { name: "a pattern alone", pattern: "^tar ", kinds: ["escape", "escape"] },
  { name: "a narrow pattern", pattern: "^uptime$", kinds: [] },
  {
    name: "a pattern of which deny rules leave nothing",
    pattern: "^tar ",
    rules: { mode: "denylist", deny: ["."] },
    kinds: ["no-effect"],
  },
  {
    name: "a pattern that needs an approval",
    pattern: "^tar ",
    rules: { mode: "off", require_approval: ["^tar "] },
    kinds: [],
  },
  {
    name: "a pattern of raw texts",
    pattern: "^uptime( |$)",
    rules: { mode: "off", allow: [], shell_parse: false },
    kinds: ["open-end"],
  },
  {
    name: "an approval that an option avoids",
    list: "require_approval",
    pattern: "^systemctl restart ",
    rules: { mode: "allowlist", allow: ["^systemctl "] },
    kinds: ["approval-avoided"],
  },
  { name: "an action on a cluster", pattern: "^apply pods web/[a-z]+$", isCluster: true, kinds: ["escape"] },
])("lintPattern() finds in $name: $kinds", ({ list = "allow", pattern, rules, isCluster = false, kinds }) => {
  const set = rules && compile({}, rules).hosts.get("web")?.commands;
  const findings = lintPattern({ list, pattern, rules: set, isCluster });
  assert.deepEqual(findings.map(({ kind }) => kind), kinds);
});

const POLICY: PolicyConfig = {
  hosts: { web: { ...HOST, groups: ["web"] } },
  ...{ callers: {}, command_policies: {}, group_command_policies: {}, max_ttl_seconds: 0 },
};
const approvers = (approvers: Record<string, ApproverConfig>, passkey_origins: readonly string[] = []) => ({
  approvals: { required: 1, required_by_group: {}, approvers, passkey_rp_id: "a.test", passkey_origins },
});
const required = (required: number, web = 0) => ({ approvals: { required, required_by_group: { web } } });

Deno.test.each<
  [name: string, old: Partial<PolicyConfig>, next: Partial<PolicyConfig>, shows: RegExp | undefined]
>([
  ["fewer signatures", required(2), required(1), /^people who must sign an approval: 2 becomes 1$/],
  ["fewer signatures of a group", required(0, 2), required(0), /2 becomes 0/],
  [
    "fewer signatures of a host",
    {
      hosts: { web: { ...HOST, groups: ["web"], approvals_required: 3 } },
      ...required(1),
    },
    required(1),
    /3 becomes 1/,
  ],
  ["no approvals any more", required(1), {}, /1 becomes 0/],
  ["a smaller number that another one hides", required(2, 1), required(2), undefined],
  [
    "the end of a verified token, which _default does not replace",
    { callers: { _default: { require_verified_end_user: true }, ann: { require_verified_end_user: true } } },
    { callers: { _default: { require_verified_end_user: true } } },
    /newly allowed: end users without a verified token/,
  ],
  [
    "self_approve, which _default does not give",
    { callers: { _default: { self_approve: true } } },
    { callers: { _default: { self_approve: true }, ann: { self_approve: true } } },
    /newly allowed: approving its own commands/,
  ],
  ["an approver", approvers({}), approvers({ ann: {} }), /^added$/],
  ["no removed approver", approvers({ ann: {} }), approvers({}), undefined],
  [
    "an SSH key, whose comment does not count",
    approvers({ ann: { ssh_keys: [`${SAMPLE_HOST_KEY} a`] } }),
    approvers({ ann: { ssh_keys: [`${SAMPLE_HOST_KEY} b`, "ssh-ed25519 AAAA"] } }),
    /^newly allowed: approvals with ssh SHA256:/,
  ],
  [
    "a passkey's key under its old ID",
    approvers({ ann: { passkeys: [{ id: "a", public_key: "AAAA" }] } }),
    approvers({ ann: { passkeys: [{ id: "a", public_key: "AAAB" }] } }),
    /^newly allowed: approvals with passkey SHA256:[^ ]+ on https:\/\/a.test$/,
  ],
  [
    "a second origin of passkeys",
    approvers({ ann: { passkeys: [{ id: "a", public_key: "AAAA" }] } }),
    approvers({ ann: { passkeys: [{ id: "a", public_key: "AAAA" }] } }, ["https://a.test", "https://b.test"]),
    / on https:\/\/b.test$/,
  ],
  [
    "an approver's group",
    approvers({ ann: { groups: ["a"] } }),
    approvers({ ann: { groups: ["b", "a"] } }),
    /^newly allowed: approvals for group b$/,
  ],
  [
    "the end of an approver's groups",
    approvers({ ann: { groups: ["a"] } }),
    approvers({ ann: {} }),
    /for every group$/,
  ],
  ["an approver's first groups", approvers({ ann: {} }), approvers({ ann: { groups: ["a"] } }), undefined],
  [
    "the end of an approver's other name",
    approvers({ ann: { identities: ["Ann@a.test", "x"] } }),
    approvers({ ann: { identities: ["ann@a.test"] } }),
    /^newly allowed: approvals of requests of x$/,
  ],
])("diffPolicies() calls %s wider", (_name, old, next, shows) => {
  const [from, to] = [old, next].map((each) => {
    const compiled = compilePolicy({ ...POLICY, ...each });
    assert.equal(compiled.kind, "ok", JSON.stringify(compiled));
    return compiled.policy;
  });
  assert.ok(from && to);
  const wider = diffPolicies(from, to).filter(({ effect }) => effect === "wider").map(({ change }) => change);
  assert.equal(wider.length, shows === undefined ? 0 : 1);
  if (shows !== undefined) assert.match(wider[0] ?? "", shows);
});
