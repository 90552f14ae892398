import { escapeKey } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import {
  delta,
  event,
  failureOf,
  finish,
  modelOf,
  openStream,
  refusal,
  requestOf,
  said,
  stream,
  until,
} from "../testing/chat_provider.ts";
import { eventsOf } from "./exchange.ts";

Deno.test("OpenAiChat streams text in order and uses the usage of the last chunk", async () => {
  const usage = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 11 };
  const { model, requests } = modelOf([
    () =>
      stream(
        ": hello\n\n",
        delta("The "),
        delta(""),
        delta("heap"),
        finish(),
        event({ choices: [], usage }),
        "data: [DONE]\n\n",
      ),
  ]);
  const deltas: string[] = [];
  const reply = await model.complete(requestOf({ onDelta: (text) => deltas.push(text) }));
  assert.deepEqual(deltas, ["The ", "heap"]);
  assert.deepEqual(reply, {
    text: "The heap",
    toolCalls: [],
    usage: { input_tokens: 7, output_tokens: 3, total_tokens: 11 },
  });
  const body = await requests[0]?.json();
  assert.equal(body.stream, true);
  assert.deepEqual(body.stream_options, { include_usage: true });
});

Deno.test("OpenAiChat ends a call at its time limit", async () => {
  const never = () => new Promise<Response>(() => {});
  const { model, clock, requests } = modelOf([never], { timeoutMs: 200_000 });
  const failed = failureOf(model.complete(requestOf()));
  await until(() => requests.length === 1);
  await clock.advance(200_000);
  const error = await failed;
  assert.equal(error.kind, "timeout");
  assert.equal(error.message, 'Model "hub/some-model" gave no reply within 200 s');
  assert.equal(clock.sleeping, 0);
});

Deno.test("OpenAiChat retries a request without streaming once if no response arrives", async () => {
  const mute = modelOf([() => new Promise<Response>(() => {})]);
  const failed = failureOf(mute.model.complete(requestOf()));
  for (const asked of [1, 2]) {
    await until(() => mute.requests.length === asked && mute.clock.sleeping === 2);
    await mute.clock.advance(239_999);
    assert.equal(mute.requests.length, asked);
    await mute.clock.advance(1);
  }
  const error = await failed;
  assert.deepEqual([error.kind, mute.requests.length, mute.clock.sleeping], ["timeout", 2, 0]);
  assert.match(error.message, /the provider sent nothing within 240 s$/);
});

Deno.test.each([
  { name: "does not answer", silent: () => new Promise<Response>(() => {}) },
  { name: "sends no first byte", silent: () => openStream().response() },
])("OpenAiChat retries once if a provider $name", async ({ silent }) => {
  const listening = requestOf({ onDelta: () => {} });
  const mute = modelOf([silent]);
  const failed = failureOf(mute.model.complete(listening));
  for (const asked of [1, 2]) {
    await until(() => mute.requests.length === asked && mute.clock.sleeping === 2);
    await mute.clock.advance(120_000);
  }
  const error = await failed;
  assert.deepEqual([error.kind, mute.requests.length, mute.clock.sleeping], ["timeout", 2, 0]);
  assert.equal(error.message, 'Model "hub/some-model" gave no reply: the provider sent nothing within 120 s');
  assert.deepEqual(mute.warnings, [
    'Model "hub/some-model": the provider sent nothing within 120 s; retrying once',
  ]);

  const sleepy = modelOf([silent, () => stream(delta("Awake."), finish())]);
  const reply = sleepy.model.complete(listening);
  await until(() => sleepy.requests.length === 1 && sleepy.clock.sleeping === 2);
  await sleepy.clock.advance(120_000);
  assert.equal((await reply).text, "Awake.");
});

Deno.test("OpenAiChat ends a silent stream but not a slow one", async () => {
  const { response, send } = openStream();
  const { model, clock } = modelOf([response]);
  const deltas: string[] = [];
  const failed = failureOf(model.complete(requestOf({ onDelta: (text) => deltas.push(text) })));
  for (const piece of ["a", "b", "c"]) {
    await send(delta(piece));
    await until(() => deltas.at(-1) === piece && clock.sleeping === 2);
    await clock.advance(119_000);
  }
  await clock.advance(1000);
  const error = await failed;
  assert.equal(error.kind, "timeout");
  assert.match(error.message, /sent nothing for 120 s during its reply/);
  assert.deepEqual(deltas, ["a", "b", "c"]);
});

