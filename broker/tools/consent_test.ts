import assert from "node:assert/strict";
import type { SignAnswer } from "../authority/authority.ts";
import { BrokerFixture } from "../testing/broker_fixture.ts";
import { ISSUED_UPTIME } from "../testing/fake_authority.ts";
import { createSshExecuteTool } from "./ssh_commands.ts";
import type { HumanAnswer } from "../request/execute.ts";
import { guardInput, MAX_FIELD_BYTES, type ToolContext } from "./tool.ts";
import { stopOnDisconnect } from "@gateway/shared/policy";
import type { WireDecision } from "@gateway/shared/wire";
import { decisionView, renderDecision, viewDecision } from "./dry_run.ts";

const NEEDED: SignAnswer = { kind: "needs_approval", rule: "require_approval:^reboot" };
const REQUIRED = 'command on "web01" requires human approval (require_approval:^reboot); ' +
  "approve it in-chat (if enabled), via the control plane, or with broker-ctl";

/** A chat whose human gives this answer. The broker's signer requires an approval for every command. */
class Chat {
  readonly broker = new BrokerFixture();
  readonly questions: string[] = [];
  readonly #answer: HumanAnswer | undefined;

  constructor(answer: HumanAnswer | undefined) {
    this.#answer = answer;
    this.broker.authority.answer = ({ approved }) => approved === true ? ISSUED_UPTIME : NEEDED;
  }

  call(args: Record<string, unknown> = {}) {
    const answer = this.#answer;
    const context: ToolContext = {
      caller: "mcp-stdio",
      callerGroups: null,
      bearerToken: undefined,
      signal: new AbortController().signal,
      ...(answer === undefined ? {} : {
        askHuman: (question) => {
          this.questions.push(question);
          return Promise.resolve(answer);
        },
      }),
    };
    return createSshExecuteTool(this.broker).call({ server: "web01", command: "reboot", ...args }, context);
  }

  get outcomes() {
    return this.broker.log.entries.map(({ outcome, err = "", approved_via: via = "" }) =>
      [outcome, err, via].filter((part) => part !== "").join("|")
    );
  }
}

Deno.test("ssh_execute runs nothing and records the declined approval (A14)", async () => {
  const chat = new Chat({ kind: "declined", why: "declined: cancel" });
  await assert.rejects(chat.call(), {
    code: "denied",
    message: 'approval declined: "reboot" was not run on "web01"',
  });
  assert.deepEqual(chat.broker.runner.runs, []);
  const declined = chat.broker.log.entries.at(-1);
  assert.deepEqual(declined, {
    caller: "mcp-stdio",
    host: "10.0.0.1:22",
    host_name: "web01",
    addr: "10.0.0.1:22",
    user: "deploy",
    command: "reboot",
    elevation: "",
    pty: false,
    dry_run: false,
    approved_via: "elicitation",
    outcome: "approval_declined",
    policy_rule: "require_approval:^reboot",
    err: "declined: cancel",
  });
});

Deno.test("ssh_execute asks only once if the signer does not let the broker approve (I22)", async () => {
  const chat = new Chat({ kind: "approved" });
  chat.broker.authority.answer = () => NEEDED;
  const message =
    'command on "web01" requires human approval (require_approval:^reboot); the approval in the chat ' +
    "does not count, because the signer does not list this broker with self_approve; approve it via the control plane, " +
    "or with broker-ctl";
  await assert.rejects(chat.call(), { code: "approval_required", message });
  assert.deepEqual(chat.outcomes, [
    `error|${REQUIRED}`,
    "approval_granted|elicitation",
    `error|${message}|elicitation`,
  ]);
  assert.equal(chat.questions.length, 1);
  assert.deepEqual(chat.broker.runner.runs, []);
});

Deno.test("ssh_execute runs nothing if the approval cannot be recorded (A14)", async () => {
  const chat = new Chat({ kind: "approved" });
  chat.broker.log.failing = true;
  await assert.rejects(chat.call(), { code: "audit_unavailable", message: "audit unavailable" });
  assert.equal(chat.broker.authority.requests.length, 1);
  assert.deepEqual(chat.broker.runner.runs, []);
});

