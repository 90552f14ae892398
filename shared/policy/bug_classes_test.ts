import assert from "node:assert/strict";
import {
  allowSample,
  compileSample,
  decideSample,
  decideUnder,
  denySample,
  sampleConfig,
  sampleHost,
  sampleIntent,
} from "../testing/sample_policy.ts";
import { compilePolicy } from "./compile.ts";
import { elevateCommand } from "./shell.ts";
import { type CommandPolicy, type HostPolicy, hostPolicy } from "./model.ts";
import { decideSsh, mayUseHost, toWireDecision } from "./ssh.ts";
import { visibleHosts } from "./host_rules.ts";
import { finish } from "../clock.ts";
import { describeSharedPrincipals, describeUnsealedTwins, findUnsharedPrincipals } from "./warnings.ts";

const PS: CommandPolicy = { mode: "allowlist", allow: ["^ps"] };
const NO_RM: CommandPolicy = { mode: "denylist", deny: ["^rm\\b", "^shadow"] };
const NO_RM_RF: CommandPolicy = { mode: "denylist", deny: ["^rm -rf "] };

Deno.test.each(
  [
    { name: "F1: a second line after an allowed first", policy: PS, command: "ps\nrm -rf /" },
    { name: "F1: a second line after a carriage return", policy: PS, command: "ps\r\nrm -rf /" },
    { name: "F1: a second line without parsing", policy: { ...PS, shell_parse: false }, command: "ps\nrm" },
    { name: "F2: a compound command whose head is allowed", policy: PS, command: "ps; rm -rf /" },
    { name: "F2: the same with &&", policy: PS, command: "ps && rm -rf /" },
    { name: "F2: the same with a pipe", policy: PS, command: "ps | rm -rf /" },
    { name: "F7: an empty command", policy: PS, command: "" },
    { name: "F7: a white-space command on a denylist", policy: NO_RM, command: "\t " },
    { name: "F7: a comment as the only command", policy: NO_RM, command: "# x" },
    { name: "F8: a file after >&", policy: PS, command: "ps >&/etc/passwd" },
    { name: "F8: a file after <&", policy: PS, command: "ps <&/etc/passwd" },
    { name: "F8: a file after >& with leading digits", policy: PS, command: "ps >&1file" },
    { name: "F9: a preceding assignment", policy: NO_RM, command: "LD_PRELOAD=/tmp/x.so; ps" },
    { name: "F9: an inline assignment", policy: NO_RM, command: "GIT_SSH_COMMAND=x ps" },
    { name: "F9: export", policy: { mode: "denylist", deny: ["^rm"] }, command: "export PATH=/tmp; ps" },
    { name: "F9: read", policy: NO_RM, command: "read PATH; ps" },
    { name: "F9: a loop variable", policy: NO_RM, command: "for PATH in /opt/evil; do uptime; done" },
    { name: "F9: an assigning expansion", policy: NO_RM, command: "case ${PATH:=/x} in x) ps;; esac" },
    { name: "F10: a quoted name", policy: NO_RM, command: "'rm' x" },
    { name: "F10: a name quoted in part", policy: NO_RM, command: 'r"m" x' },
    { name: "F10: a name in ANSI-C quotes", policy: NO_RM, command: "$'\\x72m' x" },
    { name: "F11: an expansion as a space", policy: NO_RM_RF, command: "rm$IFS-rf$IFS/" },
    { name: "F11: an expansion within a name", policy: NO_RM, command: "r${x}m x" },
    { name: "F11: a substituted name", policy: NO_RM, command: "$(echo rm) x" },
    { name: "F11: an expansion in double quotes", policy: NO_RM, command: '"$RM" x' },
    { name: "F12: a glob", policy: NO_RM, command: "/bin/r? x" },
    { name: "F12: a brace expansion", policy: NO_RM, command: "{rm,x}" },
    { name: "F12: a bracket", policy: NO_RM, command: "/bin/[r]m x" },
    { name: "F12: a tilde", policy: NO_RM, command: "~/bin/x" },
    { name: "F13: a backslash in the name", policy: NO_RM, command: "r\\m x" },
    { name: "F13: a backslash in an argument", policy: NO_RM, command: "cat /etc/sha\\dow" },
    { name: "F14: bash -c", policy: { mode: "allowlist", allow: ["^bash -c"] }, command: "bash -c 'rm x'" },
    { name: "F14: env", policy: NO_RM, command: "env rm x" },
    { name: "F14: xargs", policy: NO_RM, command: "echo x | xargs rm" },
    { name: "F15: sudo", policy: NO_RM, command: "sudo rm x" },
    { name: "F15: .", policy: NO_RM, command: ". /tmp/x" },
    { name: "F15: awk", policy: NO_RM, command: "awk 'BEGIN{system(\"rm x\")}'" },
    { name: "F16: a versioned interpreter", policy: NO_RM, command: "python3.12 -c x" },
    { name: "F16: a path to time", policy: NO_RM, command: "/usr/bin/time rm x" },
    { name: "F16: ash", policy: NO_RM, command: "ash -c 'rm x'" },
  ] satisfies { name: string; policy: CommandPolicy; command: string }[],
)("$name is denied", ({ policy, command }) => {
  assert.equal(decideUnder(policy, command).kind, "denied");
});

