import { FakeClock } from "@gateway/shared/testing";
import { AppError } from "@gateway/shared/errors";
import assert from "node:assert/strict";
import { type DeviceFlowOptions, deviceFlows } from "./device_flow.ts";
import { ModelError } from "../engine/ports.ts";

const STARTED = {
  device_code: "secret-device-code",
  user_code: "WDJB-MJHT",
  verification_uri: "https://login.test/device",
  interval: 5,
  expires_in: 900,
};

/** A provider that answers checks in order and repeats the last answer. */
function flowsOf(
  answers: readonly (() => Response)[],
  options: Partial<DeviceFlowOptions> & { started?: Response } = {},
) {
  const clock = new FakeClock();
  const forms: Record<string, string>[] = [];
  const stored: string[] = [];
  let ids = 0;
  const flows = deviceFlows({
    missing: [],
    deviceCodeUrl: "https://login.test/code",
    tokenUrl: "https://login.test/token",
    clientId: "our-client",
    scope: "read:user",
    fetch: async (input, init) => {
      const request = new Request(input, init);
      const form = Object.fromEntries(new URLSearchParams(await request.text()));
      assert.equal(request.headers.get("accept"), "application/json");
      if (request.url.endsWith("/code")) {
        assert.deepEqual(form, { client_id: "our-client", scope: "read:user" });
        return options.started ?? Response.json(STARTED);
      }
      forms.push(form);
      const answer = answers[Math.min(forms.length, answers.length) - 1];
      assert.ok(answer);
      return answer();
    },
    clock,
    newId: () => `flow-${++ids}`,
    store: (token) => {
      stored.push(token);
      return Promise.resolve();
    },
    ...options,
  });
  const check = async () => {
    const state = await flows.check("flow-1");
    assert.ok(state);
    assert.doesNotMatch(JSON.stringify(state), /secret-device-code|access-token/);
    return state;
  };
  return { flows, clock, forms, stored, check };
}

const error = (code: string, rest: Record<string, unknown> = {}, status = 400) => () =>
  Response.json({ error: code, ...rest }, { status });

const pending = error("authorization_pending");
const granted = () => Response.json({ access_token: "access-token-1", token_type: "bearer" });

Deno.test("deviceFlows() stores the token after the operator grants access", async () => {
  const { flows, clock, forms, stored, check } = flowsOf([pending, granted]);
  const started = await flows.start();
  assert.deepEqual(started, {
    device_code: "flow-1",
    user_code: "WDJB-MJHT",
    verification_uri: "https://login.test/device",
    interval: 5,
    expires_in: 900,
    status: "pending",
    last_error: null,
  });
  await clock.advance(5000);
  assert.equal((await check()).status, "pending");
  await clock.advance(5000);
  assert.deepEqual(await check(), { ...started, status: "authorized" });
  assert.deepEqual(stored, ["access-token-1"]);
  assert.deepEqual(forms[0], {
    client_id: "our-client",
    device_code: "secret-device-code",
    grant_type: "urn:ietf:params:oauth:grant-type:device_code",
  });
  assert.equal((await check()).status, "authorized", "and stays so");
  assert.equal(forms.length, 2);
});

Deno.test("deviceFlows() accepts authorization_pending with status 200", async () => {
  const { flows, clock, check } = flowsOf([
    error("authorization_pending", {}, 200),
    error("slow_down", { interval: 7 }, 200),
    granted,
  ]);
  await flows.start();
  const states: string[] = [];
  for (const seconds of [5, 5, 10]) {
    await clock.advance(seconds * 1000);
    const { status, interval } = await check();
    states.push(`${status} ${interval}`);
  }
  assert.deepEqual(states, ["pending 5", "pending 10", "authorized 10"]);
});

Deno.test("deviceFlows() polls at the requested interval, and slower after slow_down", async () => {
  const { flows, clock, forms, check } = flowsOf([
    error("slow_down"),
    error("slow_down", { interval: 30 }),
    pending,
  ]);
  await flows.start();
  const askedAfter = async (seconds: number) => {
    await clock.advance(seconds * 1000 - 1);
    const before = forms.length;
    await check();
    assert.equal(forms.length, before, `not before ${seconds} s`);
    await clock.advance(1);
    const state = await check();
    assert.equal(forms.length, before + 1);
    return state.interval;
  };
  assert.equal(await askedAfter(5), 10);
  assert.equal(await askedAfter(10), 30);
  assert.equal(await askedAfter(30), 30);
});

