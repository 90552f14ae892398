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
import type { CommandPolicy, HostPolicy } from "./model.ts";
import { decideSsh, type SshIntent, toWireDecision } from "./ssh.ts";

Deno.test.each([
  {
    name: "an unlisted command",
    command: "id",
    reason: 'command not allowed on "web01" by command_policy (allowlist:no-match)',
    rule: "allowlist:no-match",
  },
  {
    name: "a smuggled command",
    command: "uptime; id",
    reason: 'command not allowed on "web01" by command_policy (allowlist:no-match)',
    rule: "allowlist:no-match",
  },
  {
    name: "a structure",
    command: "uptime $(id)",
    reason: 'command_policy for "web01": command substitution',
    rule: "shell-parse:command substitution",
  },
  {
    name: "a wrapper, although allowlisted",
    command: "systemctl x | env id",
    reason: 'command_policy for "web01": program "env" that runs another command',
    rule: 'shell-parse:program "env" that runs another command',
  },
])("decideSsh() denies by the rules: $name", ({ command, reason, rule }) => {
  const decision = decideUnder(SAMPLE_RULES, command);
  assert(decision.kind === "denied");
  assert.equal(decision.reason, reason);
  assert.deepEqual(toWireDecision(decision), {
    allowed: false,
    reason,
    matched_rule: rule,
    enforcement: "enforce",
  });
});

Deno.test.each(
  [
    {
      name: "a deny rule",
      policy: { mode: "denylist", deny: ["^rm"] },
      command: "rm x",
      rule: "deny:^rm",
      allowed: false,
    },
    { name: "an allow rule", policy: SAMPLE_RULES, command: "uptime", rule: "allow:^uptime$", allowed: true },
    {
      name: "an approval rule",
      policy: SAMPLE_RULES,
      command: "systemctl restart x",
      rule: "require_approval:restart",
      allowed: true,
    },
    { name: "no match", policy: SAMPLE_RULES, command: "id", rule: "allowlist:no-match", allowed: false },
    {
      name: "a structure",
      policy: SAMPLE_RULES,
      command: "(id)",
      rule: "shell-parse:subshell",
      allowed: false,
    },
    {
      name: "no rule",
      policy: { mode: "denylist", deny: ["^rm"] },
      command: "id",
      rule: undefined,
      allowed: true,
    },
  ] satisfies {
    name: string;
    policy: CommandPolicy;
    command: string;
    rule: string | undefined;
    allowed: boolean;
  }[],
)(
  "decideSsh() reports $name as matched_rule",
  ({ policy, command, rule, allowed }) => {
    const wire = toWireDecision(decideUnder(policy, command));
    assert.equal(wire.matched_rule, rule);
    assert.equal(wire.allowed, allowed);
  },
);

