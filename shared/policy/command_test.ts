import assert from "node:assert/strict";
import {
  compileCommandPolicy,
  type CompiledCommandPolicy,
  composePolicies,
  decideCommand,
} from "./command.ts";
import { type CommandPolicy, type HostPolicy, hostPolicy } from "./model.ts";
import {
  allowSample,
  compileSample,
  decideSample,
  denySample,
  SAMPLE_RULES,
  sampleConfig,
  sampleHost,
} from "../testing/sample_policy.ts";
import { toHostInfo, visibleHosts } from "./host_rules.ts";
import type { SshIntent } from "./ssh.ts";
import { stopOnDisconnect } from "./shell.ts";

function compile(policy: CommandPolicy): CompiledCommandPolicy {
  const problems: string[] = [];
  const compiled = compileCommandPolicy(policy, "p", problems);
  assert.deepEqual(problems, []);
  return compiled;
}

function decide(policies: readonly CommandPolicy[], command: string) {
  return decideCommand(composePolicies(policies.map(compile)), command);
}

const allowing = (...allow: string[]): CommandPolicy => ({ mode: "allowlist", allow });
const denying = (...deny: string[]): CommandPolicy => ({ mode: "denylist", deny });
const LIST = allowing("^ps", "^head$");
const AUX: CommandPolicy = { ...LIST, require_approval: ["aux"] };
const AUDIT: CommandPolicy = { ...LIST, enforcement: "audit" };

Deno.test.each<[name: string, policies: CommandPolicy[], command: string, rule: string]>([
  ["reports the allow rule", [LIST], "ps aux", "allow:^ps"],
  ["reports the last command's rule", [LIST], "ps | head", "allow:^head$"],
  ["reports no rule on a denylist", [denying("rm")], "ps", ""],
  ["matches decoded words", [LIST], "'p's aux", "allow:^ps"],
  ["joins words by one space", [allowing("^ps a b$")], "ps  a\tb", "allow:^ps a b$"],
  ["matches a quoted space as the same text", [allowing("^ps a b$")], "ps 'a b'", "allow:^ps a b$"],
  ["drops a duplication", [allowing("^ps$")], "ps 2>&1", "allow:^ps$"],
  ["matches the raw text without parsing", [{ ...LIST, shell_parse: false }], "ps; rm x", "allow:^ps"],
  ["leaves wrappers to the rules", [{ ...allowing("^env"), shell_parse: false }], "env ps", "allow:^env"],
  ["ignores the lists of a policy that is off", [LIST, { mode: "off", deny: ["ps"] }], "ps", "allow:^ps"],
  [
    "ignores the allow rules of a policy that is off",
    [denying("x"), { mode: "off", allow: ["^id"] }],
    "ps",
    "",
  ],
  ["joins allowlists", [LIST, allowing("^id$")], "id", "allow:^id$"],
])("decideCommand() %s", (_name, policies, command, rule) => {
  assert.deepEqual(decide(policies, command), { kind: "allowed", rule, requireApproval: false });
});

Deno.test.each<[name: string, policies: CommandPolicy[], command: string, rule: string]>([
  ["a command that no rule allows", [LIST], "id", "allowlist:no-match"],
  ["an empty allowlist's every command", [{ mode: "allowlist" }], "id", "allowlist:no-match"],
  ["the second command of a list", [LIST], "ps; id", "allowlist:no-match"],
  ["the last stage of a pipe", [LIST], "ps | id", "allowlist:no-match"],
  ["by a denylist", [denying("x", "^rm")], "rm a", "deny:^rm"],
  ["a denied command after &&", [denying("^rm")], "ps && rm a", "deny:^rm"],
  ["a command that is both allowed and denied", [{ ...LIST, deny: ["aux"] }], "ps aux", "deny:aux"],
  ["a command that another policy allows", [LIST, denying("aux")], "ps aux", "deny:aux"],
  ["by the first member's rule", [denying("b"), denying("a")], "ab", "deny:b"],
  ["an invisible match over a pipe", [allowing("^ps [|] rm$")], "ps | rm", "allowlist:no-match"],
  ["raw text without parsing", [{ ...denying("rm"), shell_parse: false }], "ps; rm", "deny:rm"],
  ["by structure before any rule", [allowing("")], "ps $(id)", "shell-parse:command substitution"],
])("decideCommand() denies %s", (_name, policies, command, rule) => {
  assert.deepEqual(decide(policies, command), { kind: "denied", rule, requireApproval: false });
});

