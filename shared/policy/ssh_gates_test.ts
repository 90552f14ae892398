import assert from "node:assert/strict";
import {
  compileSample,
  denySample,
  SAMPLE_RULES,
  sampleConfig,
  sampleIntent,
} from "../testing/sample_policy.ts";
import type { HostPolicy } from "./model.ts";
import { decideSsh, type SshIntent } from "./ssh.ts";

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
  const hosts = new Map([["web01", { ...host, allowAsBastion: true }]]);
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