Deno.test.each([
  { name: "an unknown role", fields: { role: "Target" } },
  { name: "an empty purpose", fields: { purpose: "" } },
  { name: "an unknown purpose", fields: { purpose: "interactive" } },
])("F3: $name is denied on a host with rules and on a bastion without rules", ({ fields }) => {
  assert.equal(decideSample({ command_policy: PS }, { ...fields, command: "id" }).kind, "denied");
  assert.equal(decideSample({ allow_as_bastion: true }, fields).kind, "denied");
});

Deno.test("F4: a required approval applies to the whole chain of commands", () => {
  const policy: CommandPolicy = { mode: "allowlist", allow: ["."], require_approval: ["^reboot"] };
  for (const command of ["reboot; ps", "ps; reboot", "ps | reboot | ps"]) {
    const decision = decideUnder(policy, command);
    assert(decision.kind === "allowed" && decision.requireApproval, command);
  }
});

Deno.test("F17: an allow list in denylist mode is a config error", () => {
  const deny = decideUnder({ mode: "allowlist", allow: ["."], deny: ["^rm"] }, "rm x");
  assert.equal(deny.kind, "denied");
  const allow = compilePolicy(sampleConfig({ command_policy: { mode: "denylist", allow: ["^ps"] } }));
  assert.equal(allow.kind, "invalid");
});

Deno.test("F19: a session's command is decided by the policy in force when it is sent", () => {
  const session = sampleIntent({ purpose: "session", sessionMode: "exec", command: "id" });
  const before = compileSample(sampleConfig());
  const after = compileSample(sampleConfig({ command_policy: PS }));
  assert.equal(decideSsh(before, session).kind, "allowed");
  assert.equal(decideSsh(after, session).kind, "denied");
  for (const command of ["ps", ""]) {
    assert.equal(decideSsh(after, { ...session, command }).kind, "allowed");
    assert.equal(decideSsh(after, { ...session, command, sessionMode: "shell" }).kind, "denied");
  }
});

Deno.test("F20: one-shot command, session and dry run get the same decision", () => {
  for (const command of ["ps", "ps; id", "id", "ps $(id)"]) {
    const oneshot = toWireDecision(decideUnder(PS, command));
    const session = toWireDecision(
      decideSample({ command_policy: PS }, { purpose: "session", sessionMode: "exec", command }),
    );
    assert.deepEqual({ ...oneshot, force_command: undefined }, { ...session, force_command: undefined });
  }
});

Deno.test("F21: a command that contains = and a builtin are elevated through a shell", () => {
  assert.equal(elevateCommand("sudo -n", "a=b"), "sudo -n -- /bin/sh -c 'a=b'");
  assert.equal(elevateCommand("sudo -n", "9=b x"), "sudo -n -- /bin/sh -c '9=b x'");
  assert.equal(elevateCommand("sudo -n", "cd /"), "sudo -n -- /bin/sh -c 'cd /'");
});

Deno.test("the listed hosts are exactly the hosts that can be signed for, for every caller (I4)", () => {
  const policy = compileSample(sampleConfig({}, {
    hosts: {
      web01: sampleHost({ groups: ["web"] }),
      web02: sampleHost({ groups: ["web"], allowed_callers: ["b"] }),
      db01: sampleHost({ groups: ["db", "web"], allowed_callers: ["a", "c"] }),
      bare: sampleHost(),
    },
    callers: { a: { allowed_groups: ["web"] }, b: { allowed_groups: ["web", "db"] }, c: {} },
  }));
  for (const caller of ["a", "b", "c", "stranger", "_default", ""]) {
    const listed = Object.keys(visibleHosts(policy, caller));
    const signed = [...policy.hosts.keys()].filter((host) =>
      mayUseHost(policy, caller, host) === "ok" &&
      decideSsh(policy, sampleIntent({ caller, host })).kind === "allowed"
    );
    assert.deepEqual(listed, signed.sort(), caller);
  }
});

const SEALED: Partial<HostPolicy> = { sealed_exec: true };
const BASTION: Partial<HostPolicy> = { sealed_exec: true, allow_as_bastion: true };
const OTHER_SHIM: Partial<HostPolicy> = { sealed_exec: true, envelope: "v1", shim_command: "other-shim" };
const SHIM = "gateway-shim web01";
const EXEC = { purpose: "session", sessionMode: "exec", command: "" };

