import assert from "node:assert/strict";
import { compileSampleCluster, sampleAction, sampleCluster } from "../testing/sample_cluster.ts";
import { compileSample, sampleConfig, sampleIntent } from "../testing/sample_policy.ts";
import { clusterPolicy, type CommandPolicy, type HostPolicy } from "./model.ts";
import { compilePolicy } from "./compile.ts";
import { decideCluster } from "./clusters.ts";
import { rulePattern } from "./compile_cluster.ts";
import { CORE_RESOURCES } from "./kubernetes.ts";
import fc from "fast-check";
import { SAMPLE_NOW, sampleGrants } from "../testing/sample_grant.ts";
import {
  compileCommandPolicy,
  compilePattern,
  composePolicies,
  decideCommand,
  extendAllowlist,
} from "./command.ts";
import { type Grant, type LiveGrants, waiverScope } from "./grants.ts";
import { decideSsh, type SshDecision, type SshIntent, toWireDecision } from "./ssh.ts";

const compile = (name: string, cluster: object) =>
  compilePolicy(sampleConfig({}, {
    kubernetes: { clusters: { [name]: clusterPolicy.parse({ ...sampleCluster(), ...cluster }) } },
  }));

const rule = (keys: object) => ({ rules: [{ effect: "allow", ...keys }] });
const binding = (keys: object) => ({
  sa_bindings: [{ namespace: "gateway", service_account: "reader", ...keys }],
});
const widget = (keys: object) => ({
  ...{ resource: "widgets", group: "a.example", version: "v1", kind: "Widget" },
  ...keys,
});
const NO_RESOURCE = "is not a resource of the core table nor of extra_resources";

// The problem without its prefix `kubernetes.clusters.prod.`.
Deno.test.each<[name: string, cluster: object, problem: string]>([
  [
    "an API server without TLS",
    { api_server: "http://10.0.0.5:6443" },
    'api_server: "http://10.0.0.5:6443" is not an https URL with a host',
  ],
  [
    "an API server that is no URL",
    { api_server: "10.0.0.5:6443" },
    'api_server: "10.0.0.5:6443" is not an https URL with a host',
  ],
  [
    "a password in the URL, without repeating it",
    { api_server: "https://admin:hunter2@10.0.0.5" },
    "api_server: contains a user or a password",
  ],
  [
    "a query in the URL",
    { api_server: "https://10.0.0.5/?" },
    'api_server: "https://10.0.0.5/?" has a query or a fragment',
  ],
  ...[599, 901].map((token_ttl_seconds): [string, object, string] => [
    `a life of ${token_ttl_seconds} s`,
    { token_ttl_seconds },
    `token_ttl_seconds: ${token_ttl_seconds} is neither 0 nor between 600 and 900`,
  ]),
  ["no ServiceAccount", { sa_bindings: [] }, "sa_bindings: is empty: at least one is required"],
  [
    "a ServiceAccount that is a path",
    binding({ service_account: "../admin" }),
    'sa_bindings[0].service_account: "../admin" is not the name of a ServiceAccount',
  ],
  [
    "a ServiceAccount's namespace that is a path",
    binding({ namespace: "kube-system/x" }),
    'sa_bindings[0].namespace: "kube-system/x" is not a namespace',
  ],
  [
    "an empty group, which would be no filter",
    binding({ groups: [""] }),
    "sa_bindings[0].groups: a group is empty or contains spaces",
  ],
  [
    "tokens bound in another namespace",
    { token_binding: { namespace: "leases" } },
    'sa_bindings[0].namespace: "gateway" is not "leases" of token_binding: ' +
    "a token can only be bound to a Secret in the namespace of its ServiceAccount",
  ],
  ["an unknown verb", rule({ verbs: ["get", "exec"] }), 'rules[0].verbs[1]: "exec" is not a verb'],
  [
    "an unknown resource",
    rule({ resources: ["widgets"] }),
    `rules[0].resources[0]: "widgets" ${NO_RESOURCE}`,
  ],
  [
    "a resource with its group",
    rule({ resources: ["deployments.apps"] }),
    `rules[0].resources[0]: "deployments.apps" ${NO_RESOURCE} (did you mean "deployments"?)`,
  ],
  [
    "a resource in the singular",
    rule({ resources: ["ingress"] }),
    `rules[0].resources[0]: "ingress" ${NO_RESOURCE} (did you mean "ingresses"?)`,
  ],
  [
    "a namespace with a slash",
    rule({ namespaces: ["a/b"] }),
    'rules[0].namespaces[0]: "a/b" is not a namespace',
  ],
  [
    "a pattern as a name",
    rule({ names: ["web-*"] }),
    'rules[0].names[0]: "web-*" is not the name of an object',
  ],
  [
    "nothing that is allowed",
    rule({ verbs: ["delete"], effect: "deny" }),
    "rules: no rule has the effect allow or require_approval, so every action is denied",
  ],
  [
    "secrets shown of what is denied",
    { rules: [{ effect: "allow" }, { effect: "deny", verbs: ["delete"], reveal: true }] },
    "rules[1].reveal: a denied action shows nothing",
  ],
  [
    "an extra resource that is built in",
    { extra_resources: [{ resource: "pods", version: "v1", kind: "Pod" }] },
    'extra_resources[0]: resource "pods" is there already',
  ],
  [
    "two extra resources of one name",
    { extra_resources: [widget({}), widget({ group: "b.example" })] },
    'extra_resources[1]: resource "widgets" is there already',
  ],
  [
    "an extra resource with a path as its version",
    { extra_resources: [widget({ version: "../v1" })] },
    'extra_resources[0]: version "../v1" is not an API version',
  ],
])("compilePolicy() rejects a cluster with %s", (_name, cluster, problem) => {
  const problems = [`kubernetes.clusters.prod.${problem}`];
  assert.deepEqual(compile("prod", cluster), { kind: "invalid", problems });
});

