import assert from "node:assert/strict";
import {
  allowSample,
  compileSample,
  decideUnder,
  denySample,
  SAMPLE_RULES,
  sampleConfig,
  sampleHost,
  sampleIntent,
} from "../testing/sample_policy.ts";
import type { HostPolicy } from "./model.ts";
import { decideSsh, type SshIntent, toWireDecision } from "./ssh.ts";

const RULED = { command_policy: SAMPLE_RULES };
const EXEC = { purpose: "session", sessionMode: "exec" };
const AS_DB = { sudo: true, sudoUser: "db" };
const ELEVATING = { allow_sudo: true, allowed_sudo_users: ["db"], allow_as_bastion: true };
const BASTION = { allow_as_bastion: true };

const BY_POLICY = 'command not allowed on "web01" by command_policy (allowlist:no-match)';
const ENV = 'program "env" that runs another command';

Deno.test.each([
  ["an unlisted command", "id", BY_POLICY, "allowlist:no-match"],
  ["a smuggled command", "uptime; id", BY_POLICY, "allowlist:no-match"],
  [
    "a structure",
    "uptime $(id)",
    'command_policy for "web01": command substitution',
    "shell-parse:command substitution",
  ],
  [
    "a wrapper, although allowlisted",
    "systemctl x | env id",
    `command_policy for "web01": ${ENV}`,
    `shell-parse:${ENV}`,
  ],
])("decideSsh() denies a command by the rules: %s", (_name, command, reason, matched_rule) => {
  const decision = toWireDecision(decideUnder(SAMPLE_RULES, command));
  assert.deepEqual(decision, { allowed: false, reason, matched_rule, enforcement: "enforce" });
});

Deno.test("decideSsh() allows a command and requires its approval", () => {
  const decision = decideUnder(SAMPLE_RULES, "systemctl restart nginx");
  assert.deepEqual(toWireDecision(decision), {
    allowed: true,
    require_approval: true,
    matched_rule: "require_approval:restart",
    force_command: "systemctl restart nginx",
    ttl_seconds: 300,
    enforcement: "enforce",
  });
});

Deno.test.each<[name: string, command: string, warning: string, deny: boolean, approval: boolean]>([
  ["would deny", "id", "would deny (allowlist:no-match)", true, false],
  ["would deny for structure", "id > x", "would deny (shell-parse:file redirect)", true, false],
  [
    "would require approval",
    "systemctl restart x",
    "would require approval (require_approval:restart)",
    false,
    true,
  ],
  [
    "would deny and require approval",
    "restart x",
    "would deny and would require approval (allowlist:no-match)",
    true,
    true,
  ],
  ["allows the command", "uptime", "", false, false],
])("decideSsh() warns in audit mode when the policy %s", (_name, command, warning, deny, approval) => {
  const decision = decideUnder({ ...SAMPLE_RULES, enforcement: "audit" }, command);
  assert(decision.kind === "allowed");
  assert.equal(decision.enforcement, "audit");
  assert.equal(decision.warning, warning && `command_policy audit: ${warning}`);
  assert.deepEqual([decision.wouldDeny, decision.wouldRequireApproval], [deny, approval]);
  assert.equal(decision.requireApproval, false);
  assert.equal(decision.forceCommand, command);
});

Deno.test.each(["shell", "pty"].map((sessionMode) => ({ sessionMode })))(
  "decideSsh() denies a $sessionMode session on a host with rules",
  ({ sessionMode }) => {
    const session = { purpose: "session", sessionMode, command: "" };
    const decision = denySample(RULED, session);
    assert.equal(decision.reason, 'host "web01" has command_policy: sessions require mode="exec"');
    assert.equal(decision.enforcement, "enforce");
    assert.equal(allowSample({}, session).forceCommand, "");
  },
);

Deno.test("decideSsh() opens an exec session on a host with rules and decides on each command", () => {
  const opened = allowSample(RULED, { ...EXEC, command: "" });
  assert.deepEqual(toWireDecision(opened), { allowed: true, ttl_seconds: 300, enforcement: "enforce" });
  const command = allowSample(RULED, { ...EXEC, command: "uptime" });
  assert.equal(command.forceCommand, "");
  assert.equal(command.matchedRule, "allow:^uptime$");
  for (
    const [command, rule] of [["id", "allowlist:no-match"], [" ", "shell-parse:no command found"]] as const
  ) {
    assert.equal(denySample(RULED, { ...EXEC, command }).matchedRule, rule);
  }
});

