import assert from "node:assert/strict";
import { BrokerFixture, MARK } from "../testing/broker_fixture.ts";
import { SERIAL } from "../testing/fake_authority.ts";
import { printed } from "../testing/fake_runner.ts";
import { SessionFixture } from "../testing/session_fixture.ts";
import {
  createSshExecuteTool,
  createSshSessionCloseTool,
  createSshSessionExecTool,
  createSshSessionOpenTool,
} from "./ssh_commands.ts";

const context = {
  caller: "mcp-stdio",
  callerGroups: ["ops"],
  bearerToken: "token",
  signal: new AbortController().signal,
};

function fixture() {
  const broker = new SessionFixture();
  return {
    broker,
    open: createSshSessionOpenTool(broker),
    exec: createSshSessionExecTool(broker),
    close: createSshSessionCloseTool(broker),
  };
}

Deno.test("ssh_session_open opens a session of mode exec by default", async () => {
  const { broker, open } = fixture();
  const { text, structured } = await open.call({ server: "web01" }, context);
  assert.match(String(structured["session_id"]), /^[0-9a-f]{24}$/);
  assert.equal(structured["serial"], SERIAL);
  assert.equal(text, `session_id=${structured["session_id"]} serial=${SERIAL}`);
  const [request] = broker.authority.requests;
  assert.deepEqual([
    request?.session_mode,
    request?.end_user,
    request?.bearer_token,
    request?.end_user_groups,
  ], [
    "exec",
    "mcp-stdio",
    "token",
    ["ops"],
  ]);
});

Deno.test("ssh_session_exec gives the command's result as ssh_execute does", async () => {
  const { broker, open, exec } = fixture();
  const { structured } = await open.call({ server: "web01", mode: "shell" }, context);
  broker.links[0]!.answer = () => printed("a\n", { stderr: "b", exitCode: 3 });
  assert.deepEqual(await exec.call({ session_id: structured["session_id"], command: "x" }, context), {
    text: `[stdout ${MARK} 2 bytes]\na\n[end ${MARK}]\n[stderr ${MARK} 1 bytes]\nb\n[end ${MARK}]\n` +
      `[exit=3 serial=${SERIAL}]`,
    structured: { stdout: "a\n", stderr: "b", exit_code: 3, serial: SERIAL },
  });
});

Deno.test("tools that run commands say what becomes of a result that nobody waits for", () => {
  for (const { description } of [fixture().exec, createSshExecuteTool(new BrokerFixture())]) {
    assert.match(description, /ends without an answer.* is in the audit log/);
    assert.match(description, /a lost connection, except .* resumes the stream gets the result/);
  }
});

Deno.test("ssh_session_close ends the session", async () => {
  const { broker, open, close } = fixture();
  const { structured } = await open.call({ server: "web01" }, context);
  assert.deepEqual(await close.call({ session_id: structured["session_id"] }, context), {
    text: "closed",
    structured: { ok: true },
  });
  assert.equal(broker.registry.size, 0);
});

Deno.test.each(
  [
    { name: "open with an unknown argument", tool: "open", args: { server: "web01", pty: true } },
    { name: "exec without a command", tool: "exec", args: { session_id: "a" } },
    { name: "close without a session", tool: "close", args: {} },
  ] as const,
)("the session tools refuse $name", async ({ tool, args }) => {
  await assert.rejects(fixture()[tool].call(args, context), { message: /^validating "arguments": / });
});

Deno.test.each(
  [
    { tool: "open", field: "server", args: { server: "a\0" } },
    { tool: "open", field: "mode", args: { server: "a", mode: "\0" } },
    { tool: "open", field: "sudo_user", args: { server: "a", sudo_user: "\0" } },
    { tool: "exec", field: "session_id", args: { session_id: "\0", command: "a" } },
    { tool: "exec", field: "command", args: { session_id: "a", command: "\0" } },
    { tool: "close", field: "session_id", args: { session_id: "\0" } },
  ] as const,
)("ssh_session_$tool guards $field", async ({ tool, field, args }) => {
  await assert.rejects(fixture()[tool].call(args, context), {
    message: `field "${field}" contains null bytes`,
  });
});