Deno.test.each([
  ["the name of a host", "web01", ".web01: there is a host of this name"],
  [
    "a name with a blank",
    "a b",
    '["a b"]: a cluster name must be 1 to 63 of a-z A-Z 0-9 . _ - and start with a letter or digit',
  ],
])("compilePolicy() rejects a cluster with %s", (_name, name, problem) => {
  assert.deepEqual(compile(name, {}), { kind: "invalid", problems: [`kubernetes.clusters${problem}`] });
});

Deno.test("compilePolicy() resolves a cluster's defaults and removes the trailing slash of its URL", () => {
  const compiled = compile("prod", { api_server: "https://10.0.0.5:6443/" });
  assert.ok(compiled.kind === "ok");
  const cluster = compiled.policy.clusters.get("prod");
  assert.equal(cluster?.apiServer, "https://10.0.0.5:6443");
  assert.equal(cluster?.tokenTtlSeconds, 600);
  assert.equal(cluster?.leaseNamespace, "");
});

Deno.test.each<{ name: string; rule: Record<string, readonly string[]>; pattern: string }>([
  {
    name: "with verbs, resources and namespaces, as in existing logs",
    rule: { verbs: ["get", "list"], resources: ["deployments"], namespaces: ["prod"] },
    pattern: String.raw`^(?:get|list) (?:deployments\.apps) (?:prod)/(?:[^ ]+)$`,
  },
  { name: "of everything", rule: {}, pattern: "^(?:[a-z]+) (?:[^ ]+) (?:[^ /]+)/(?:[^ ]+)$" },
  {
    name: "with a * among other verbs",
    rule: { verbs: ["get", "*"], resources: ["pods"], namespaces: ["*"], names: ["-", "web-1.a"] },
    pattern: String.raw`^(?:[a-z]+) (?:pods) (?:[^ /]+)/(?:-|web-1\.a)$`,
  },
])("rulePattern() formats a rule $name", ({ rule, pattern }) => {
  assert.equal(rulePattern({ ...rule, effect: "allow" }, CORE_RESOURCES), pattern);
});

Deno.test.each([{ force: false, requireApproval: true }, { force: true, requireApproval: false }])(
  "a forced apply requires approval even if it is allowed, unless the rule sets force: $force",
  ({ force, requireApproval }) => {
    const cluster = compileSampleCluster({ rules: [{ verbs: ["apply"], effect: "allow", force }] });
    const intent = sampleAction("apply", "pods", "web", "web-1");
    const decide = (isForced: boolean) => {
      const decision = decideCluster(cluster, { ...intent, isForced });
      assert.ok(decision.kind === "allowed");
      return [decision.requireApproval, decision.force];
    };
    assert.deepEqual([decide(false), decide(true)], [[false, false], [requireApproval, true]]);
  },
);

const NOTHING = sampleGrants();

const RULES: CommandPolicy = {
  mode: "allowlist",
  allow: ["^uptime$", "^systemctl "],
  require_approval: ["^systemctl restart"],
  deny: ["shadow"],
};

function decide(
  policy: CommandPolicy | undefined,
  live: LiveGrants,
  intent: Partial<SshIntent> = {},
  host: Partial<HostPolicy> = {},
): SshDecision {
  const config = sampleConfig({ ...host, ...(policy !== undefined && { command_policy: policy }) });
  return decideSsh(compileSample(config), sampleIntent({ command: "id", ...intent }), live);
}

