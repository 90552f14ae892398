import assert from "node:assert/strict";
import { ISSUED_UPTIME } from "../testing/fake_authority.ts";
import { hangUntilAborted } from "../testing/fake_runner.ts";
import { type Generation, GENERATIONS, RawMcpClient, until } from "../testing/raw_mcp_client.ts";
import { canElicit, HUMAN_MS, MAX_PAUSED, readElicitation, readInput } from "./elicitation.ts";

const CALL = { name: "ssh_execute", arguments: { server: "web01", command: "reboot" } };
const QUESTION = {
  mode: "form",
  message: 'Approve running "reboot" on "web01"? Host policy requires approval (require_approval:^reboot).',
  requestedSchema: {
    type: "object",
    properties: { approve: { type: "boolean", description: "Run exactly this command, once" } },
    required: ["approve"],
  },
};
const YES = { action: "accept", content: { approve: true } };

/** A client with a human, at a broker whose signer requires an approval for every command. */
async function connect(generation: Generation, capabilities: object = { elicitation: {} }, askInChat = true) {
  const client = await RawMcpClient.connect(generation, { capabilities, askInChat });
  client.broker.authority.answer = ({ approved }) =>
    approved === true ? ISSUED_UPTIME : { kind: "needs_approval", rule: "require_approval:^reboot" };
  return client;
}

/** Calls the tool, answers the question as the generation requires, returns question and result. */
async function callAndAnswer(client: RawMcpClient, generation: Generation, answer: unknown) {
  if (generation === "2025-11-25") {
    await client.start("tools/call", CALL);
    const { id, method, params } = await client.message();
    assert.equal(method, "elicitation/create");
    await client.answer(id, answer);
    return { question: params, result: (await client.message()).result };
  }
  const { result: first } = await client.request("tools/call", CALL);
  assert.equal(first.resultType, "input_required");
  assert.equal("content" in first, false);
  assert.deepEqual(Object.keys(first.inputRequests), ["approval"]);
  assert.equal(first.inputRequests.approval.method, "elicitation/create");
  const again = { ...CALL, requestState: first.requestState, inputResponses: { approval: answer } };
  const { result } = await client.request("tools/call", again);
  return { question: first.inputRequests.approval.params, result };
}

/** Makes a stateless call that requires consent, and returns the call that carries the answer. */
async function pause(client: RawMcpClient) {
  const { result } = await client.request("tools/call", CALL);
  return { ...CALL, requestState: result.requestState, inputResponses: { approval: YES } };
}

function outcomes(client: RawMcpClient): readonly string[] {
  return client.broker.log.entries.map(({ outcome, err }) =>
    outcome === "approval_declined" ? `${outcome}: ${err}` : outcome
  );
}

Deno.test.each(GENERATIONS)("MCP %s asks a human and runs the approved command (A21)", async (generation) => {
  await using client = await connect(generation);
  const { question, result } = await callAndAnswer(client, generation, YES);
  assert.deepEqual(question, QUESTION);
  assert.equal(result.structuredContent.exit_code, 0);
  assert.deepEqual(outcomes(client), ["error", "approval_granted", "executed"]);
  assert.equal(client.clock.sleeping, 0);
});

Deno.test.each(GENERATIONS.flatMap((generation) => [
  { generation, name: "decline", answer: { action: "decline" }, why: "declined: decline" },
  {
    generation,
    name: "an accept without approval",
    answer: { action: "accept", content: { approve: false } },
    why: "declined: approve is not true",
  },
]))("MCP $generation runs nothing on $name (A14)", async ({ generation, answer, why }) => {
  await using client = await connect(generation);
  const { result } = await callAndAnswer(client, generation, answer);
  assert.deepEqual(result.content, [
    { type: "text", text: 'approval declined: "reboot" was not run on "web01"' },
    {
      type: "text",
      text: "Do not retry in another form. Call ssh_list_servers with policy: true to see allowed commands.",
    },
  ]);
  assert.equal(result.isError, true);
  assert.deepEqual(outcomes(client), ["error", `approval_declined: ${why}`]);
  assert.deepEqual(client.broker.runner.runs, []);
});