Deno.test("decideSsh() asks for approval and stays allowed", () => {
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

Deno.test.each([
  {
    name: "would deny",
    command: "id",
    warning: "command_policy audit: would deny (allowlist:no-match)",
    deny: true,
    approval: false,
  },
  {
    name: "would deny for structure",
    command: "id > x",
    warning: "command_policy audit: would deny (shell-parse:file redirect)",
    deny: true,
    approval: false,
  },
  {
    name: "would require approval",
    command: "systemctl restart x",
    warning: "command_policy audit: would require approval (require_approval:restart)",
    deny: false,
    approval: true,
  },
  {
    name: "would deny and require approval",
    command: "restart x",
    warning: "command_policy audit: would deny and would require approval (allowlist:no-match)",
    deny: true,
    approval: true,
  },
  { name: "has nothing to say", command: "uptime", warning: "", deny: false, approval: false },
])("decideSsh() warns in audit mode when the policy $name", ({ command, warning, deny, approval }) => {
  const decision = decideUnder({ ...SAMPLE_RULES, enforcement: "audit" }, command);
  assert(decision.kind === "allowed");
  assert.equal(decision.enforcement, "audit");
  assert.equal(decision.warning, warning);
  assert.equal(decision.wouldDeny, deny);
  assert.equal(decision.wouldRequireApproval, approval);
  assert.equal(decision.requireApproval, false);
  assert.equal(decision.forceCommand, command);
});

Deno.test.each(["shell", "pty"].map((sessionMode) => ({ sessionMode })))(
  "decideSsh() denies a $sessionMode session on a host with rules",
  ({ sessionMode }) => {
    const decision = denySample({ command_policy: SAMPLE_RULES }, {
      purpose: "session",
      sessionMode,
      command: "",
    });
    assert.equal(decision.reason, 'host "web01" has command_policy: sessions require mode="exec"');
    assert.equal(decision.enforcement, "enforce");
    assert.equal(allowSample({}, { purpose: "session", sessionMode, command: "" }).forceCommand, "");
  },
);

Deno.test("decideSsh() opens an exec session on a host with rules and decides each command", () => {
  const session = { purpose: "session", sessionMode: "exec" };
  const opened = allowSample({ command_policy: SAMPLE_RULES }, { ...session, command: "" });
  assert.deepEqual(toWireDecision(opened), { allowed: true, ttl_seconds: 300, enforcement: "enforce" });
  const command = allowSample({ command_policy: SAMPLE_RULES }, { ...session, command: "uptime" });
  assert.equal(command.forceCommand, "");
  assert.equal(command.matchedRule, "allow:^uptime$");
  assert.equal(
    denySample({ command_policy: SAMPLE_RULES }, { ...session, command: "id" }).matchedRule,
    "allowlist:no-match",
  );
  assert.equal(
    denySample({ command_policy: SAMPLE_RULES }, { ...session, command: " " }).matchedRule,
    "shell-parse:no command found",
  );
});

Deno.test.each(
  [
    { name: "a target's one-shot command", fields: {}, force: "uptime", prefix: "" },
    {
      name: "a target's session",
      fields: { purpose: "session", sessionMode: "shell" },
      force: "",
      prefix: "",
    },
    { name: "a bastion", fields: { role: "bastion" }, force: "exit 1", prefix: "" },
    {
      name: "a bastion on the way of a session",
      fields: { role: "bastion", purpose: "session", sessionMode: "exec" },
      force: "exit 1",
      prefix: "",
    },
    { name: "an elevated one-shot command", fields: { sudo: true }, force: "sudo -n -- uptime", prefix: "" },
    {
      name: "one elevated to a user",
      fields: { sudo: true, sudoUser: "db", command: "id; id" },
      force: "sudo -n -u db -- /bin/sh -c 'id; id'",
      prefix: "",
    },
    {
      name: "an elevated session",
      fields: { sudo: true, sudoUser: "db", purpose: "session", sessionMode: "exec" },
      force: "",
      prefix: "sudo -n -u db",
    },
    {
      name: "a bastion that asks for sudo",
      fields: { role: "bastion", sudo: true, sudoUser: "not listed" },
      force: "exit 1",
      prefix: "",
    },
    { name: "a user without sudo", fields: { sudoUser: "not listed" }, force: "uptime", prefix: "" },
    {
      name: "a lone surrogate, as U+FFFD",
      fields: { command: "echo \ud800" },
      force: "echo \ufffd",
      prefix: "",
    },
  ] satisfies { name: string; fields: Partial<SshIntent>; force: string; prefix: string }[],
)(
  "decideSsh() gives force-command and prefix for $name",
  ({ fields, force, prefix }) => {
    const decision = allowSample(
      { allow_sudo: true, allowed_sudo_users: ["db"], allow_as_bastion: true },
      fields,
    );
    assert.equal(decision.forceCommand, force);
    assert.equal(decision.elevationPrefix, prefix);
  },
);

Deno.test.each(
  [
    { name: "no elevation", fields: {}, elevation: "", sudoPrefix: "" },
    { name: "root", fields: { sudo: true }, elevation: "sudo:root", sudoPrefix: "sudo -n" },
    {
      name: "another user",
      fields: { sudo: true, sudoUser: "db" },
      elevation: "sudo:db",
      sudoPrefix: "sudo -n -u db",
    },
    { name: "none for a bastion", fields: { sudo: true, role: "bastion" }, elevation: "", sudoPrefix: "" },
  ] satisfies { name: string; fields: Partial<SshIntent>; elevation: string; sudoPrefix: string }[],
)(
  "decideSsh() names the elevation: $name",
  ({ fields, elevation, sudoPrefix }) => {
    const decision = allowSample(
      { allow_sudo: true, allowed_sudo_users: ["db"], allow_as_bastion: true },
      fields,
    );
    assert.equal(decision.elevation, elevation);
    assert.equal(decision.sudoPrefix, sudoPrefix);
  },
);

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

Deno.test.each(
  [
    { name: "PTY", host: { allow_pty: true }, fields: { pty: true } },
    { name: "file transfer", host: { allow_file_transfer: true }, fields: { fileTransfer: true } },
    { name: "a listed caller", host: { allowed_callers: ["broker-1"] }, fields: {} },
    { name: "any caller for an empty list", host: { allowed_callers: [] }, fields: {} },
    { name: "an end user of a group", host: { groups: ["a", "b"] }, fields: { endUserGroups: ["b"] } },
    { name: "an end user without groups known", host: {}, fields: { endUser: "eve", endUserGroups: null } },
    {
      name: "a newline in a session without rules",
      host: {},
      fields: { purpose: "session", sessionMode: "exec", command: "a\nb" },
    },
    { name: "any command without rules", host: {}, fields: { command: "rm -rf $HOME & (id)" } },
    { name: "any session mode for a one-shot command", host: {}, fields: { sessionMode: "x11" } },
    {
      name: "a bastion's session without mode",
      host: { allow_as_bastion: true },
      fields: { role: "bastion", purpose: "session" },
    },
  ] satisfies { name: string; host: Partial<HostPolicy>; fields: Partial<SshIntent> }[],
)(
  "decideSsh() allows $name",
  ({ host, fields }) => {
    assert.equal(allowSample(host, fields).enforcement, "");
  },
);

Deno.test("toWireDecision() keeps the order of the keys and omits what is empty", () => {
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

// One row for every gate, in the order of the gates.
Deno.test.each(
  [
    { name: "an unknown host", host: {}, fields: { host: "nope" }, reason: 'no policy for host: "nope"' },
    { name: "an unknown role", host: {}, fields: { role: "admin" }, reason: 'unknown role: "admin"' },
    { name: "an empty role", host: {}, fields: { role: "" }, reason: 'unknown role: ""' },
    { name: "an unknown purpose", host: {}, fields: { purpose: "exec" }, reason: 'unknown purpose: "exec"' },
    { name: "an empty purpose", host: {}, fields: { purpose: "" }, reason: 'unknown purpose: ""' },
    {
      name: "an unknown session mode",
      host: {},
      fields: { purpose: "session", sessionMode: "x11" },
      reason: 'unknown session mode: "x11"',
    },
    {
      name: "a session without mode",
      host: {},
      fields: { purpose: "session" },
      reason: 'unknown session mode: ""',
    },
    {
      name: "a caller with a blank",
      host: {},
      fields: { caller: "a b" },
      reason: 'caller "a b" contains disallowed characters',
    },
    {
      name: "a caller with a control character",
      host: {},
      fields: { caller: "a\x1b" },
      reason: 'caller "a\\x1b" contains disallowed characters',
    },
    {
      name: "an end user with a blank",
      host: {},
      fields: { endUser: "x role=bastion" },
      reason: 'end_user "x role=bastion" contains disallowed characters',
    },
    {
      name: "an end user with a tab",
      host: {},
      fields: { endUser: "x\ty" },
      reason: 'end_user "x\\ty" contains disallowed characters',
    },
    {
      name: "a newline",
      host: {},
      fields: { command: "uptime\nid" },
      reason: "command must not contain newline or carriage return",
    },
    {
      name: "a carriage return",
      host: {},
      fields: { command: "uptime\rid" },
      reason: "command must not contain newline or carriage return",
    },
    { name: "NUL", host: {}, fields: { command: "uptime\0id" }, reason: "command must not contain NUL" },
    {
      name: "a newline for a bastion",
      host: { allow_as_bastion: true },
      fields: { role: "bastion", command: "a\nb" },
      reason: "command must not contain newline or carriage return",
    },
    {
      name: "a newline in a session under rules",
      host: { command_policy: SAMPLE_RULES },
      fields: { purpose: "session", sessionMode: "exec", command: "uptime\nid" },
      reason: "command must not contain newline or carriage return",
    },
    {
      name: "an empty one-shot command",
      host: {},
      fields: { command: "" },
      reason: "one-shot command must not be empty",
    },
    {
      name: "a blank one-shot command",
      host: {},
      fields: { command: " \t\u00a0" },
      reason: "one-shot command must not be empty",
    },
    {
      name: "a caller that the host does not list",
      host: { allowed_callers: ["broker-2"] },
      fields: {},
      reason: 'caller "broker-1" not authorised for "web01"',
    },
    {
      name: "an end user of other groups",
      host: { groups: ["web"] },
      fields: { endUser: "eve", endUserGroups: ["db"] },
      reason: 'user "eve" not authorised for "web01" (groups)',
    },
    {
      name: "an end user of no group",
      host: { groups: ["web"] },
      fields: { endUser: "eve", endUserGroups: [] },
      reason: 'user "eve" not authorised for "web01" (groups)',
    },
    {
      name: "an end user on a host of no group",
      host: {},
      fields: { endUser: "eve", endUserGroups: ["db"] },
      reason: 'user "eve" not authorised for "web01" (groups)',
    },
    {
      name: "an invalid bastion",
      host: {},
      fields: { role: "bastion" },
      reason: 'host "web01" is not allowed as a bastion',
    },
    {
      name: "sudo where it is forbidden",
      host: {},
      fields: { sudo: true },
      reason: 'host "web01" does not allow elevation (allow_sudo=false)',
    },
    {
      name: "an unlisted sudo user",
      host: { allow_sudo: true },
      fields: { sudo: true, sudoUser: "db" },
      reason: 'sudo_user "db" is not allowed on "web01"',
    },
    {
      name: "an invalid sudo user",
      host: { allow_sudo: true },
      fields: { sudo: true, sudoUser: "a;b" },
      reason: 'invalid sudo_user: "a;b"',
    },
    {
      name: "a PTY where it is forbidden",
      host: {},
      fields: { pty: true },
      reason: 'host "web01" does not allow PTY (allow_pty=false)',
    },
    {
      name: "a PTY for a bastion where it is forbidden",
      host: { allow_as_bastion: true },
      fields: { role: "bastion", pty: true },
      reason: 'host "web01" does not allow PTY (allow_pty=false)',
    },
    {
      name: "a file transfer where it is forbidden",
      host: {},
      fields: { fileTransfer: true },
      reason: 'host "web01" does not allow file transfer (allow_file_transfer=false)',
    },
    {
      name: "a host without principal",
      host: { principal: "" },
      fields: {},
      reason: "principal is required",
    },
  ] satisfies { name: string; host: Partial<HostPolicy>; fields: Partial<SshIntent>; reason: string }[],
)(
  "decideSsh() denies $name",
  ({ host, fields, reason }) => {
    const decision = denySample(host, fields);
    assert.equal(decision.reason, reason);
    assert.equal(decision.matchedRule, "");
    assert.equal(decision.enforcement, "");
  },
);

// Each intent fails two neighbouring gates; the earlier one has to speak.
Deno.test.each(
  [
    { name: "role before purpose", fields: { role: "x", purpose: "x" }, reason: /unknown role/ },
    { name: "purpose before identities", fields: { purpose: "x", caller: "a b" }, reason: /unknown purpose/ },
    {
      name: "session mode before identities",
      fields: { purpose: "session", sessionMode: "x", caller: "a b" },
      reason: /unknown session mode/,
    },
    {
      name: "identities before newline",
      fields: { caller: "a b", command: "a\nb" },
      reason: /disallowed characters/,
    },
    { name: "newline before blank", fields: { command: "\n" }, reason: /must not contain newline/ },
    {
      name: "blank before allowed_callers",
      fields: { command: " ", caller: "x" },
      reason: /must not be empty/,
    },
    {
      name: "allowed_callers before groups",
      fields: { caller: "x", endUserGroups: [] },
      reason: /caller "x" not authorised/,
    },
    { name: "groups before bastion", fields: { role: "bastion", endUserGroups: [] }, reason: /\(groups\)/ },
    {
      name: "bastion before pty",
      fields: { role: "bastion", pty: true },
      reason: /not allowed as a bastion/,
    },
    { name: "sudo before pty", fields: { sudo: true, pty: true }, reason: /allow_sudo/ },
    { name: "pty before file transfer", fields: { pty: true, fileTransfer: true }, reason: /allow_pty/ },
    {
      name: "file transfer before rules",
      fields: { fileTransfer: true, command: "id" },
      reason: /allow_file_transfer/,
    },
    { name: "rules before principal", fields: { command: "id" }, reason: /command not allowed/ },
  ] satisfies { name: string; fields: Partial<SshIntent>; reason: RegExp }[],
)(
  "decideSsh() checks $name",
  ({ fields, reason }) => {
    const host = { allowed_callers: ["broker-1"], principal: "", command_policy: SAMPLE_RULES };
    assert.match(denySample(host, fields).reason, reason);
  },
);

Deno.test("decideSsh() denies a bastion with rules even where compilation let it pass", () => {
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

Deno.test("decideSsh() quotes names so that nothing in them ends the quote", () => {
  const decision = decideSsh(compileSample(sampleConfig()), sampleIntent({ host: 'a"\nb' }));
  assert(decision.kind === "denied");
  assert.equal(decision.reason, 'no policy for host: "a\\"\\nb"');
});