Deno.test.each<[name: string, policies: CommandPolicy[], command: string, rule: string]>([
  ["off with approval rules", [{ require_approval: ["^reboot"] }], "reboot", "require_approval:^reboot"],
  ["an allowlist, over its allow rule", [AUX], "ps aux", "require_approval:aux"],
  ["a denylist", [{ ...denying("x"), require_approval: ["b"] }], "b", "require_approval:b"],
  ["the first of several commands", [{ require_approval: ["^a", "^b"] }], "c; b; a", "require_approval:^b"],
  ["an earlier command, kept to the end", [AUX], "ps aux | head", "require_approval:aux"],
])("decideCommand() requires approval: %s", (_name, policies, command, rule) => {
  assert.deepEqual(decide(policies, command), { kind: "allowed", rule, requireApproval: true });
});

Deno.test.each<[name: string, policy: CommandPolicy, rule: string]>([
  ["by deny", { mode: "denylist", deny: ["a"], require_approval: ["a"] }, "deny:a"],
  ["by no match", { mode: "allowlist", require_approval: ["a"] }, "allowlist:no-match"],
])("decideCommand() keeps requireApproval of a command denied %s", (_name, policy, rule) => {
  assert.deepEqual(decide([policy], "a"), { kind: "denied", rule, requireApproval: true });
});

Deno.test.each<[name: string, policies: CommandPolicy[], parses: boolean]>([
  ["on for no member", [], true],
  ["on by default", [{}], true],
  ["on if explicitly on", [{ shell_parse: true }], true],
  ["off if the only member is off", [{ shell_parse: false }], false],
  ["on when one member is silent", [{ shell_parse: false }, {}], true],
  ["off if all members are off", [{ shell_parse: false }, { shell_parse: false }], false],
])("composePolicies() sets parsing %s", (_name, policies, parses) => {
  assert.equal(composePolicies(policies.map(compile)).parses, parses);
});

Deno.test.each<[name: string, policies: CommandPolicy[], enforcement: string, restricts: boolean]>([
  ["enforces when one restricting member does", [AUDIT, LIST], "enforce", true],
  ["audits when all restricting members do", [AUDIT], "audit", true],
  ["does not count members that are off", [AUDIT, { mode: "off", deny: ["x"] }], "audit", true],
  ["counts a member with approval rules only", [AUDIT, { require_approval: ["x"] }], "enforce", true],
  ["has no restrictions if all are off", [{ mode: "off", allow: ["x"], deny: ["x"] }], "enforce", false],
])("composePolicies() %s", (_name, policies, enforcement, restricts) => {
  const set = composePolicies(policies.map(compile));
  assert.deepEqual([set.enforcement, set.restricts], [enforcement, restricts]);
});

Deno.test("decideCommand() tests identical simple commands once and reports the rule of the last", () => {
  const tested: string[] = [];
  const pattern = (source: string, text: string) => ({
    source,
    test: (candidate: string) => tested.push(candidate) > 0 && candidate === text,
  });
  const set = composePolicies([{ ...compile(LIST), allow: [pattern("a", "a"), pattern("b", "b")] }]);
  const verdict = decideCommand(set, "a | b; a && b | a");
  assert.deepEqual(tested, ["a", "b", "b"]);
  assert.deepEqual(verdict, { kind: "allowed", rule: "allow:a", requireApproval: false });
});

Deno.test("decideCommand() denies a line of more than 64 simple commands", () => {
  assert.equal(decide([LIST], "ps;".repeat(64)).kind, "allowed");
  const rule = "shell-parse:more than 64 simple commands";
  assert.deepEqual(decide([LIST], "ps;".repeat(64) + "ps"), { kind: "denied", rule, requireApproval: false });
});

const STOPS: Partial<HostPolicy> = {
  stop_on_disconnect: true,
  allow_sudo: true,
  allow_pty: true,
  allow_file_transfer: true,
};

const forceCommand = (host: Partial<HostPolicy>, fields: Partial<SshIntent>) =>
  allowSample(host, fields).forceCommand;

Deno.test("stopOnDisconnect() quotes the command as its last word", () => {
  for (const command of ["uptime", "echo 'a' # b", "a; b & c", "$(x) `y`", "", "x'", "-x", "\\"]) {
    const word = `'${command.replaceAll("'", "'\\''")}'`;
    assert.ok(stopOnDisconnect("", command).endsWith(` stop_on_disconnect ${word}`), command);
  }
});

Deno.test("stopOnDisconnect() adds the same prefix to every command", () => {
  const [front] = stopOnDisconnect("", "MARK").split("'MARK'");
  assert.equal(stopOnDisconnect("", "exit 1; $1"), `${front}'exit 1; $1'`);
  assert.ok(!front?.includes("\n"));
});