Deno.test("OpenAiChat returns a reply although the stream is never closed", async () => {
  const { response, send } = openStream();
  const { model, clock } = modelOf([response]);
  const deltas: string[] = [];
  const reply = model.complete(requestOf({ onDelta: (text) => deltas.push(text) }));
  await send(delta("Whole.") + finish());
  await until(() => clock.sleeping === 3);
  await clock.advance(5000);
  assert.equal((await reply).text, "Whole.");
  assert.equal(clock.sleeping, 0);
});

Deno.test("OpenAiChat retries a stream that breaks before its first text", async () => {
  const before = openStream();
  const first = modelOf([before.response, () => stream(delta("Second."), finish())]);
  const reply = first.model.complete(requestOf({ onDelta: () => {} }));
  await until(() => first.requests.length === 1);
  await before.fail();
  await until(() => first.warnings.length === 1);
  await first.clock.advance(500);
  assert.equal((await reply).text, "Second.");
});

Deno.test("OpenAiChat keeps a complete reply if the stream breaks before the usage", async () => {
  const { response, send, fail } = openStream();
  const { model } = modelOf([response]);
  const deltas: string[] = [];
  const reply = model.complete(requestOf({ onDelta: (text) => deltas.push(text) }));
  await send(delta("Whole.") + finish());
  await until(() => deltas.length === 1);
  await fail();
  assert.deepEqual(await reply, { text: "Whole.", toolCalls: [], usage: undefined });
});

Deno.test("OpenAiChat stops immediately when it is cancelled", async (test) => {
  const request = (signal: AbortSignal) => requestOf({ signal, onDelta: () => {} });
  await test.step("before it starts", async () => {
    const { model, requests } = modelOf([() => said("Yes.")]);
    assert.equal((await failureOf(model.complete(request(AbortSignal.abort())))).kind, "canceled");
    assert.equal(requests.length, 0);
  });
  await test.step("during the wait for a response", async () => {
    const controller = new AbortController();
    const { model, requests, clock } = modelOf([() => new Promise<Response>(() => {})]);
    const failed = failureOf(model.complete(request(controller.signal)));
    await until(() => requests.length === 1);
    controller.abort();
    assert.equal((await failed).kind, "canceled");
    assert.ok(requests[0]?.signal.aborted);
    assert.equal(clock.sleeping, 0);
  });
  await test.step("during the stream, without further text", async () => {
    const controller = new AbortController();
    const { response, send } = openStream();
    const { model, clock } = modelOf([response]);
    const deltas: string[] = [];
    const failed = failureOf(
      model.complete({ ...request(controller.signal), onDelta: (text) => deltas.push(text) }),
    );
    await send(delta("First"));
    await until(() => deltas.length === 1);
    controller.abort();
    assert.equal((await failed).kind, "canceled");
    await send(delta("Second")).catch(() => {});
    await clock.advance(1);
    assert.deepEqual(deltas, ["First"]);
    assert.equal(clock.sleeping, 0);
  });
  await test.step("in the middle of a chunk", async () => {
    const controller = new AbortController();
    const { model } = modelOf([() => stream(delta("First"), delta("Second"), finish())]);
    const deltas: string[] = [];
    const onDelta = (text: string) => {
      deltas.push(text);
      controller.abort();
    };
    assert.equal(
      (await failureOf(model.complete({ ...request(controller.signal), onDelta }))).kind,
      "canceled",
    );
    await new Promise((resolve) => setTimeout(resolve, 0));
    assert.deepEqual(deltas, ["First"]);
  });
  await test.step("between two attempts", async () => {
    const controller = new AbortController();
    const { model, clock, warnings, requests } = modelOf([() => refusal(500)]);
    const failed = failureOf(model.complete(request(controller.signal)));
    await until(() => warnings.length === 1);
    controller.abort();
    assert.equal((await failed).kind, "canceled");
    assert.equal(clock.sleeping, 0);
    assert.equal(requests.length, 1);
  });
  await test.step("during the wait for a token", async () => {
    const controller = new AbortController();
    const tokens = { token: () => new Promise<string>(() => {}), refused: () => false, remedy: "" };
    const { model, clock } = modelOf([() => said("Yes.")], { tokens });
    const failed = failureOf(model.complete(request(controller.signal)));
    await until(() => clock.sleeping === 1);
    controller.abort();
    assert.equal((await failed).kind, "canceled");
  });
});