function assertSame(left: SshDecision, right: SshDecision): void {
  assert.deepEqual(toWireDecision(left), toWireDecision(right));
}

const ANY: Partial<Grant> = { allow: ["."] };

Deno.test.each<[name: string, command: string, rule: string, grant: Partial<Grant>]>([
  ["allows a matching command", "id", "allow:^id$", {}],
  ["allows a chain with the host's own rules", "uptime; id", "allow:^id$", {}],
  ["applies after the host's own rules", "id; uptime", "allow:^uptime$", ANY],
  ["leaves the host's own rule the first", "uptime", "allow:^uptime$", ANY],
])("a grant %s", (_name, command, rule, grant) => {
  const decision = decide(RULES, sampleGrants(grant), { command });
  assert.deepEqual([decision.kind, decision.matchedRule, decision.enforcement], ["allowed", rule, "enforce"]);
});

Deno.test.each<
  [name: string, policy: CommandPolicy, command: string, rule: string, grant: Partial<Grant>]
>([
  ["a command that it does not match", RULES, "who", "allowlist:no-match", {}],
  ["a chain with an unlisted command", RULES, "id; who", "allowlist:no-match", {}],
  ["a denied command", RULES, "cat /etc/shadow", "deny:shadow", ANY],
  ["a denied command after an allowed one", RULES, "id; cat /etc/shadow", "deny:shadow", ANY],
  ["a command that cannot be parsed", RULES, "id $(id)", "shell-parse:", ANY],
  ["a wrapper", RULES, "sudo id", "shell-parse:", ANY],
  ["a command on a denylist", { mode: "denylist", deny: ["^id"] }, "id", "deny:^id", ANY],
])("a grant does not allow %s", (_name, policy, command, rule, grant) => {
  const decision = decide(policy, sampleGrants(grant), { command });
  assert.equal(decision.kind, "denied");
  assert.ok(decision.matchedRule.startsWith(rule), decision.matchedRule);
});

Deno.test("a grant does not remove a required approval", () => {
  const decision = decide({ ...RULES, require_approval: ["^id$"] }, sampleGrants({}));
  assert(decision.kind === "allowed");
  assert.deepEqual([decision.requireApproval, decision.matchedRule], [true, "require_approval:^id$"]);
});

Deno.test.each<{ name: string; policy: CommandPolicy | undefined }>([
  { name: "no rules", policy: undefined },
  { name: "rules that are off", policy: { mode: "off", allow: ["^x$"], require_approval: ["^x$"] } },
  { name: "a denylist", policy: { mode: "denylist", deny: ["^x$"] } },
])("a grant changes nothing on a host with $name", ({ policy }) => {
  for (const command of ["id", "who", "x"]) {
    assertSame(decide(policy, sampleGrants({}), { command }), decide(policy, NOTHING, { command }));
  }
});

Deno.test.each<[name: string, host: Partial<HostPolicy>, intent: Partial<SshIntent>, reason: RegExp]>([
  ["sudo", {}, { sudo: true }, /allow_sudo=false/],
  ["a terminal", {}, { pty: true }, /allow_pty=false/],
  ["another caller", { allowed_callers: ["x"] }, {}, /not authorised/],
  ["a shell session", {}, { purpose: "session", sessionMode: "shell" }, /mode="exec"/],
  ["a second line", {}, { command: "id\nid" }, /newline/],
])("a grant does not bypass another check: %s", (_name, host, intent, reason) => {
  const decision = decide(RULES, sampleGrants(ANY), intent, host);
  assert(decision.kind === "denied");
  assert.match(decision.reason, reason);
});

Deno.test("a grant applies to the commands of a session and to one-shot commands", () => {
  const session = { purpose: "session", sessionMode: "exec" };
  assert.equal(decide(RULES, sampleGrants({}), session).kind, "allowed");
  assert.equal(decide(RULES, sampleGrants({ expiresAt: SAMPLE_NOW }), session).kind, "denied");
});

Deno.test("a grant keeps the host's shell_parse setting", () => {
  const raw = { ...RULES, shell_parse: false };
  const grant = sampleGrants({ allow: ["^echo \\$HOME; id$"] });
  assert.equal(decide(raw, grant, { command: "echo $HOME; id" }).kind, "allowed");
  assert.equal(decide(RULES, grant, { command: "echo $HOME; id" }).kind, "denied");
});