Deno.test.each(GENERATIONS.flatMap((generation) => [
  { generation, name: "a client without elicitation", capabilities: {}, askInChat: true },
  {
    generation,
    name: "a broker without approval in chat",
    capabilities: { elicitation: { form: {} } },
    askInChat: false,
  },
]))(
  "MCP $generation reports the required approval at $name",
  async ({ generation, capabilities, askInChat }) => {
    await using client = await connect(generation, capabilities, askInChat);
    const { result } = await client.request("tools/call", CALL);
    assert.equal(result.isError, true);
    assert.match(result.content[0].text, /^command on "web01" requires human approval \(require_approval:/);
    assert.deepEqual(outcomes(client), ["error"]);
  },
);

Deno.test.each(GENERATIONS)("MCP %s declines if no answer arrives in time (A14)", async (generation) => {
  await using client = await connect(generation);
  await client.start("tools/call", CALL);
  await client.message();
  await client.clock.advance(HUMAN_MS);
  await until(() => outcomes(client).length === 2);
  assert.deepEqual(outcomes(client)[1], "approval_declined: no answer in time");
});

Deno.test.each(GENERATIONS)("MCP %s declines if the client disconnects (A14)", async (generation) => {
  const client = await connect(generation);
  await client.start("tools/call", CALL);
  await client.message();
  await client.server.close();
  assert.match(outcomes(client)[1] ?? "", /^approval_declined: /);
  assert.deepEqual(client.broker.runner.runs, []);
  assert.equal(client.clock.sleeping, 0);
});

Deno.test("MCP with sessions declines if the call is canceled during the approval (A14)", async () => {
  await using client = await connect("2025-11-25");
  const id = await client.start("tools/call", CALL);
  await client.message();
  await client.notify("notifications/cancelled", { requestId: id });
  await until(() => outcomes(client).length === 2);
  assert.equal(outcomes(client)[1], "approval_declined: canceled");
});

Deno.test("MCP stateless cancels the command if the call with the answer is canceled", async () => {
  await using client = await connect("2026-07-28");
  client.broker.runner.answer = hangUntilAborted;
  const again = await pause(client);
  const id = await client.start("tools/call", again);
  await until(() => client.broker.runner.runs.length === 1);
  await client.notify("notifications/cancelled", { requestId: id });
  await until(() => outcomes(client).length === 3);
  assert.equal(client.broker.log.entries[2]?.err, "canceled");
});

Deno.test("MCP stateless accepts an approval answer once", async () => {
  await using client = await connect("2026-07-28");
  const again = await pause(client);
  assert.equal((await client.request("tools/call", again)).result.isError, undefined);
  const { error } = await client.request("tools/call", again);
  assert.deepEqual([error.code, error.message], [-32602, "Invalid or expired requestState"]);
  assert.equal(client.broker.runner.runs.length, 1);
});

Deno.test("MCP stateless rejects a second answer while the call runs with the first", async () => {
  const client = await connect("2026-07-28");
  client.broker.runner.answer = hangUntilAborted;
  const again = await pause(client);
  await client.start("tools/call", again);
  await until(() => client.broker.runner.runs.length === 1);
  assert.equal((await client.request("tools/call", again)).error.code, -32602);
  await client.server.close();
});

Deno.test.each([
  { name: "another command", arguments: { server: "web01", command: "reboot -f" } },
  { name: "another host", arguments: { server: "db01", command: "reboot" } },
  { name: "sudo besides", arguments: { server: "web01", command: "reboot", sudo: true } },
])("MCP stateless declines an approval that arrives with $name", async ({ arguments: args }) => {
  await using client = await connect("2026-07-28");
  const again = await pause(client);
  const answered = await client.request("tools/call", { ...again, arguments: args });
  assert.equal(
    answered.result.content[0].text,
    'approval declined: "reboot" was not run on "web01"',
  );
  assert.deepEqual(outcomes(client), ["error", "approval_declined: the answer came with another call"]);
});

Deno.test("MCP stateless accepts an answer if the arguments are in another order", async () => {
  await using client = await connect("2026-07-28");
  const again = { ...await pause(client), arguments: { command: "reboot", server: "web01" } };
  const answered = await client.request("tools/call", again);
  assert.equal(answered.result.isError, undefined);
});

Deno.test("MCP stateless asks although the first call contains an unsolicited approval", async () => {
  await using client = await connect("2026-07-28");
  const forged = { ...CALL, inputResponses: { approval: YES } };
  const { result } = await client.request("tools/call", forged);
  assert.equal(result.resultType, "input_required");
  assert.deepEqual(client.broker.runner.runs, []);
});

Deno.test("MCP stateless rejects an answer with a forged requestState", async () => {
  await using client = await connect("2026-07-28");
  const forged = { ...CALL, requestState: "0".repeat(32), inputResponses: { approval: YES } };
  assert.equal((await client.request("tools/call", forged)).error.code, -32602);
  assert.deepEqual(client.broker.authority.requests, []);
});

Deno.test("MCP stateless keeps a limited number of questions open", async () => {
  const client = await connect("2026-07-28");
  for (let count = 0; count < MAX_PAUSED; count++) {
    assert.equal((await client.request("tools/call", CALL)).result.resultType, "input_required");
  }
  const { result } = await client.request("tools/call", CALL);
  assert.equal(result.isError, true);
  assert.equal(
    outcomes(client).at(-1),
    "approval_declined: too many calls wait for an answer",
  );
  await client.server.close();
  assert.equal(client.clock.sleeping, 0);
});

Deno.test.each(GENERATIONS)(
  "MCP %s reports a pending approval as progress",
  async (generation) => {
    await using client = await connect(generation);
    client.broker.authority.answer = (_request, _signal, { onWaiting }) => {
      onWaiting?.("ab12");
      onWaiting?.("ab12");
      return ISSUED_UPTIME;
    };
    await client.start("tools/call", { ...CALL, _meta: { progressToken: "p7" } });
    for (const progress of [1, 2]) {
      const { method, params } = await client.message();
      assert.equal(method, "notifications/progress");
      assert.equal(params.progressToken, "p7");
      assert.equal(params.progress, progress);
      assert.equal(params.message, "waiting for approval ab12");
    }
    assert.equal((await client.message()).result.isError, undefined);
    const { result } = await client.request("tools/call", CALL);
    assert.equal(result.isError, undefined, "without a token nothing is told");
  },
);

Deno.test.each<{ name: string; capabilities: unknown; can: boolean }>([
  { name: "nothing", capabilities: undefined, can: false },
  { name: "other capabilities", capabilities: { sampling: {} }, can: false },
  { name: "a bare elicitation", capabilities: { elicitation: {} }, can: true },
  { name: "forms", capabilities: { elicitation: { form: {} } }, can: true },
  { name: "forms and URLs", capabilities: { elicitation: { form: {}, url: {} } }, can: true },
  { name: "URLs alone", capabilities: { elicitation: { url: {} } }, can: false },
  { name: "something else", capabilities: { elicitation: true }, can: false },
  { name: "null", capabilities: { elicitation: null }, can: false },
])("canElicit() of a client that declares $name returns $can", ({ capabilities, can }) => {
  assert.equal(canElicit(capabilities), can);
});

Deno.test.each<{ name: string; result: unknown; why: string }>([
  { name: "decline", result: { action: "decline" }, why: "declined: decline" },
  { name: "cancel", result: { action: "cancel" }, why: "declined: cancel" },
  {
    name: "decline with approve",
    result: { action: "decline", content: { approve: true } },
    why: "declined: decline",
  },
  {
    name: "accept with approve: false",
    result: { action: "accept", content: { approve: false } },
    why: "declined: approve is not true",
  },
  { name: "accept without content", result: { action: "accept" }, why: "declined: approve is not true" },
  {
    name: "accept with an empty form",
    result: { action: "accept", content: {} },
    why: "declined: approve is not true",
  },
  ...["true", 1, null, [true], { approve: true }].map((approve) => ({
    name: `accept with approve: ${JSON.stringify(approve)}`,
    result: { action: "accept", content: { approve } },
    why: "declined: approve is not true",
  })),
  {
    name: "an unknown action",
    result: { action: "Accept", content: { approve: true } },
    why: "declined: no answer that can be read",
  },
  { name: "no object", result: "accept", why: "declined: no answer that can be read" },
  { name: "no result", result: undefined, why: "declined: no answer that can be read" },
])("readElicitation() declines on $name (A14)", ({ result, why }) => {
  assert.deepEqual(readElicitation(result), { kind: "declined", why });
});

Deno.test("readElicitation() approves on accept with approve: true", () => {
  assert.deepEqual(readElicitation({ action: "accept", content: { approve: true, more: 1 } }), {
    kind: "approved",
  });
});

Deno.test("readInput() reads only the answer named approval", () => {
  const yes = { action: "accept", content: { approve: true } };
  assert.equal(readInput({ approval: yes }).kind, "approved");
  for (const responses of [undefined, {}, { other: yes }, Object.create({ approval: yes })]) {
    assert.equal(readInput(responses).kind, "declined");
  }
});