Deno.test.each<[name: string, fields: Partial<SshIntent>, force: string, prefix: string]>([
  ["a target's one-shot command", {}, "uptime", ""],
  ["a target's session", { purpose: "session", sessionMode: "shell" }, "", ""],
  ["a bastion", { role: "bastion" }, "exit 1", ""],
  ["a bastion on the way of a session", { role: "bastion", ...EXEC }, "exit 1", ""],
  ["an elevated one-shot command", { sudo: true }, "sudo -n -- uptime", ""],
  ["one elevated to a user", { ...AS_DB, command: "id; id" }, "sudo -n -u db -- /bin/sh -c 'id; id'", ""],
  ["an elevated session", { ...AS_DB, ...EXEC }, "", "sudo -n -u db"],
  ["a bastion with sudo", { role: "bastion", sudo: true, sudoUser: "not listed" }, "exit 1", ""],
  ["a user without sudo", { sudoUser: "not listed" }, "uptime", ""],
  ["a lone surrogate, as U+FFFD", { command: "echo \ud800" }, "echo \ufffd", ""],
])("decideSsh() returns force-command and prefix for %s", (_name, fields, force, prefix) => {
  const decision = allowSample(ELEVATING, fields);
  assert.deepEqual([decision.forceCommand, decision.elevationPrefix], [force, prefix]);
});

Deno.test.each<[name: string, fields: Partial<SshIntent>, elevation: string, sudoPrefix: string]>([
  ["no elevation", {}, "", ""],
  ["root", { sudo: true }, "sudo:root", "sudo -n"],
  ["another user", AS_DB, "sudo:db", "sudo -n -u db"],
  ["none for a bastion", { sudo: true, role: "bastion" }, "", ""],
])("decideSsh() reports the elevation: %s", (_name, fields, elevation, sudoPrefix) => {
  const decision = allowSample(ELEVATING, fields);
  assert.deepEqual([decision.elevation, decision.sudoPrefix], [elevation, sudoPrefix]);
});

Deno.test("decideSsh() evaluates the rules on the command without its elevation", () => {
  const host = { allow_sudo: true, command_policy: SAMPLE_RULES };
  assert.equal(allowSample(host, { sudo: true }).matchedRule, "allow:^uptime$");
  assert.equal(denySample(host, { sudo: true, command: "sudo uptime" }).kind, "denied");
});

Deno.test.each([
  { name: "the request below the cap", requested: 60, ttl: 60 },
  { name: "the request at the cap", requested: 120, ttl: 120 },
  { name: "the cap above it", requested: 121, ttl: 120 },
  { name: "the cap for zero", requested: 0, ttl: 120 },
  { name: "the cap for a negative request", requested: -5, ttl: 120 },
])("decideSsh() grants the TTL: $name", ({ requested, ttl }) => {
  assert.equal(allowSample({ max_ttl_seconds: 120 }, { ttlSeconds: requested }).ttlSeconds, ttl);
});

Deno.test.each<[name: string, host: Partial<HostPolicy>, fields: Partial<SshIntent>]>([
  ["PTY", { allow_pty: true }, { pty: true }],
  ["file transfer", { allow_file_transfer: true }, { fileTransfer: true }],
  ["a listed caller", { allowed_callers: ["broker-1"] }, {}],
  ["any caller for an empty list", { allowed_callers: [] }, {}],
  ["an end user of a group", { groups: ["a", "b"] }, { endUserGroups: ["b"] }],
  ["an end user without groups known", {}, { endUser: "eve", endUserGroups: null }],
  ["a newline in a session without rules", {}, { purpose: "session", sessionMode: "exec", command: "a\nb" }],
  ["any command without rules", {}, { command: "rm -rf $HOME & (id)" }],
  ["any session mode for a one-shot command", {}, { sessionMode: "x11" }],
  ["a bastion's session without mode", { allow_as_bastion: true }, { role: "bastion", purpose: "session" }],
])("decideSsh() allows %s", (_name, host, fields) => {
  assert.equal(allowSample(host, fields).enforcement, "");
});

