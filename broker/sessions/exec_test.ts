import assert from "node:assert/strict";
import { stopOnDisconnect } from "@gateway/shared/policy";
import type { WireDecision } from "@gateway/shared/wire";
import type { SignAnswer } from "../authority/authority.ts";
import { CHAINED_HOSTS, HOSTS, SERIAL } from "../testing/fake_authority.ts";
import { printed, sent } from "../testing/fake_runner.ts";
import { openedSession, SessionFixture } from "../testing/session_fixture.ts";

const decided = (decision: WireDecision): SignAnswer => ({ kind: "decided", decision });

Deno.test("execInSession() sends a preflight, runs and records the command, returns its output", async () => {
  const { broker, id } = await openedSession();
  broker.links[0]!.answer = () => printed("a\n", { stderr: "b\n", exitCode: 3 });
  const result = await broker.exec(id, { command: "id", bearerToken: "later", callerGroups: ["x"] });
  assert.deepEqual(result, {
    stdout: sent("a\n"),
    stderr: sent("b\n"),
    exitCode: 3,
    serial: SERIAL,
    warnings: [],
  });
  const {
    host,
    purpose,
    session_mode,
    command,
    dry_run,
    preflight,
    ttl_seconds,
    bearer_token,
    end_user_groups,
  } = broker.authority.requests.at(-1)!;
  assert.deepEqual(
    { host, purpose, session_mode, command, dry_run, preflight, ttl_seconds, bearer_token, end_user_groups },
    {
      host: "web01",
      purpose: "session",
      session_mode: "exec",
      command: "id",
      dry_run: true,
      preflight: true,
      ttl_seconds: 300,
      bearer_token: "later",
      end_user_groups: ["x"],
    },
  );
  const entry = broker.log.entries.at(-1);
  assert.deepEqual(
    [entry?.outcome, entry?.session_id, entry?.serial, entry?.command, entry?.exit_code, entry?.policy_rule],
    ["session_exec", id, SERIAL, "id", 3, "allow:^uptime$"],
  );
});

Deno.test("execInSession() creates a new key for each preflight", async () => {
  const { broker, id } = await openedSession();
  await broker.exec(id);
  await broker.exec(id);
  const keys = broker.authority.requests.map(({ public_key }) => public_key);
  assert.equal(new Set(keys).size, 3);
});

Deno.test.each([
  ["an unknown session", "nope", "alice", 'unknown or expired session: "nope"'],
  ["another's session", undefined, "bob", /^session "[0-9a-f]+" does not belong to the current caller$/],
])(
  "execInSession() rejects %s without a request, a change or a record (I1, I2)",
  async (_name, id, caller, message) => {
    const broker = new SessionFixture();
    const own = await broker.open();
    const before = [broker.authority.requests.length, broker.authority.fetches, broker.log.entries.length];
    const session = broker.registry.find(own, "alice", "");
    const { lastUsed } = session;
    await broker.clock.advance(5000);
    await assert.rejects(broker.exec(id ?? own, { caller }), { message });
    assert.deepEqual(
      [broker.authority.requests.length, broker.authority.fetches, broker.log.entries.length],
      before,
    );
    assert.deepEqual([session.lastUsed, session.isBusy], [lastUsed, false]);
  },
);

Deno.test.each([
  ["an unknown session", "nope", "alice", 'unknown session: "nope"'],
  ["another's session", undefined, "bob", /does not belong to the current caller$/],
])("closing %s is rejected and changes nothing (I1)", async (_name, id, caller, message) => {
  const broker = new SessionFixture();
  const own = await broker.open();
  await assert.rejects(broker.close(id ?? own, caller), { message });
  assert.deepEqual([broker.registry.size, broker.outcomes], [1, ["session_open"]]);
});

Deno.test.each([
  { name: "an empty command", mode: "exec", command: "", message: "command is required" },
  ...["shell", "pty"].flatMap((mode) =>
    ["a\nb", "a\rb"].map((command) => ({
      name: `${JSON.stringify(command)} in mode ${mode}`,
      mode,
      command,
      message: "command contains newlines; not allowed in shell/pty sessions",
    }))
  ),
])("execInSession() rejects $name before any signer request", async ({ mode, command, message }) => {
  const { broker, id } = await openedSession({ mode });
  await assert.rejects(broker.exec(id, { command }), { message });
  assert.deepEqual([broker.outcomes, broker.authority.requests.length], [["session_open"], 1]);
});