Deno.test.each([
  { name: "a command", fields: {}, begins: "exec /bin/sh -c '" },
  { name: "sudo", fields: { sudo: true }, begins: "exec sudo -n -- /bin/sh -c '" },
])("decideSsh() adds the watchdog that stops $name on disconnect (K16)", ({ fields, begins }) => {
  const baked = forceCommand(STOPS, fields);
  assert.ok(baked.startsWith(begins), baked);
  assert.ok(baked.endsWith(" stop_on_disconnect 'uptime'"), baked);
});

Deno.test.each<[name: string, host: Partial<HostPolicy>, fields: Partial<SshIntent>, baked: string]>([
  ["without the key", { allow_sudo: true }, {}, "uptime"],
  ["without the key, elevated", { allow_sudo: true }, { sudo: true }, "sudo -n -- uptime"],
  ["with the key off", { stop_on_disconnect: false }, {}, "uptime"],
  ["for a terminal", STOPS, { pty: true }, "uptime"],
  ["for a terminal, elevated", STOPS, { pty: true, sudo: true }, "sudo -n -- uptime"],
  ["for a file transfer", STOPS, { fileTransfer: true }, "uptime"],
  ["for a session", STOPS, { purpose: "session", sessionMode: "exec", command: "" }, ""],
])("decideSsh() adds no watchdog %s", (_name, host, fields, baked) => {
  assert.equal(forceCommand(host, fields), baked);
});

Deno.test("decideSsh() decides on the command without its stop_on_disconnect wrapper", () => {
  const command_policy = { mode: "allowlist", allow: ["^uptime$"], deny: ["kill", "sh", "exec"] } as const;
  assert.ok(forceCommand({ ...STOPS, command_policy }, {}).endsWith("'uptime'"));
  denySample({ ...STOPS, command_policy }, { command: "kill 1" });
});

Deno.test.each([
  { host: { stop_on_disconnect: true }, shown: true },
  { host: { stop_on_disconnect: false }, shown: undefined },
  { host: {}, shown: undefined },
])("visibleHosts() shows stop_on_disconnect to the broker: $shown", ({ host, shown }) => {
  const hosts = visibleHosts(compileSample(sampleConfig(host)), "broker-1");
  assert.equal(hosts["web01"]?.stop_on_disconnect, shown);
});

const RULED = { command_policy: SAMPLE_RULES, unsealed_sessions: false } as const;
const SESSION = { purpose: "session", sessionMode: "exec", command: "" };
const NO_CERTIFICATE =
  /^host "web01" has unsealed_sessions=false: no certificate for a session; use one-shot/;

const AUDITED: CommandPolicy = { ...SAMPLE_RULES, enforcement: "audit" };
const APPROVED: CommandPolicy = { mode: "off", require_approval: ["^reboot"] };

Deno.test.each<[name: string, denied: boolean, host: Partial<HostPolicy>]>([
  ["false, with rules", true, RULED],
  ["false, with rules in audit mode", true, { ...RULED, command_policy: AUDITED }],
  ["false, with approvals alone", true, { ...RULED, command_policy: APPROVED }],
  ["false, without rules", false, { unsealed_sessions: false }],
  ["false, with rules, sealed", false, { ...RULED, sealed_exec: true }],
  ["true, with rules", false, { ...RULED, unsealed_sessions: true }],
  ["absent, with rules", false, { command_policy: SAMPLE_RULES }],
])("with unsealed_sessions %s a session is denied: %s, and the host list shows it", (_name, denied, host) => {
  for (const command of ["", "uptime"]) {
    const decision = decideSample(host, { ...SESSION, command });
    assert.equal(decision.kind, denied ? "denied" : "allowed");
    if (decision.kind === "denied") assert.match(decision.reason, NO_CERTIFICATE);
  }
  assert.equal(decideSample(host, { command: "uptime" }).kind, "allowed", "a one-shot command runs");
  const compiled = compileSample(sampleConfig(host)).hosts.get("web01");
  assert(compiled !== undefined);
  assert.equal(toHostInfo(compiled).unsealed_sessions, denied ? false : undefined);
});

Deno.test.each([{ mode: "shell" }, { mode: "pty" }])(
  "with unsealed_sessions false, a session of mode $mode is denied with the allowed mode",
  ({ mode }) => {
    const decision = denySample({ ...RULED, allow_pty: true }, { ...SESSION, sessionMode: mode });
    assert.equal(decision.reason, 'host "web01" has command_policy: sessions require mode="exec"');
  },
);

Deno.test("unsealed_sessions accepts only a boolean", () => {
  assert.equal(hostPolicy.safeParse({ ...sampleHost(), unsealed_sessions: "no" }).success, false);
});
