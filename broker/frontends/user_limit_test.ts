import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import type { Tool, ToolContext } from "../tools/tool.ts";
import { limitCalls, UserLimit } from "./user_limit.ts";

const schema = { type: "object" } as const;
const isRateLimited = (error: unknown) => error instanceof AppError && error.code === "rate_limited";

function gatedTool(gate: Promise<void>): Tool {
  return {
    name: "wait",
    title: "Wait",
    description: "",
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    inputSchema: schema,
    outputSchema: schema,
    call: () => gate.then(() => ({ text: "", structured: {} })),
  };
}

function contextOf(caller: string): ToolContext {
  return { caller, callerGroups: null, bearerToken: undefined, signal: new AbortController().signal };
}

Deno.test("UserLimit counts an end once, however often it is told", () => {
  const limit = new UserLimit(2, "requests");
  const end = limit.begin("alice");
  limit.begin("alice");
  end();
  end();
  limit.begin("alice");
  assert.throws(() => limit.begin("alice"), isRateLimited);
});

Deno.test("UserLimit takes a user's name for nothing but a name", () => {
  const limit = new UserLimit(1, "requests");
  for (const user of ["__proto__", "constructor", ""]) {
    const end = limit.begin(user);
    assert.throws(() => limit.begin(user), isRateLimited);
    end();
    limit.begin(user);
  }
});

Deno.test("limitCalls() refuses the call too many of one caller, over all tools, and no other caller's", async () => {
  const gate = Promise.withResolvers<void>();
  const [one, two] = limitCalls([gatedTool(gate.promise), gatedTool(gate.promise)], 2);
  assert.ok(one !== undefined && two !== undefined);
  const running = [one.call({}, contextOf("alice")), two.call({}, contextOf("alice"))];
  await assert.rejects(one.call({}, contextOf("alice")), isRateLimited);
  running.push(one.call({}, contextOf("bob")));
  gate.resolve();
  await Promise.all(running);
  await one.call({}, contextOf("alice"));
});

Deno.test("limitCalls() counts a call that fails as ended", async () => {
  const gate = Promise.reject(new Error("failed"));
  gate.catch(() => {});
  const [tool] = limitCalls([gatedTool(gate)], 1);
  for (let call = 0; call < 3; call++) {
    await assert.rejects(async () => await tool?.call({}, contextOf("alice")), /^Error: failed$/);
  }
});

Deno.test("limitCalls() counts a call whose answer waits for room, and asks for as much as the answer has", async () => {
  const room = Promise.withResolvers<void>();
  const lengths: number[] = [];
  const context = {
    ...contextOf("alice"),
    holdAnswer(length: number) {
      lengths.push(length);
      return room.promise;
    },
  };
  const text = "x".repeat(5000);
  const [tool] = limitCalls([{
    ...gatedTool(Promise.resolve()),
    call: () => Promise.resolve({ text, structured: { text } }),
  }], 1);
  assert.ok(tool !== undefined);
  const waiting = tool.call({}, context);
  await Promise.resolve();
  await assert.rejects(tool.call({}, contextOf("alice")), isRateLimited);
  room.resolve();
  assert.equal((await waiting).text, text);
  await tool.call({}, contextOf("alice"));
  assert.ok(lengths.length === 1 && (lengths[0] ?? 0) >= 10_000 && (lengths[0] ?? 0) < 11_000);
});
