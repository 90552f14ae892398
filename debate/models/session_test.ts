import { FakeClock, wholeCharacter } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import { ModelError, type ModelRequest } from "../engine/ports.ts";
import { type SessionOptions, sessionTokens, tokenPreview } from "./tokens.ts";
import fc from "fast-check";
import { parseScenario, replayModel } from "./replay.ts";
import { requestOf as chatRequest } from "../testing/chat_provider.ts";

const signal = new AbortController().signal;

/** A provider that issues `session-1`, `session-2`, …, each valid for 25 minutes. */
function sessionsOf(options: Partial<SessionOptions> & { answer?: (count: number) => Response } = {}) {
  const clock = new FakeClock();
  const requests: Request[] = [];
  const endOf = () => Math.floor(clock.now() / 1000) + 1500;
  const answer = options.answer ??
    ((count) => Response.json({ token: `tid=session-${count};exp=${endOf()};x=1` }));
  const sessions = sessionTokens({
    url: "https://session.test/token",
    headers: { "user-agent": "debate" },
    accessToken: () => Promise.resolve("long-lived-token"),
    remedy: "log in",
    fetch: (input, init) => {
      requests.push(new Request(input, init));
      return Promise.resolve(answer(requests.length));
    },
    clock,
    ...options,
  });
  const name = async () => /session-\d+/.exec(await sessions.token(signal))?.[0];
  return { sessions, clock, requests, name };
}

async function failureOf(promise: Promise<unknown>): Promise<ModelError> {
  const [result] = await Promise.allSettled([promise]);
  assert.ok(result?.status === "rejected" && result.reason instanceof ModelError);
  assert.doesNotMatch(result.reason.message, /long-lived|session\.test/);
  return result.reason;
}

Deno.test("sessionTokens() requests a new session if less than a minute is left", async () => {
  const { clock, requests, name } = sessionsOf();
  assert.equal(await name(), "session-1");
  await clock.advance(1440_000);
  assert.equal(await name(), "session-1");
  await clock.advance(1);
  assert.equal(await name(), "session-2");
  assert.deepEqual(requests.map(({ headers }) => headers.get("authorization")), [
    "token long-lived-token",
    "token long-lived-token",
  ]);
});

Deno.test.each([
  {
    name: "expires_at",
    answer: { token: "session-1", expires_at: Date.UTC(2026, 0, 2, 3, 14, 5) / 1000 },
    seconds: 600,
  },
  { name: "an answer without expiry: 25 minutes", answer: { token: "session-1" }, seconds: 1500 },
  {
    name: "exp before expires_at",
    answer: { token: `exp=${Date.UTC(2026, 0, 2, 3, 9, 5) / 1000}`, expires_at: 9 },
    seconds: 300,
  },
])("sessionTokens() reads the expiry from $name", async ({ answer, seconds }) => {
  const { sessions } = sessionsOf({ answer: () => Response.json(answer) });
  assert.deepEqual(await sessions.status(), {
    isConfigured: true,
    isValid: true,
    expiresInSeconds: seconds,
    problem: undefined,
  });
});

Deno.test("sessionTokens() shares one request between concurrent callers", async () => {
  const { requests, name } = sessionsOf();
  assert.deepEqual(await Promise.all([name(), name(), name()]), ["session-1", "session-1", "session-1"]);
  assert.equal(requests.length, 1);
});

Deno.test("sessionTokens() requests a new session if the access token changes during a request", async () => {
  let accessToken = "old";
  const late = Promise.withResolvers<Response>();
  const { sessions, requests, name } = sessionsOf({
    accessToken: () => Promise.resolve(accessToken),
    fetch: (input, init) => {
      requests.push(new Request(input, init));
      return requests.length === 1 ? late.promise : Promise.resolve(Response.json({ token: "session-2" }));
    },
  });
  const old = sessions.token(signal);
  await Promise.resolve();
  await Promise.resolve();
  accessToken = "new";
  assert.equal(await name(), "session-2");
  late.resolve(Response.json({ token: "session-1" }));
  assert.equal(await old, "session-1");
  assert.equal(await name(), "session-2");
  assert.equal(requests.length, 2, "the late one does not replace it");
});

Deno.test("sessionTokens() drops a rejected session", async () => {
  const { sessions, name } = sessionsOf();
  const token = await sessions.token(signal);
  assert.equal(sessions.refused(token), true);
  assert.equal(await name(), "session-2");
  assert.equal(sessions.refused(token), true, "there is a newer one");
  assert.equal(await name(), "session-2");
});

