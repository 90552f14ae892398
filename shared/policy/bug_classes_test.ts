/** The classes of firewall bugs that are known from products like this one, a test for each. */
import assert from "node:assert/strict";
import {
  compileSample,
  decideSample,
  decideUnder,
  sampleConfig,
  sampleIntent,
} from "../testing/sample_policy.ts";
import { compilePolicy } from "./compile.ts";
import { elevateCommand } from "./shell.ts";
import type { CommandPolicy } from "./model.ts";
import { decideSsh, toWireDecision } from "./ssh.ts";

const PS: CommandPolicy = { mode: "allowlist", allow: ["^ps"] };
const NO_RM: CommandPolicy = { mode: "denylist", deny: ["^rm\\b", "^shadow"] };
const NO_RM_RF: CommandPolicy = { mode: "denylist", deny: ["^rm -rf "] };

Deno.test.each(
  [
    { name: "F1: a second line behind an allowed first", policy: PS, command: "ps\nrm -rf /" },
    { name: "F1: a second line behind a carriage return", policy: PS, command: "ps\r\nrm -rf /" },
    { name: "F1: a second line without parsing", policy: { ...PS, shell_parse: false }, command: "ps\nrm" },
    { name: "F2: a compound command whose head is allowed", policy: PS, command: "ps; rm -rf /" },
    { name: "F2: the same with &&", policy: PS, command: "ps && rm -rf /" },
    { name: "F2: the same with a pipe", policy: PS, command: "ps | rm -rf /" },
    { name: "F7: an empty command", policy: PS, command: "" },
    { name: "F7: a blank command on a denylist", policy: NO_RM, command: "\t " },
    { name: "F7: a comment as the only command", policy: NO_RM, command: "# x" },
    { name: "F8: a file behind >&", policy: PS, command: "ps >&/etc/passwd" },
    { name: "F8: a file behind <&", policy: PS, command: "ps <&/etc/passwd" },
    { name: "F8: a file behind >& with digits in front", policy: PS, command: "ps >&1file" },
    { name: "F9: an assignment in front", policy: NO_RM, command: "LD_PRELOAD=/tmp/x.so; ps" },
    { name: "F9: an inline assignment", policy: NO_RM, command: "GIT_SSH_COMMAND=x ps" },
    { name: "F9: export", policy: { mode: "denylist", deny: ["^rm"] }, command: "export PATH=/tmp; ps" },
    { name: "F9: read", policy: NO_RM, command: "read PATH; ps" },
    { name: "F9: a loop variable", policy: NO_RM, command: "for PATH in /opt/evil; do uptime; done" },
    { name: "F9: an assigning expansion", policy: NO_RM, command: "case ${PATH:=/x} in x) ps;; esac" },
    { name: "F10: a quoted name", policy: NO_RM, command: "'rm' x" },
    { name: "F10: a name quoted in part", policy: NO_RM, command: 'r"m" x' },
    { name: "F10: a name in ANSI-C quotes", policy: NO_RM, command: "$'\\x72m' x" },
    { name: "F11: an expansion as a blank", policy: NO_RM_RF, command: "rm$IFS-rf$IFS/" },
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
])("F3: $name never skips the rules, and is not a free shell where there are none", ({ fields }) => {
  assert.equal(decideSample({ command_policy: PS }, { ...fields, command: "id" }).kind, "denied");
  assert.equal(decideSample({ allow_as_bastion: true }, fields).kind, "denied");
});

Deno.test.each([{ command: "" }, { command: " \t" }])(
  "F7: no certificate without a command where there are no rules: $command",
  ({ command }) => {
    assert.equal(decideSample({}, { command }).kind, "denied");
  },
);

Deno.test("F4: a need for approval is kept over the rest of a chain", () => {
  const policy: CommandPolicy = { mode: "allowlist", allow: ["."], require_approval: ["^reboot"] };
  for (const command of ["reboot; ps", "ps; reboot", "ps | reboot | ps"]) {
    const decision = decideUnder(policy, command);
    assert(decision.kind === "allowed" && decision.requireApproval, command);
  }
});

Deno.test("F17: no list of rules is compiled where it is never consulted", () => {
  const deny = decideUnder({ mode: "allowlist", allow: ["."], deny: ["^rm"] }, "rm x");
  assert.equal(deny.kind, "denied");
  const allow = compilePolicy(sampleConfig({ command_policy: { mode: "denylist", allow: ["^ps"] } }));
  assert.equal(allow.kind, "invalid");
});

Deno.test("F19: a session's command meets the rules of the policy that holds when it is sent", () => {
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

Deno.test("F20: one-shot, session and dry run are one evaluation", () => {
  for (const command of ["ps", "ps; id", "id", "ps $(id)"]) {
    const oneshot = toWireDecision(decideUnder(PS, command));
    const session = toWireDecision(
      decideSample({ command_policy: PS }, { purpose: "session", sessionMode: "exec", command }),
    );
    assert.deepEqual({ ...oneshot, force_command: undefined }, { ...session, force_command: undefined });
  }
});

Deno.test("F21: a name with = and a builtin are elevated through a shell", () => {
  assert.equal(elevateCommand("sudo -n", "a=b"), "sudo -n -- /bin/sh -c 'a=b'");
  assert.equal(elevateCommand("sudo -n", "9=b x"), "sudo -n -- /bin/sh -c '9=b x'");
  assert.equal(elevateCommand("sudo -n", "cd /"), "sudo -n -- /bin/sh -c 'cd /'");
});