Deno.test("a grant on a host in audit mode removes the warning and enforces nothing", () => {
  const audited: CommandPolicy = { ...RULES, enforcement: "audit" };
  const without = decide(audited, NOTHING);
  const granted = decide(audited, sampleGrants({}));
  const stranger = decide(audited, sampleGrants({}), { command: "who" });
  assert(without.kind === "allowed" && granted.kind === "allowed" && stranger.kind === "allowed");
  assert.deepEqual([without.wouldDeny, granted.wouldDeny, stranger.wouldDeny], [true, false, true]);
  assert.deepEqual([granted.matchedRule, granted.warning, granted.enforcement], ["allow:^id$", "", "audit"]);
});

const RESTART = "systemctl restart nginx";
const waiverFor = (fields: Partial<SshIntent> = {}) =>
  sampleGrants(waiverScope(sampleIntent({ command: RESTART, ...fields })));

Deno.test("a waiver removes the approval of its command and names the rule", () => {
  const decision = decide(RULES, waiverFor(), { command: RESTART });
  assert(decision.kind === "allowed");
  assert.deepEqual(
    [decision.requireApproval, decision.approvalWaived, decision.matchedRule, decision.enforcement],
    [false, true, "approval-waived:require_approval:^systemctl restart", "enforce"],
  );
});

Deno.test("a waiver does not allow a denied command", () => {
  const command = "systemctl restart shadow";
  for (const policy of [RULES, { ...RULES, allow: [] }, { ...RULES, deny: ["restart"] }]) {
    assert.equal(decide(policy, waiverFor({ command }), { command }).kind, "denied");
  }
});

Deno.test("a waiver has no effect if no rule requires approval", () => {
  const policy: CommandPolicy = { mode: "allowlist", allow: ["^systemctl "] };
  const restart = { command: RESTART };
  assertSame(decide(policy, waiverFor(), restart), decide(policy, NOTHING, restart));
});

Deno.test("a waiver applies without an allowlist and to commands that a grant allows", () => {
  const policy: CommandPolicy = { mode: "off", require_approval: ["restart"] };
  const alone = decide(policy, waiverFor(), { command: RESTART });
  const granted = sampleGrants({ allow: ["restart"] }, waiverScope(sampleIntent({ command: RESTART })));
  const listed: CommandPolicy = { mode: "allowlist", allow: ["^x$"], require_approval: ["restart"] };
  const both = decide(listed, granted, { command: RESTART });
  for (const decision of [alone, both]) {
    assert(decision.kind === "allowed");
    assert.deepEqual([decision.requireApproval, decision.approvalWaived], [false, true]);
  }
});

Deno.test("a waiver removes the warning of audit mode unless the command would be denied", () => {
  const audited: CommandPolicy = { ...RULES, enforcement: "audit" };
  const waived = decide(audited, waiverFor(), { command: RESTART });
  assert(waived.kind === "allowed");
  assert.deepEqual([waived.warning, waived.wouldRequireApproval, waived.enforcement], ["", false, "audit"]);
  assert.equal(waived.matchedRule, "approval-waived:require_approval:^systemctl restart");
  const denying = { ...audited, allow: [] };
  const denied = decide(denying, waiverFor(), { command: RESTART });
  assertSame(denied, decide(denying, NOTHING, { command: RESTART }));
  assert.ok(denied.kind === "allowed" && denied.wouldDeny && denied.wouldRequireApproval);
});

// The decision evaluates grants only if no host rule matches. The result must equal evaluating all grants.
Deno.test("evaluating grants last gives the same decision as evaluating them with the rules", () => {
  const word = fc.constantFrom("id", "who", "uptime", "date", "$x", "env");
  const command = fc.array(word, { minLength: 1, maxLength: 4 }).map((words) => words.join("; "));
  const rules = fc.array(fc.constantFrom("^id$", "^who$", "^uptime$", "^date$"), { maxLength: 3 });
  const mode = fc.constantFrom("allowlist" as const, "denylist" as const, "off" as const);
  fc.assert(
    fc.property(mode, rules, rules, rules, rules, command, (mode, allow, deny, approval, granted, text) => {
      const policy: CommandPolicy = {
        mode,
        ...(mode !== "denylist" && { allow }),
        deny,
        require_approval: approval,
      };
      const set = composePolicies([compileCommandPolicy(policy, "", [])]);
      const whole = decideCommand(extendAllowlist(set, granted.map((rule) => [compilePattern(rule)])), text);
      const live = sampleGrants(...granted.map((rule) => ({ allow: [rule] })));
      const decision = decide(policy, live, { command: text });
      if (!set.restricts) return;
      assert.deepEqual([decision.kind, decision.matchedRule], [whole.kind, whole.rule]);
    }),
  );
});