Deno.test("sessionTokens() sends the access token itself without a session URL", async () => {
  const { sessions, requests } = sessionsOf({ url: "" });
  assert.equal(await sessions.token(signal), "long-lived-token");
  assert.equal(sessions.refused("long-lived-token"), false);
  assert.equal(requests.length, 0);
  const { isValid, expiresInSeconds } = await sessions.status();
  assert.deepEqual({ isValid, expiresInSeconds }, { isValid: true, expiresInSeconds: undefined });
});

Deno.test.each([
  { name: "401", answer: () => Response.json({}, { status: 401 }), kind: "auth", text: /HTTP 401\); log in/ },
  { name: "404", answer: () => Response.json({}, { status: 404 }), kind: "auth", text: /HTTP 404/ },
  { name: "500", answer: () => Response.json({}, { status: 500 }), text: /HTTP 500/ },
  { name: "a redirect", answer: () => new Response(null, { status: 302 }), text: /HTTP 302/ },
  { name: "no token", answer: () => Response.json({ hello: 1 }), text: /did not issue a session/ },
  {
    name: "a token that is invalid in a header",
    answer: () => Response.json({ token: "a\r\nb" }),
    text: /did not issue a session/,
  },
  { name: "no JSON", answer: () => new Response("<html>"), text: /did not issue a session/ },
  {
    name: "an endless answer",
    answer: () => new Response("x".repeat(5_000_000)),
    kind: "bad_reply",
    text: /longer/,
  },
  {
    name: "no connection",
    answer: () => {
      throw new TypeError("refused");
    },
    text: /cannot be reached/,
  },
])(
  "sessionTokens() reports $name and requests a session again the next time",
  async ({ answer, kind = "server", text }) => {
    const { sessions } = sessionsOf({
      answer: (count) => count === 1 ? answer() : Response.json({ token: "session-2" }),
    });
    const error = await failureOf(sessions.token(signal));
    assert.equal(error.kind, kind);
    assert.match(error.message, text);
    assert.equal(await sessions.token(signal), "session-2");
  },
);

Deno.test("sessionTokens() fails if the provider does not respond", async () => {
  const { sessions, clock } = sessionsOf({
    fetch: (_input, init) =>
      new Promise((_resolve, reject) =>
        init?.signal?.addEventListener("abort", () => reject(init.signal?.reason))
      ),
  });
  const failed = failureOf(sessions.token(signal));
  await clock.advance(10_000);
  assert.equal((await failed).kind, "timeout");
  assert.equal(clock.sleeping, 0);
});

Deno.test("sessionTokens() names the remedy for a missing access token", async () => {
  const { sessions } = sessionsOf({ accessToken: () => Promise.resolve(undefined) });
  assert.equal((await failureOf(sessions.token(signal))).message, "there is no access token; log in");
  assert.deepEqual(await sessions.status(), {
    isConfigured: false,
    isValid: false,
    expiresInSeconds: undefined,
    problem: "There is no access token; log in",
  });
});

Deno.test("sessionTokens().status() reports why no session exists", async () => {
  const { sessions } = sessionsOf({ answer: () => Response.json({}, { status: 401 }) });
  const { isConfigured, isValid, problem } = await sessions.status();
  assert.deepEqual({ isConfigured, isValid }, { isConfigured: true, isValid: false });
  assert.match(problem ?? "", /^No session: the provider rejected the access token/);
});

Deno.test("tokenPreview() shows the first characters of a token, and none of a short one", () => {
  assert.equal(tokenPreview("abcd-0123456789-0123456789"), "abcd…");
  assert.equal(tokenPreview("short-token"), "…");
});

function replayOf(scenario: Record<string, unknown>, pieceDelayMs = 0) {
  const clock = new FakeClock();
  const id = "replay/mine";
  const parsed = parseScenario(JSON.stringify(scenario), "mine.json");
  return { clock, model: replayModel({ id, scenario: parsed, clock, pieceDelayMs }) };
}

const tool = { name: "http_get", description: "", parameters: {} };

const requestOf = (request: Partial<ModelRequest> = {}): ModelRequest =>
  chatRequest({
    messages: [{ role: "system", content: "You are" }, { role: "user", content: "Why?" }],
    tools: [tool],
    ...request,
  });

const one = (reply: unknown) => ({ rounds: [{ diagnostic_agent: [reply] }] });