Deno.test("OpenAiChat leaves no listeners on the abort signal of a run", async () => {
  const { signal } = new AbortController();
  const listeners = new Set<unknown>();
  const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)];
  signal.addEventListener = (type: string, listener: EventListener) => {
    listeners.add(listener);
    add(type, listener);
  };
  signal.removeEventListener = (type: string, listener: EventListener) => {
    listeners.delete(listener);
    remove(type, listener);
  };
  const { model } = modelOf([() => said("Yes.")]);
  await model.complete(requestOf({ signal }));
  assert.equal(listeners.size, 0);
});

Deno.test.each([
  {
    name: "an error event during the stream",
    answer: stream(delta("A"), event({ error: { message: "raw words", code: "overloaded" } })),
    kind: "server",
    text: /failed \(overloaded\)$/,
  },
  {
    name: "a stream without a finish reason",
    answer: stream(delta("A"), "data: [DONE]\n\n"),
    kind: "server",
    text: /stopped in the middle/,
  },
  {
    name: "a withheld reply",
    answer: stream(finish("content_filter")),
    kind: "bad_reply",
    text: /withheld/,
  },
])("OpenAiChat fails for $name", async ({ answer, kind, text }) => {
  const { model } = modelOf([() => answer]);
  const error = await failureOf(model.complete(requestOf({ onDelta: () => {} })));
  assert.equal(error.kind, kind);
  assert.match(error.message, text);
});

Deno.test("OpenAiChat reads a reply correctly after JSON with an escaped key, despite the V8 defect", async () => {
  const whole = (message: object) => ({ choices: [{ index: 0, message, finish_reason: "stop" }] });
  const streamed = (delta: object) => ({ choices: [{ index: 0, delta }] });
  const content = { role: "assistant", content: "Heap." };
  for (const sent of [whole, streamed]) {
    const { before, text } = escapeKey(JSON.stringify(sent(content)), "content");
    const answer = (text: string) => () =>
      sent === whole
        ? new Response(text, { headers: { "content-type": "application/json" } })
        : stream(`data: ${text}\n\n`, finish());
    JSON.parse(before);
    const { model } = modelOf([answer(text)]);
    const reply = await model.complete(requestOf(sent === whole ? {} : { onDelta: () => {} }));
    assert.equal(reply.text, "Heap.");
  }
});

Deno.test("OpenAiChat reads an answer in one piece instead of a stream", async () => {
  const { model } = modelOf([() => said("Yes.")]);
  const deltas: string[] = [];
  const { text } = await model.complete(requestOf({ onDelta: (delta) => deltas.push(delta) }));
  assert.deepEqual([text, deltas], ["Yes.", ["Yes."]]);
});

const read = (text: string, size: number) => {
  const bytes = new TextEncoder().encode(text);
  const count = Math.ceil(bytes.length / size);
  const chunks = Array.from({ length: count }, (_, index) => bytes.slice(index * size, (index + 1) * size));
  return Array.fromAsync(eventsOf(ReadableStream.from(chunks)));
};

Deno.test.each([
  { name: "one line each", text: "data: a\n\ndata: é\n\n", is: ["a", "é"] },
  { name: "several lines", text: "event: x\ndata: a\ndata:b\nid: 1\n\n", is: ["a\nb"] },
  { name: "all ends of lines", text: "data:a\r\ndata:b\r\n\r\ndata:c\r\rdata:d\n\n", is: ["a\nb", "c", "d"] },
  { name: "comments and empty lines", text: ": hello\n\n\n\ndata: a\n\n", is: ["a"] },
  { name: "no last end", text: "data: a\n\ndata: b", is: ["a", "b"] },
  { name: "characters that only look like ends of lines", text: "data: a\u2028b\n\n", is: ["a\u2028b"] },
])("eventsOf() reads $name for chunks of any size", async ({ text, is }) => {
  for (const size of [1, 2, 5, 1000]) assert.deepEqual(await read(text, size), is);
});