Deno.test.each<{ name: string; decision: SignAnswer; message: string }>([
  {
    name: "a command that is denied with a reason",
    decision: decided({ allowed: false, reason: "no shells" }),
    message: "session command not allowed: no shells",
  },
  {
    name: "a command that is denied by a rule",
    decision: decided({ allowed: false, matched_rule: "deny:^rm" }),
    message: "session command not allowed by command_policy (deny:^rm)",
  },
  {
    name: "a command that requires approval",
    decision: decided({ allowed: true, require_approval: true, matched_rule: "r" }),
    message: "session command requires human approval (r); use ssh_execute for approval-gated commands",
  },
  {
    name: "a command with a pending approval",
    decision: { kind: "undecided", approvalId: "a1", why: "not_configured" },
    message: "session command requires human approval (id a1); use ssh_execute for approval-gated commands",
  },
  {
    name: "a frozen caller",
    decision: { kind: "rejected", status: 403, detail: "frozen" },
    message: "session command policy preflight: signing rejected (403): frozen",
  },
])("execInSession() rejects and records $name and keeps the session", async ({ decision, message }) => {
  const { broker, id } = await openedSession();
  broker.answerPreflight(decision);
  await assert.rejects(broker.exec(id), { message });
  assert.deepEqual(broker.links[0]?.runs, []);
  const entry = broker.log.entries.at(-1);
  assert.deepEqual([entry?.outcome, entry?.err, entry?.command], ["session_exec_denied", message, "uptime"]);
  assert.equal(broker.registry.size, 1);
});

Deno.test.each<{ name: string; answer: SignAnswer; message: string }>([
  {
    name: "denied with a reason",
    answer: decided({ allowed: false, reason: "not yours" }),
    message: 'session bastion "bastion01" not allowed: not yours',
  },
  {
    name: "denied",
    answer: decided({ allowed: false }),
    message: 'session bastion "bastion01" not allowed by signer policy',
  },
  {
    name: "gated",
    answer: decided({ allowed: true, require_approval: true }),
    message:
      'session bastion "bastion01" requires human approval; close this session and open a new one after policy is updated',
  },
])(
  "execInSession() rejects a command before the target's preflight if a bastion is $name (K14)",
  async ({ answer, message }) => {
    const broker = new SessionFixture();
    broker.authority.list = () => CHAINED_HOSTS;
    const id = await broker.open({ host: "db01" });
    broker.answerPreflight(answer, "bastion01");
    await assert.rejects(broker.exec(id), { message });
    assert.equal(broker.authority.requests.filter(({ preflight }) => preflight).length, 1);
  },
);

Deno.test("execInSession() rejects a command if the host changes during an approval wait (K13)", async () => {
  const { broker, id } = await openedSession();
  broker.authority.answer = () => {
    broker.authority.list = () => ({ ...HOSTS, web01: { ...HOSTS["web01"]!, addr: "other:22" } });
    return { kind: "decided", decision: { allowed: true }, waited: true };
  };
  const message = 'session host connectivity changed for "web01"; close this session and open a new one';
  await assert.rejects(broker.exec(id), { code: "denied", message });
  assert.equal(broker.links[0]?.runs.length, 0);
});

Deno.test.each(
  (["addr", "user", "host_key", "jump"] as const).map((field) => ({ field })),
)(
  "execInSession() rejects a command without a signer request if the host's $field changed",
  async ({ field }) => {
    const broker = new SessionFixture();
    broker.authority.list = () => CHAINED_HOSTS;
    const id = await broker.open();
    const asked = broker.authority.requests.length;
    const value = field === "jump" ? "bastion01" : "other";
    broker.authority.list = () => ({ ...CHAINED_HOSTS, web01: { ...HOSTS["web01"]!, [field]: value } });
    const message = 'session host connectivity changed for "web01"; close this session and open a new one';
    await assert.rejects(broker.exec(id), { message });
    assert.deepEqual([broker.authority.requests.length, broker.registry.size], [asked, 1]);
    assert.equal(broker.outcomes.at(-1), "session_exec_denied");
    // After the host's entry is restored, the session works again.
    broker.authority.list = () => CHAINED_HOSTS;
    await broker.exec(id);
  },
);

