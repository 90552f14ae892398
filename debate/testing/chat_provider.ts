import { FakeClock } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import { CHAT_COMPLETIONS } from "../models/chat_completions.ts";
import { fixedToken } from "../models/tokens.ts";
import { ModelError, type ModelRequest } from "../engine/ports.ts";
import { openAiChat, type OpenAiChatOptions } from "../models/chat.ts";

type Answer = (request: Request) => Response | Promise<Response>;

/** A model whose provider gives the scripted answers in order and then repeats the last one. */
export function modelOf(answers: readonly Answer[], options: Partial<OpenAiChatOptions> = {}) {
  const requests: Request[] = [];
  const warnings: string[] = [];
  const clock = new FakeClock();
  const model = openAiChat({
    id: "hub/some-model",
    name: "some-model",
    baseUrl: "https://models.test/v1",
    api: CHAT_COMPLETIONS,
    tokens: fixedToken("HUB_TOKEN", "secret-token"),
    headers: { "user-agent": "debate" },
    keyHeader: "authorization",
    refused: new Set(),
    fetch: async (input, init) => {
      const request = new Request(input, init);
      requests.push(request.clone());
      const answer = answers[Math.min(requests.length, answers.length) - 1];
      assert.ok(answer);
      return await answer(request);
    },
    clock,
    random: () => 0,
    warn: (message) => warnings.push(message),
    timeoutMs: 600_000,
    idleMs: 120_000,
    maxOutputTokens: 16_384,
    ...options,
  });
  return { model, clock, requests, warnings };
}

export function requestOf(request: Partial<ModelRequest> = {}): ModelRequest {
  return {
    messages: [{ role: "user", content: "Why?" }],
    temperature: 0.2,
    signal: new AbortController().signal,
    purpose: "diagnostic_agent",
    round: 1,
    ...request,
  };
}

export const json = (value: unknown, init: ResponseInit = {}) =>
  new Response(JSON.stringify(value), {
    ...init,
    headers: { "content-type": "application/json", ...init.headers },
  });

export const refusal = (
  status: number,
  error: Record<string, unknown> = {},
  headers: Record<string, string> = {},
) => json({ error: { message: "raw words of the provider", ...error } }, { status, headers });

export const said = (content: unknown, rest: Record<string, unknown> = {}) =>
  json({ choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }], ...rest });

export const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;

export const delta = (content: string) => event({ choices: [{ index: 0, delta: { content } }] });

export const finish = (reason = "stop") =>
  event({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });

export const stream = (...events: string[]) =>
  new Response(events.join(""), { headers: { "content-type": "text/event-stream" } });

/** A stream whose pieces the test sends. */
export function openStream() {
  const { readable, writable } = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>();
  const writer = writable.getWriter();
  return {
    response: () => new Response(readable, { headers: { "content-type": "text/event-stream" } }),
    send: (text: string) => writer.write(new TextEncoder().encode(text)),
    close: () => writer.close(),
    fail: () => writer.abort(new TypeError("connection reset")),
  };
}

export async function failureOf(promise: Promise<unknown>): Promise<ModelError> {
  const [result] = await Promise.allSettled([promise]);
  assert.equal(result?.status, "rejected");
  assert.ok(result.reason instanceof ModelError, String(result.reason));
  assert.doesNotMatch(result.reason.message, /models\.test|secret-token/, "safe to show");
  return result.reason;
}

/** Lets pending promises continue until a condition holds. */
export async function until(condition: () => boolean): Promise<void> {
  for (let turn = 0; turn < 2000 && !condition(); turn++) {
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
  assert.ok(condition(), "the condition never held");
}
