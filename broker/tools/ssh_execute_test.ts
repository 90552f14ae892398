import assert from "node:assert/strict";
import * as z from "@zod/zod";
import { stringifyJson } from "@gateway/shared/json";
import { BrokerFixture, MARK, MAX_TTL_SECONDS } from "../testing/broker_fixture.ts";
import { SERIAL } from "../testing/fake_authority.ts";
import { printed } from "../testing/fake_runner.ts";
import { createSshExecuteTool } from "./ssh_commands.ts";

const context = {
  caller: "mcp-stdio",
  callerGroups: null,
  bearerToken: undefined,
  signal: new AbortController().signal,
};

function fixture() {
  const broker = new BrokerFixture();
  return { broker, tool: createSshExecuteTool(broker) };
}

Deno.test.each([
  {
    name: "stdout alone",
    result: printed("up\n"),
    text: `[stdout ${MARK} 3 bytes]\nup\n[end ${MARK}]\n[exit=0 serial=${SERIAL}]`,
  },
  {
    name: "both streams",
    result: printed("o", { stderr: "e\n", exitCode: 3 }),
    text: `[stdout ${MARK} 1 bytes]\no\n[end ${MARK}]\n[stderr ${MARK} 2 bytes]\ne\n[end ${MARK}]\n` +
      `[exit=3 serial=${SERIAL}]`,
  },
  {
    name: "stderr alone",
    result: printed("", { stderr: "e", exitCode: 1 }),
    text: `[stderr ${MARK} 1 bytes]\ne\n[end ${MARK}]\n[exit=1 serial=${SERIAL}]`,
  },
  { name: "nothing", result: printed(""), text: `[exit=0 serial=${SERIAL}]` },
])("ssh_execute shows $name", async ({ result, text }) => {
  const { broker, tool } = fixture();
  broker.runner.answer = () => result;
  const shown = await tool.call({ server: "web01", command: "uptime" }, context);
  assert.equal(shown.text, text);
  const decoder = new TextDecoder();
  assert.deepEqual(shown.structured, {
    stdout: decoder.decode(result.stdout.head),
    stderr: decoder.decode(result.stderr.head),
    exit_code: result.exitCode,
    serial: SERIAL,
  });
});

Deno.test("ssh_execute shows the warning of an audit-mode policy", async () => {
  const { broker, tool } = fixture();
  broker.authority.answer = () => ({
    kind: "issued",
    certificate: "c",
    serial: 7n,
    decision: { allowed: true, warning: "would be denied" },
    elevationPrefix: "",
    waited: false,
  });
  const shown = await tool.call({ server: "web01", command: "uptime" }, context);
  assert.equal(
    shown.text,
    `[stdout ${MARK} 10 bytes]\nup 3 days\n[end ${MARK}]\n[warning] would be denied\n[exit=0 serial=7]`,
  );
  assert.deepEqual(shown.structured["warnings"], ["would be denied"]);
});

Deno.test("ssh_execute previews with dry_run, denial included, as a result", async () => {
  const { broker, tool } = fixture();
  broker.authority.answer = () => ({
    kind: "decided",
    decision: { allowed: false, reason: "command denied", matched_rule: "deny:^rm" },
  });
  const shown = await tool.call({ server: "web01", command: "rm -rf /", dry_run: true }, context);
  assert.equal(shown.text, "[dry-run] DENIED: command denied\nreason_code: command_denied\nrule: deny:^rm");
  assert.deepEqual(shown.structured, {
    stdout: "",
    stderr: "",
    exit_code: 0,
    serial: 0n,
    decision: {
      allowed: false,
      reason_code: "command_denied",
      reason: "command denied",
      matched_rule: "deny:^rm",
    },
  });
});

Deno.test("ssh_execute takes zero values for absent arguments", async () => {
  const { broker, tool } = fixture();
  const args = { server: "web01", command: "uptime", ttl_seconds: 0, sudo: false, sudo_user: "", pty: false };
  await tool.call({ ...args, dry_run: false }, context);
  const [request] = broker.authority.requests;
  assert.equal(request?.ttl_seconds, MAX_TTL_SECONDS);
  assert.equal(request?.end_user, "mcp-stdio");
  for (const key of ["sudo", "sudo_user", "pty", "dry_run"]) assert.ok(!(key in (request ?? {})), key);
});

Deno.test.each([
  ["no arguments", undefined, /server: .*; command: /],
  ["a list", [], /expected object/],
  ["a missing command", { server: "web01" }, /command: /],
  ["an unknown argument", { server: "web01", command: "x", cwd: "/" }, /"cwd"/],
  ["a command that is not text", { server: "web01", command: ["x"] }, /command: /],
  ["a null", { server: "web01", command: "x", sudo: null }, /sudo: /],
  ["a text for a flag", { server: "web01", command: "x", pty: "yes" }, /pty: /],
  ["a broken number", { server: "web01", command: "x", ttl_seconds: 1.5 }, /ttl_seconds: /],
  ["a number of 64 bits", { server: "web01", command: "x", ttl_seconds: SERIAL }, /ttl_seconds: /],
])("ssh_execute refuses %s", async (_name, args, says) => {
  const { broker, tool } = fixture();
  await assert.rejects(tool.call(args, context), (error: Error) => {
    assert.match(error.message, /^validating "arguments": /);
    assert.match(error.message, says);
    return true;
  });
  assert.equal(broker.authority.fetches, 0);
});

Deno.test("ssh_execute passes the reason on, and refuses one of more than 500 characters", async () => {
  const { broker, tool } = fixture();
  await tool.call({ server: "web01", command: "uptime", reason: "é".repeat(500) }, context);
  assert.equal(broker.authority.requests[0]?.reason, "é".repeat(500));
  await assert.rejects(
    tool.call({ server: "web01", command: "uptime", reason: "é".repeat(501) }, context),
    { code: "invalid_request", message: 'validating "arguments": reason: at most 500 characters' },
  );
});

Deno.test.each(["server", "command", "sudo_user"])("ssh_execute refuses a NUL in %s", async (field) => {
  const { broker, tool } = fixture();
  const args = { server: "web01", command: "uptime", [field]: "a\0b" };
  await assert.rejects(tool.call(args, context), { message: `field "${field}" contains null bytes` });
  assert.equal(broker.authority.fetches, 0);
});

Deno.test("ssh_execute's results fit the schema that it shows", async () => {
  const { broker, tool } = fixture();
  const schema = z.fromJSONSchema(tool.outputSchema);
  const check = async (args: object) => {
    const { structured } = await tool.call({ server: "web01", command: "uptime", ...args }, context);
    schema.parse(JSON.parse(stringifyJson({ ...structured, serial: 7 })));
  };
  await check({});
  await check({ dry_run: true });
  broker.authority.answer = () => ({ kind: "decided", decision: { allowed: false, enforcement: "enforce" } });
  await check({ dry_run: true });
});

Deno.test("ssh_execute shows a closed schema, without defaults, with the serial as an unsigned integer", () => {
  const { tool } = fixture();
  assert.equal(tool.inputSchema["additionalProperties"], false);
  assert.deepEqual(tool.inputSchema["required"], ["server", "command"]);
  assert.ok(!stringifyJson(tool.inputSchema).includes('"default"'));
  const { properties } = z.object({ properties: z.record(z.string(), z.record(z.string(), z.unknown())) })
    .parse(tool.outputSchema);
  assert.equal(properties["serial"]?.["type"], "integer");
  assert.equal(properties["serial"]?.["minimum"], 0);
});