Deno.test.each<[name: string, list: () => never | typeof HOSTS, message: string]>([
  ["the hosts can't be had", () => {
    throw new Error("down");
  }, "session connectivity preflight: down"],
  ["the host is gone", () => ({}), 'session connectivity preflight: unknown host: "web01"'],
])("execInSession() rejects a command if %s", async (_name, list, message) => {
  const { broker, id } = await openedSession();
  broker.authority.list = list;
  await assert.rejects(broker.exec(id), { message });
  assert.deepEqual(broker.links[0]?.runs, []);
});

Deno.test.each([
  { name: "a simple command", command: "id -u", line: "sudo -n -- id -u" },
  { name: "any other command", command: "a | b", line: "sudo -n -- /bin/sh -c 'a | b'" },
])("exec sessions with sudo elevate $name in the same way as the signer (L15)", async ({ command, line }) => {
  const broker = new SessionFixture();
  const { answer } = broker.authority;
  broker.authority.answer = async (...args) => {
    const given = await answer(...args);
    return given.kind === "issued" ? { ...given, elevationPrefix: "sudo -n" } : given;
  };
  const id = await broker.open({ sudo: true });
  await broker.exec(id, { command });
  assert.deepEqual(broker.links[0]?.runs, [line]);
  const { command: recorded, elevation } = broker.log.entries.at(-1)!;
  assert.deepEqual([recorded, elevation], [command, "sudo:root"]);
  assert.equal(broker.authority.requests.at(-1)?.sudo, true);
});

Deno.test.each([
  ["holds", true, "exec", false, true, ""],
  ["holds, elevated,", true, "exec", true, true, "sudo -n"],
  ["does not hold", false, "exec", false, false, ""],
  ["does not hold, in a shell,", true, "shell", false, false, ""],
])(
  "a session %s a command's stdin open if stop_on_disconnect is %s (K16)",
  async (_name, flag, mode, sudo, held, prefix) => {
    const broker = new SessionFixture();
    const { answer } = broker.authority;
    broker.authority.answer = async (...args) => {
      const given = await answer(...args);
      return given.kind === "issued" ? { ...given, elevationPrefix: prefix } : given;
    };
    const id = await broker.open({ mode, sudo });
    // The current policy applies, not the policy at the time when the session was opened.
    broker.authority.list = () => ({ web01: { ...HOSTS["web01"]!, stop_on_disconnect: flag } });
    let isHeld: boolean | undefined;
    broker.links[0]!.answer = (_command, { stopsAtStdinEnd }) => {
      isHeld = stopsAtStdinEnd;
      return printed("");
    };
    await broker.exec(id, { command: "id -u" });
    const line = held ? stopOnDisconnect(prefix, "id -u") : "id -u";
    assert.deepEqual([isHeld, broker.links[0]?.runs], [held, [line]]);
    assert.equal(broker.log.entries.at(-1)?.command, "id -u");
  },
);

Deno.test("execInSession() withholds the output if the audit log fails", async () => {
  const { broker, id } = await openedSession();
  broker.links[0]!.answer = () => {
    broker.log.failing = true;
    return printed("secret");
  };
  await assert.rejects(broker.exec(id), { code: "audit_unavailable", message: "audit unavailable" });
  broker.log.failing = false;
  broker.links[0]!.answer = () => printed("ok");
  assert.deepEqual((await broker.exec(id)).stdout, sent("ok"));
});

Deno.test("execInSession() returns and records the warning of an audit-mode policy", async () => {
  const { broker, id } = await openedSession();
  broker.answerPreflight(decided({ allowed: true, warning: "would deny" }));
  assert.deepEqual((await broker.exec(id)).warnings, ["would deny"]);
  assert.equal(broker.log.entries.at(-1)?.warning, "would deny");
});

Deno.test("execInSession() on a broken session fails immediately without a signer request", async () => {
  const { broker, id } = await openedSession({ mode: "shell" });
  broker.links[0]!.broken = "session shell has ended";
  await assert.rejects(broker.exec(id), { message: "session execution: session shell has ended" });
  assert.deepEqual([broker.authority.requests.length, broker.outcomes.at(-1)], [1, "error"]);
});