Deno.test.each<[name: string, keys: Partial<HostPolicy>]>([
  ["a domain without a format", {}],
  ["a domain for v2", { envelope: "v2" }],
  ["a domain for v3", { envelope: "v3" }],
])("compilePolicy() rejects %s", (_name, keys) => {
  const compiled = compilePolicy(sampleConfig({ ...SEALED, envelope_domain: "x", ...keys }));
  assert(compiled.kind === "invalid");
  const paths = compiled.problems.map((problem) => problem.split(":")[0]);
  assert.deepEqual(paths, ["hosts.web01.envelope_domain"]);
});

Deno.test.each([
  { name: "web01", valid: true },
  { name: "Web.01_a-b", valid: true },
  { name: "0", valid: true },
  { name: "x".repeat(64), valid: true },
  { name: "x".repeat(65), valid: false },
  { name: "-web01", valid: false },
  { name: ".web01", valid: false },
  { name: "web01;id", valid: false },
  { name: "$(id)", valid: false },
  { name: "wéb", valid: false },
])("compilePolicy() accepts $name as a sealed host's name: $valid", ({ name, valid }) => {
  const compiled = compilePolicy({ ...sampleConfig(), hosts: { [name]: sampleHost(SEALED) } });
  assert.equal(compiled.kind, valid ? "ok" : "invalid");
});

Deno.test.each([
  { keys: { envelope: "v3" }, valid: true },
  { keys: { envelope: "v4" }, valid: false },
  { keys: { sealed_exec: false }, valid: true },
  { keys: { sealed_exec: "yes" }, valid: false },
  { keys: { envelope: "v1", envelope_domain: "other product v1" }, valid: true },
  { keys: { envelope: "v1", envelope_domain: "" }, valid: false },
  { keys: { envelope: "v1", envelope_domain: "a\u0000b" }, valid: false },
  { keys: { envelope: "v1", envelope_domain: "a\nb" }, valid: false },
  { keys: { shim_command: "/usr/local/bin/other-shim" }, valid: true },
  { keys: { shim_command: "gateway shim" }, valid: false },
  { keys: { shim_command: "" }, valid: false },
  { keys: { shim_command: "-c" }, valid: false },
  { keys: { shim_command: "shim;id" }, valid: false },
  { keys: { shim_command: "A=b" }, valid: false },
])("a host with $keys is valid: $valid", ({ keys, valid }) => {
  assert.equal(hostPolicy.safeParse({ ...sampleHost(), ...keys }).success, valid);
});

Deno.test.each([
  ["a session", SHIM, SEALED, EXEC],
  ["a session, whatever command is sent with it", SHIM, SEALED, { ...EXEC, command: "uptime" }],
  ["a session, elevated", SHIM, { ...SEALED, allow_sudo: true }, { ...EXEC, sudo: true }],
  ["a session under another build's shim", "other-shim web01", OTHER_SHIM, EXEC],
  ["a one-shot", "uptime", SEALED, {}],
  ["a bastion", SHIM, BASTION, { role: "bastion" }],
  ["an unsealed session", undefined, { sealed_exec: false }, EXEC],
])("the certificate of %s is locked to %s", (_name, forced, host, intent) => {
  assert.equal(toWireDecision(decideSample(host, intent)).force_command, forced);
});

Deno.test.each([{ mode: "shell" }, { mode: "pty" }, { mode: "" }, { mode: "other" }])(
  "a sealed host denies a session of mode '$mode', even without rules",
  ({ mode }) => {
    const decision = denySample({ ...SEALED, allow_pty: true }, { ...EXEC, sessionMode: mode });
    assert.equal(decision.reason, 'host "web01" has sealed_exec: sessions require mode="exec"');
  },
);

Deno.test("a sealed host denies a PTY in its sessions", () => {
  const pager = { ...EXEC, command: "less /etc/motd", pty: true };
  const { reason } = denySample({ ...SEALED, allow_pty: true }, pager);
  assert.equal(reason, 'host "web01" has sealed_exec: sessions have no PTY; use a one-shot command');
});

Deno.test.each([
  ["nothing", {}, {}, "none"],
  ["nothing for a digest without a transfer", {}, { contentSha256: "ab" }, "none"],
  ["nothing for a transfer without a digest", {}, { fileTransfer: true }, "none"],
  ["the content with the transfer's digest", {}, { fileTransfer: true, contentSha256: "ab" }, "ab"],
  ["the end of its connection", { stop_on_disconnect: true }, {}, "watch"],
])("the envelope permits a command to read %s", (_name, host, intent, stdin) => {
  const keys = { ...SEALED, allow_file_transfer: true, ...host };
  assert.equal(allowSample(keys, { ...EXEC, command: "cat", ...intent }).sealedStdin, stdin);
});