Deno.test("replayModel() returns the replies of each node and round in order", async () => {
  const { model } = replayOf({
    rounds: [
      { diagnostic_agent: [{ text: "1" }, { text: "2" }], skeptic_agent: [{ text: "s" }] },
      { diagnostic_agent: [{ text: ["3", "more"] }] },
    ],
  });
  const say = async (request: Partial<ModelRequest>) => (await model.complete(requestOf(request))).text;
  assert.equal(await say({}), "1");
  assert.equal(await say({ purpose: "skeptic_agent" }), "s");
  assert.equal(await say({}), "2");
  assert.equal(await say({ round: 2 }), "3\nmore");
});

Deno.test("replayModel() calls tools with values from topic and context", async () => {
  const { model } = replayOf({
    variables: { service: { label: "Service" }, files: { label: "Log files", default: "/var/log" } },
    ...one({
      text: "I look at {{service}}",
      tool_calls: [{
        name: "http_get",
        arguments: { url: "{{service}}/health", in: ["{{files}}", 7, { n: null }] },
      }],
      usage: { input_tokens: 5, output_tokens: 2 },
    }),
  });
  const content = "It fails.\r\n\n- Service: http://127.0.0.1:1\nService: http://other";
  assert.deepEqual(await model.complete(requestOf({ messages: [{ role: "user", content }] })), {
    text: "I look at http://127.0.0.1:1",
    toolCalls: [{
      id: "call_1_0",
      name: "http_get",
      arguments: '{"url":"http://127.0.0.1:1/health","in":["/var/log",7,{"n":null}]}',
    }],
    usage: { input_tokens: 5, output_tokens: 2, total_tokens: 7 },
  });
});

Deno.test.each([
  { name: "there are none", request: { tools: [] } },
  { name: "they may not be called any more", request: { toolChoice: "none" as const } },
])("replayModel() skips replies with tool calls if $name", async ({ request }) => {
  const call = { text: "look", tool_calls: [{ name: "http_get" }] };
  const { model } = replayOf({ rounds: [{ diagnostic_agent: [call, call, { text: "done" }] }] });
  assert.equal((await model.complete(requestOf(request))).text, "done");
});

Deno.test.each([
  {
    name: "its rounds are over",
    request: { round: 3 },
    text: "round 3: diagnostic_agent has no reply: the script ends after round 2",
  },
  {
    name: "a node has no part",
    request: { purpose: "skeptic_agent" as const },
    text: "round 1: skeptic_agent has no part in the script",
  },
  {
    name: "a round is empty",
    request: { round: 2 },
    text: "round 2: diagnostic_agent has no part in the script",
  },
  {
    name: "its replies are used up",
    request: {},
    text: "round 1: diagnostic_agent has no further reply: the script contains 1 reply",
  },
])("replayModel() fails if $name", async ({ request, text }) => {
  const { model } = replayOf({ rounds: [{ diagnostic_agent: [{ text: "1" }] }, {}] });
  await model.complete(requestOf());
  const error = await failureOf(model.complete(requestOf(request)));
  assert.equal(error.message, `Scenario "replay/mine", ${text}`);
  assert.equal(error.kind, "server", "a bad reply would only be asked for again");
});

Deno.test("replayModel() requires a value for a variable without a default", async () => {
  const { model } = replayOf({
    variables: { service: { label: "Service" } },
    ...one({ text: "{{service}}" }),
  });
  const error = await failureOf(model.complete(requestOf()));
  assert.match(error.message, /needs a line "Service: …" in the topic or the context$/);
});

Deno.test("replayModel() pauses between chunks and ends immediately if it is canceled", async () => {
  const { model, clock } = replayOf(one({ text: "one two three four five six seven", delay_ms: 1000 }), 10);
  const controller = new AbortController();
  const deltas: string[] = [];
  const failed = failureOf(
    model.complete(requestOf({ signal: controller.signal, onDelta: (text) => deltas.push(text) })),
  );
  await clock.advance(1009);
  assert.deepEqual(deltas, []);
  await clock.advance(1);
  assert.deepEqual(deltas, ["one two three four five "]);
  controller.abort();
  assert.equal((await failed).kind, "canceled");
  assert.equal(clock.sleeping, 0);
});

Deno.test("replayModel() streams exactly its text in non-empty chunks", async () => {
  await fc.assert(fc.asyncProperty(fc.string({ unit: wholeCharacter(fc), maxLength: 300 }), async (text) => {
    const deltas: string[] = [];
    const script = { ...one({ text }), variables: {} };
    if (/\{\{\w+\}\}/.test(text)) return;
    const reply = await replayOf(script).model.complete(
      requestOf({ onDelta: (piece) => deltas.push(piece) }),
    );
    assert.equal(deltas.join(""), reply.text);
    assert.ok(deltas.every((piece) => piece !== ""));
  }));
});
