import assert from "node:assert/strict";
import { stopOnDisconnect } from "@gateway/shared/policy";
import type { WireDecision } from "@gateway/shared/wire";
import { decisionView, renderDecision, viewDecision } from "./dry_run.ts";

Deno.test.each<[name: string, code: string, decision: WireDecision]>([
  ["an allowed command", "allowed", { allowed: true, matched_rule: "allow:x" }],
  ["an allowed command that would be denied", "allowed", {
    allowed: true,
    matched_rule: "deny:x",
    would_deny: true,
  }],
  ["a gated command", "needs_approval", { allowed: true, require_approval: true }],
  ["a denied command", "command_denied", { allowed: false, matched_rule: "deny:^rm" }],
  ["a denied command that would be gated", "command_denied", {
    allowed: false,
    require_approval: true,
    matched_rule: "deny:^rm",
  }],
  ["an unreadable command", "shell_parse_error", { allowed: false, matched_rule: "shell-parse:subshell" }],
  ["a command that no rule allows", "allowlist_no_match", {
    allowed: false,
    matched_rule: "allowlist:no-match",
  }],
  ["a rule that only begins like that", "denied", {
    allowed: false,
    matched_rule: "allowlist:no-match-at-all",
  }],
  ["refused sudo", "denied", { allowed: false, reason: "sudo not allowed" }],
])("viewDecision() gives %s the code %s", (_name, code, decision) => {
  assert.equal(viewDecision(decision, "x").reason_code, code);
});

Deno.test("viewDecision() shows what the signer says, but not what sessions and approvals need", () => {
  const decision: WireDecision = {
    allowed: true,
    require_approval: true,
    matched_rule: "require_approval:x",
    enforcement: "audit",
    force_command: "sudo -n -- x",
    ttl_seconds: 120,
    elevation: "sudo -n",
    warning: "w",
    would_deny: true,
    would_require_approval: true,
  };
  const { elevation: _elevation, would_require_approval: _gated, ...shown } = decision;
  assert.deepEqual(viewDecision(decision, "x"), { ...shown, reason_code: "needs_approval" });
});

Deno.test.each([
  ["as the account", "", "echo it's"],
  ["with sudo", "sudo -n -u app", String.raw`sudo -n -u app -- /bin/sh -c 'echo it'\''s'`],
])(
  "viewDecision() shows a command that ends with its connection without what watches it, %s",
  (_name, prefix, shown) => {
    const command = "echo it's";
    const decision = { allowed: true, force_command: stopOnDisconnect(prefix, command) };
    const view = viewDecision(decision, command);
    assert.deepEqual(view, {
      allowed: true,
      reason_code: "allowed",
      force_command: shown,
      stops_on_disconnect: true,
    });
    assert.match(renderDecision(view), /\nends with its connection \(stop_on_disconnect\)$/);
    assert.equal(viewDecision(decision, "another").force_command, decision.force_command);
  },
);

Deno.test("viewDecision() leaves out what is empty, false or 0", () => {
  const view = viewDecision({
    allowed: false,
    reason: "",
    require_approval: false,
    matched_rule: "",
    force_command: "",
    ttl_seconds: 0,
    warning: "",
    would_deny: false,
  }, "x");
  assert.deepEqual(view, { allowed: false, reason_code: "denied" });
  decisionView.parse(view);
});

Deno.test.each<{ name: string; decision: WireDecision; text: string }>([
  {
    name: "an allowed command",
    decision: { allowed: true, matched_rule: "allow:^uptime$", force_command: "uptime", ttl_seconds: 120 },
    text: "[dry-run] ALLOWED\nreason_code: allowed\nrule: allow:^uptime$\nforce-command: uptime\nttl: 120s",
  },
  {
    name: "a gated command",
    decision: { allowed: true, require_approval: true, matched_rule: "require_approval:x", warning: "w" },
    text: "[dry-run] ALLOWED (requires human approval before executing)\nreason_code: needs_approval\n" +
      "rule: require_approval:x\nwarning: w",
  },
  {
    name: "a denied command",
    decision: { allowed: false, reason: "command denied", matched_rule: "deny:^rm" },
    text: "[dry-run] DENIED: command denied\nreason_code: command_denied\nrule: deny:^rm",
  },
  { name: "a bare denial", decision: { allowed: false }, text: "[dry-run] DENIED\nreason_code: denied" },
])("renderDecision() shows $name", ({ decision, text }) => {
  assert.equal(renderDecision(viewDecision(decision, "x")), text);
});