Deno.test("a sealed bastion's hop of a session requires no mode", () => {
  allowSample(BASTION, { role: "bastion", purpose: "session", sessionMode: "" });
});

Deno.test.each([
  ["as it is", SEALED, {}, "ls\nid"],
  ["elevated", { ...SEALED, allow_sudo: true }, { sudo: true, command: "ls /root" }, "sudo -n -- ls /root"],
  ["not at a session's opening", SEALED, { command: "" }, ""],
  ["not of a one-shot", SEALED, { purpose: "oneshot", command: "ls" }, ""],
  ["not for a bastion", BASTION, { role: "bastion" }, ""],
  ["not on an unsealed host", {}, {}, ""],
])("the command is sealed %s", (_name, host, intent, sealed) => {
  assert.equal(allowSample(host, { ...EXEC, command: "ls\nid", ...intent }).sealedCommand, sealed);
});

Deno.test("a sealed command with stop_on_disconnect contains the same watchdog as a one-shot command", () => {
  const keys = { stop_on_disconnect: true };
  const session = allowSample({ ...SEALED, ...keys }, { ...EXEC, command: "uptime" });
  assert.equal(session.sealedCommand, allowSample(keys, { command: "uptime" }).forceCommand);
});

Deno.test.each([{ host: SEALED, kind: "denied" }, { host: {}, kind: "allowed" }])(
  "a NUL in a session's command on $host is $kind",
  ({ host, kind }) => {
    assert.equal(decideSample(host, { ...EXEC, command: "id\0; reboot" }).kind, kind);
  },
);

Deno.test("a lone surrogate is sealed as U+FFFD", () => {
  assert.equal(allowSample(SEALED, { ...EXEC, command: "echo \ud800" }).sealedCommand, "echo \ufffd");
});

const owned = (principal: string, shared_principal?: boolean) => ({
  principal,
  ...(shared_principal !== undefined && { shared_principal }),
});

Deno.test.each([
  ["different ones", { a: owned("p"), b: owned("q") }, [], 0],
  ["none at all", { a: owned(""), b: owned(""), c: {} }, [], 0],
  ["one", { a: owned("p"), b: owned("p") }, ["a", "b"], 1],
  ["equal, and only one host may share it", { a: owned("p", true), b: owned("p") }, ["b"], 1],
  ["equal, and one host must not share it", { a: owned("p", true), b: owned("p", false) }, ["b"], 1],
  ["equal, and all hosts may share it", { a: owned("p", true), b: owned("p", true), c: owned("q") }, [], 1],
  ["one but for its case", { a: owned("p"), b: owned("P") }, [], 0],
])("principal warnings for hosts whose principals are %s", (_name, hosts, paths, warnings) => {
  const problems = finish(findUnsharedPrincipals(hosts));
  assert.deepEqual(
    problems.map((problem) => problem.split(":")[0]),
    paths.map((name) => `hosts.${name}.principal`),
  );
  assert.equal(finish(describeSharedPrincipals(hosts)).length, warnings);
});

Deno.test("compilePolicy() rejects hosts with one principal unless both set shared_principal", () => {
  const config = (shared: boolean) => ({
    ...sampleConfig(),
    hosts: {
      web01: sampleHost({ shared_principal: true }),
      web02: sampleHost({ shared_principal: shared }),
    },
  });
  const refused = compilePolicy(config(false));
  assert(refused.kind === "invalid");
  assert.equal(refused.problems.length, 1);
  assert.match(refused.problems.join(), /^hosts\.web02\.principal: "host:web01" is also that of "web01"/);
  assert.equal(compileSample(config(true)).hosts.size, 2);
});

const account = (addr: string, user: string, sealed_exec?: boolean) => ({
  ...{ addr, user },
  ...(sealed_exec !== undefined && { sealed_exec }),
});

Deno.test.each([
  ["another account", [], account("10.0.0.1:22", "app")],
  ["another address", [], account("10.0.0.2:22", "deploy")],
  ["the same account, sealed", [], account("10.0.0.1:22", "deploy", true)],
  ["the same account, not sealed", ["hosts.web"], account("10.0.0.1:22", "deploy", false)],
  ["no address, like another", [], account("", "deploy", false)],
])("a host with %s next to a sealed host causes warnings for %s", (_name, warned, web) => {
  const sealed = { web01: account("10.0.0.1:22", "deploy", true), db01: account("", "deploy", true) };
  const found = finish(describeUnsealedTwins({ ...sealed, web }));
  assert.deepEqual(found.map((text) => text.split(":")[0]), warned);
});