Deno.test("ssh_execute asks no user about denials, previews and control plane approvals", async () => {
  const answers: readonly SignAnswer[] = [
    { kind: "rejected", status: 403, detail: "no" },
    { kind: "undecided", approvalId: "ab12", why: "deadline" },
    { kind: "not_granted", status: 403, detail: "approval denied" },
    { kind: "decided", decision: { allowed: true, require_approval: true } },
  ];
  for (const answer of answers) {
    const chat = new Chat({ kind: "approved" });
    chat.broker.authority.answer = () => answer;
    await chat.call({ dry_run: answer.kind === "decided" }).catch(() => {});
    assert.deepEqual(chat.questions, [], answer.kind);
  }
});

Deno.test.each([
  [
    "controls, colors and the end of the quotes",
    { command: 'ls\x1b[2J"\r on "web02"' },
    String.raw`running "ls\x1b[2J\"\r on \"web02\"" on "web01"?`,
  ],
  [
    "text that runs backwards, and text without width",
    { command: "rm\u202e \u200b\u{e0041}x" },
    String.raw`running "rm\u202e \u200b\U000e0041x" on "web01"?`,
  ],
  ["sudo", { sudo: true }, 'running "reboot" on "web01" with sudo as "root"? Host'],
  ["the account of sudo", { sudo: true, sudo_user: "db" }, 'on "web01" with sudo as "db"? Host'],
  ["the terminal", { sudo: true, pty: true }, 'on "web01" with sudo as "root" in a terminal? Host'],
])("ssh_execute's question shows %s", async (_name, args, shows) => {
  const chat = new Chat({ kind: "approved" });
  await chat.call(args);
  assert.ok(chat.questions[0]?.includes(shows), `${chat.questions[0]}`);
});

Deno.test("ssh_execute's question shows a command of 60 KiB completely", async () => {
  const chat = new Chat({ kind: "approved" });
  const command = `echo ${"x".repeat(60 * 1024)}END`;
  await chat.call({ command });
  assert.ok(chat.questions[0]?.includes(`"${command}"`));
});

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
  ["a rule that only has the same prefix", "denied", {
    allowed: false,
    matched_rule: "allowlist:no-match-at-all",
  }],
  ["denied sudo", "denied", { allowed: false, reason: "sudo not allowed" }],
])("viewDecision() returns for %s the code %s", (_name, code, decision) => {
  assert.equal(viewDecision(decision, "x").reason_code, code);
});

Deno.test("viewDecision() returns the decision without the fields for sessions and approvals", () => {
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
  "viewDecision() hides the stop_on_disconnect wrapper of a command %s",
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

Deno.test("viewDecision() omits fields that are empty, false or 0", () => {
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

Deno.test.each([
  { name: "an empty text", value: "" },
  { name: "exactly the limit", value: "x".repeat(MAX_FIELD_BYTES) },
  { name: "exactly the limit in two-byte characters", value: "é".repeat(MAX_FIELD_BYTES / 2) },
  { name: "no text at all", value: undefined },
])("guardInput() accepts $name", ({ value }) => {
  guardInput("command", value);
});

Deno.test.each([
  { name: "one byte too many", value: "x".repeat(MAX_FIELD_BYTES + 1) },
  { name: "too many bytes in few characters", value: "é".repeat(MAX_FIELD_BYTES / 2) + "x" },
])("guardInput() rejects $name", ({ value }) => {
  assert.throws(() => guardInput("command", value), {
    code: "invalid_request",
    message: 'field "command" exceeds the limit of 65536 bytes',
  });
});

Deno.test.each([
  { name: "at the start", value: "\0uptime" },
  { name: "in the middle", value: "up\0time" },
  { name: "at the end", value: "uptime\0" },
])("guardInput() rejects a NUL $name", ({ value }) => {
  assert.throws(() => guardInput("sudo_user", value), {
    code: "invalid_request",
    message: 'field "sudo_user" contains null bytes',
  });
});