Deno.test("toWireDecision() keeps the order of keys and omits empty values", () => {
  const policy = compileSample(sampleConfig({}, {
    hosts: {
      web01: sampleHost({ allow_sudo: true, command_policy: { ...SAMPLE_RULES, enforcement: "audit" } }),
    },
  }));
  const session = { purpose: "session", sessionMode: "exec", sudo: true };
  const wire = toWireDecision(decideSsh(policy, sampleIntent({ ...session, command: "restart" })));
  assert.equal(
    JSON.stringify(wire),
    JSON.stringify({
      allowed: true,
      matched_rule: "allowlist:no-match",
      ttl_seconds: 300,
      elevation: "sudo -n",
      enforcement: "audit",
      warning: "command_policy audit: would deny and would require approval (allowlist:no-match)",
      would_deny: true,
      would_require_approval: true,
    }),
  );
});

const DISALLOWED = "contains disallowed characters";
const ONE_LINE = "command must not contain newline or carriage return";
const NO_COMMAND = "one-shot command must not be empty";
const OTHER_GROUPS = 'user "eve" not authorised for "web01" (groups)';
const NO_PTY = 'host "web01" does not allow PTY (allow_pty=false)';
const eve = (...endUserGroups: string[]) => ({ endUser: "eve", endUserGroups });

// One row for every gate, in the order of the gates.
Deno.test.each<[name: string, host: Partial<HostPolicy>, fields: Partial<SshIntent>, reason: string]>([
  ["an unknown host", {}, { host: "nope" }, 'no policy for host: "nope"'],
  ["a host whose name would end the quote", {}, { host: 'a"\nb' }, 'no policy for host: "a\\"\\nb"'],
  ["an unknown role", {}, { role: "admin" }, 'unknown role: "admin"'],
  ["an empty role", {}, { role: "" }, 'unknown role: ""'],
  ["an unknown purpose", {}, { purpose: "exec" }, 'unknown purpose: "exec"'],
  ["an empty purpose", {}, { purpose: "" }, 'unknown purpose: ""'],
  ["an unknown session mode", {}, { purpose: "session", sessionMode: "x11" }, 'unknown session mode: "x11"'],
  ["a session without mode", {}, { purpose: "session" }, 'unknown session mode: ""'],
  ["a caller with a space", {}, { caller: "a b" }, `caller "a b" ${DISALLOWED}`],
  ["a caller with a control character", {}, { caller: "a\x1b" }, `caller "a\\x1b" ${DISALLOWED}`],
  ["an end user with a space", {}, { endUser: "x role=bastion" }, `end_user "x role=bastion" ${DISALLOWED}`],
  ["an end user with a tab", {}, { endUser: "x\ty" }, `end_user "x\\ty" ${DISALLOWED}`],
  ["a newline", {}, { command: "uptime\nid" }, ONE_LINE],
  ["a carriage return", {}, { command: "uptime\rid" }, ONE_LINE],
  ["NUL", {}, { command: "uptime\0id" }, "command must not contain NUL"],
  ["a newline for a bastion", BASTION, { role: "bastion", command: "a\nb" }, ONE_LINE],
  ["a newline in a session under rules", RULED, { ...EXEC, command: "uptime\nid" }, ONE_LINE],
  ["an empty one-shot command", {}, { command: "" }, NO_COMMAND],
  ["a one-shot command of white space", {}, { command: " \t\u00a0" }, NO_COMMAND],
  [
    "a caller that the host does not list",
    { allowed_callers: ["broker-2"] },
    {},
    'caller "broker-1" not authorised for "web01"',
  ],
  ["an end user of other groups", { groups: ["web"] }, eve("db"), OTHER_GROUPS],
  ["an end user of no group", { groups: ["web"] }, eve(), OTHER_GROUPS],
  ["an end user on a host of no group", {}, eve("db"), OTHER_GROUPS],
  ["an invalid bastion", {}, { role: "bastion" }, 'host "web01" is not allowed as a bastion'],
  [
    "sudo where it is forbidden",
    {},
    { sudo: true },
    'host "web01" does not allow elevation (allow_sudo=false)',
  ],
  ["an unlisted sudo user", { allow_sudo: true }, AS_DB, 'sudo_user "db" is not allowed on "web01"'],
  ["an invalid sudo user", { allow_sudo: true }, { sudo: true, sudoUser: "a;b" }, 'invalid sudo_user: "a;b"'],
  ["a PTY where it is forbidden", {}, { pty: true }, NO_PTY],
  ["a PTY for a bastion where it is forbidden", BASTION, { role: "bastion", pty: true }, NO_PTY],
  [
    "a file transfer where it is forbidden",
    {},
    { fileTransfer: true },
    'host "web01" does not allow file transfer (allow_file_transfer=false)',
  ],
  ["a host without principal", { principal: "" }, {}, "principal is required"],
])("decideSsh() denies %s", (_name, host, fields, reason) => {
  const decision = denySample(host, fields);
  assert.deepEqual([decision.reason, decision.matchedRule, decision.enforcement], [reason, "", ""]);
});