Deno.test.each([
  { name: "denied", answer: error("access_denied"), status: "denied", text: /denied/ },
  { name: "expired", answer: error("expired_token"), status: "expired", text: /expired/ },
  {
    name: "an unknown error",
    answer: error("bad_client"),
    status: "error",
    text: /\(HTTP 400, bad_client\)/,
  },
  { name: "a hostile error", answer: error("<script>"), status: "error", text: /\(HTTP 400\)/ },
  { name: "no token and no error", answer: () => Response.json({}), status: "error", text: /HTTP 200/ },
  {
    name: "a token that is invalid in a header",
    answer: () => Response.json({ access_token: "a\nb" }),
    status: "error",
    text: /HTTP 200/,
  },
])("deviceFlows() ends for $name", async ({ answer, status, text }) => {
  const { flows, clock, check, forms, stored } = flowsOf([answer]);
  await flows.start();
  await clock.advance(5000);
  const state = await check();
  assert.equal(state.status, status);
  assert.match(state.last_error ?? "", text);
  await clock.advance(60_000);
  await check();
  assert.equal(forms.length, 1);
  assert.deepEqual(stored, []);
});

Deno.test.each([
  { name: "fails", answer: () => Response.json({}, { status: 503 }), text: /HTTP 503/ },
  { name: "wants a pause", answer: () => Response.json({}, { status: 429 }), text: /HTTP 429/ },
  {
    name: "cannot be reached",
    answer: () => {
      throw new TypeError("refused");
    },
    text: /cannot be reached/,
  },
])("deviceFlows() continues when the provider $name", async ({ answer, text }) => {
  const { flows, clock, check } = flowsOf([answer, granted]);
  await flows.start();
  await clock.advance(5000);
  const state = await check();
  assert.equal(state.status, "pending");
  assert.match(state.last_error ?? "", text);
  await clock.advance(5000);
  assert.equal((await check()).status, "authorized");
});

Deno.test("deviceFlows() expires by the local clock", async () => {
  const { flows, clock, check, forms } = flowsOf([granted]);
  await flows.start();
  await clock.advance(900_000);
  assert.equal((await check()).status, "expired");
  assert.equal(forms.length, 0);
});

Deno.test("deviceFlows() polls once for concurrent checks", async () => {
  const { flows, clock, check, forms, stored } = flowsOf([granted]);
  await flows.start();
  await clock.advance(5000);
  const states = await Promise.all([check(), check()]);
  assert.deepEqual(states.map(({ status }) => status), ["authorized", "authorized"]);
  assert.equal(forms.length, 1);
  assert.equal(stored.length, 1);
});

Deno.test("deviceFlows() reports a token that cannot be stored", async () => {
  const { flows, clock, check } = flowsOf([granted], {
    store: () => Promise.reject(new Error("access-token-1")),
  });
  await flows.start();
  await clock.advance(5000);
  const { status, last_error } = await check();
  assert.equal(status, "error");
  assert.match(last_error ?? "", /cannot be stored/);
});

Deno.test("deviceFlows() rejects unknown flows and removes the oldest", async () => {
  const { flows } = flowsOf([pending]);
  assert.equal(await flows.check("secret-device-code"), undefined);
  for (let count = 0; count < 17; count++) await flows.start();
  assert.equal(await flows.check("flow-1"), undefined);
  assert.equal((await flows.check("flow-17"))?.status, "pending");
});

Deno.test("DeviceFlows.wait() polls until the flow ends or is cancelled", async () => {
  const { flows, clock } = flowsOf([pending, pending, granted]);
  await flows.start();
  const over = flows.wait("flow-1", new AbortController().signal);
  await clock.advance(15_000);
  assert.equal((await over)?.status, "authorized");

  await flows.start();
  const controller = new AbortController();
  const cancelled = flows.wait("flow-2", controller.signal);
  controller.abort(new Error("enough"));
  await assert.rejects(cancelled, { message: "enough" });
});

Deno.test.each([
  {
    name: "settings are missing",
    options: { missing: ["ASSIST_CLIENT_ID"] },
    kind: "invalid_config",
    text: /fix: set ASSIST_CLIENT_ID/,
  },
  {
    name: "the provider rejects the request",
    options: { started: Response.json({}, { status: 404 }) },
    kind: "bad_reply",
    text: /HTTP 404/,
  },
  {
    name: "the link is not a URL",
    options: { started: Response.json({ ...STARTED, verification_uri: "javascript:alert(1)" }) },
    kind: "bad_reply",
    text: /did not start a device flow/,
  },
  {
    name: "the code has control characters",
    options: { started: Response.json({ ...STARTED, user_code: "A\u001b[2J" }) },
    kind: "bad_reply",
    text: /did not start a device flow/,
  },
])("deviceFlows() does not start if $name", async ({ options, kind, text }) => {
  const { flows } = flowsOf([pending], options);
  await assert.rejects(flows.start(), (error) => {
    assert.ok(error instanceof ModelError || error instanceof AppError);
    assert.equal(error instanceof ModelError ? error.kind : error.code, kind);
    assert.match(error.message, text);
    return true;
  });
});
