import assert from "node:assert/strict";
import type { SignAnswer } from "../authority/authority.ts";
import { BrokerFixture } from "../testing/broker_fixture.ts";
import { SERIAL } from "../testing/fake_authority.ts";
import { createSshExecuteTool } from "./ssh_commands.ts";
import type { HumanAnswer } from "../request/execute.ts";
import type { ToolContext } from "./tool.ts";

const NEEDED: SignAnswer = { kind: "needs_approval", rule: "require_approval:^reboot" };
const ISSUED: SignAnswer = {
  kind: "issued",
  certificate: "c",
  serial: SERIAL,
  decision: undefined,
  elevationPrefix: "",
  waited: false,
};
const REQUIRED = 'command on "web01" requires human approval (require_approval:^reboot); ' +
  "approve it in-chat (if enabled), via the control plane, or with broker-ctl";

/** A chat whose human gives this answer, at a broker whose signer lets only approved commands pass. */
class Chat {
  readonly broker = new BrokerFixture();
  readonly questions: string[] = [];
  readonly #answer: HumanAnswer | undefined;

  constructor(answer: HumanAnswer | undefined) {
    this.#answer = answer;
    this.broker.authority.answer = ({ approved }) => approved === true ? ISSUED : NEEDED;
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

Deno.test("ssh_execute runs nothing that the human declines, and records it (A14)", async () => {
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

Deno.test("ssh_execute asks no second time when the signer does not let the broker approve (I22)", async () => {
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

Deno.test("ssh_execute runs nothing when the approval can't be recorded (A14)", async () => {
  const chat = new Chat({ kind: "approved" });
  chat.broker.log.failing = true;
  await assert.rejects(chat.call(), { code: "audit_unavailable", message: "audit unavailable" });
  assert.equal(chat.broker.authority.requests.length, 1);
  assert.deepEqual(chat.broker.runner.runs, []);
});

Deno.test("ssh_execute does not ask about a denied command, a preview, or an approval at the control plane", async () => {
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

Deno.test("ssh_execute's question shows a command of 60 KiB to its end", async () => {
  const chat = new Chat({ kind: "approved" });
  const command = `echo ${"x".repeat(60 * 1024)}END`;
  await chat.call({ command });
  assert.ok(chat.questions[0]?.includes(`"${command}"`));
});