// Each intent fails two adjacent gates. The error must come from the earlier gate.
Deno.test.each<[name: string, fields: Partial<SshIntent>, reason: RegExp]>([
  ["role before purpose", { role: "x", purpose: "x" }, /unknown role/],
  ["purpose before identities", { purpose: "x", caller: "a b" }, /unknown purpose/],
  ["session mode before identities", { ...EXEC, sessionMode: "x", caller: "a b" }, /unknown session mode/],
  ["identities before newline", { caller: "a b", command: "a\nb" }, /disallowed characters/],
  ["newline before white space", { command: "\n" }, /must not contain newline/],
  ["white space before allowed_callers", { command: " ", caller: "x" }, /must not be empty/],
  ["allowed_callers before groups", { caller: "x", endUserGroups: [] }, /caller "x" not authorised/],
  ["groups before bastion", { role: "bastion", endUserGroups: [] }, /\(groups\)/],
  ["bastion before pty", { role: "bastion", pty: true }, /not allowed as a bastion/],
  ["sudo before pty", { sudo: true, pty: true }, /allow_sudo/],
  ["pty before file transfer", { pty: true, fileTransfer: true }, /allow_pty/],
  ["file transfer before rules", { fileTransfer: true, command: "id" }, /allow_file_transfer/],
  ["rules before principal", { command: "id" }, /command not allowed/],
])("decideSsh() checks %s", (_name, fields, reason) => {
  const host = { allowed_callers: ["broker-1"], principal: "", command_policy: SAMPLE_RULES };
  assert.match(denySample(host, fields).reason, reason);
});

Deno.test("decideSsh() denies a bastion with rules even if compilation accepted it", () => {
  const policy = compileSample(sampleConfig({ command_policy: SAMPLE_RULES }));
  const host = policy.hosts.get("web01")!;
  const hosts = new Map([["web01", { ...host, allow_as_bastion: true }]]);
  const decision = decideSsh({ ...policy, hosts }, sampleIntent({ role: "bastion" }));
  assert(decision.kind === "denied");
  assert.equal(decision.reason, 'host "web01": command-policy hosts cannot be used as bastions');
});

Deno.test.each(
  [
    { name: "a newline", fields: { command: "uptime\nid" } },
    { name: "a blank command", fields: { command: " " } },
    { name: "a shell session", fields: { purpose: "session", sessionMode: "shell" } },
    { name: "a foreign caller", fields: { caller: "x" } },
    { name: "a foreign end user", fields: { endUserGroups: [] } },
    { name: "sudo", fields: { sudo: true } },
    { name: "a PTY", fields: { pty: true } },
    { name: "a file transfer", fields: { fileTransfer: true } },
  ] satisfies { name: string; fields: Partial<SshIntent> }[],
)("decideSsh() denies $name in audit mode too", ({ fields }) => {
  denySample(
    { allowed_callers: ["broker-1"], command_policy: { ...SAMPLE_RULES, enforcement: "audit" } },
    fields,
  );
});
