import assert from "node:assert/strict";
import { type Clock, systemClock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { BridgeStore } from "../../ctl/bridge/store.ts";
import { SlackChat } from "../../ctl/bridge/slack.ts";
import { poll } from "../stage/poll.ts";
import {
  type BridgeScene,
  FakePlane,
  ID,
  impatientClock,
  memoryLogger,
  pollUndecided,
  withBridge,
} from "./bridge_fixture.ts";
import { CHANNEL, clickOn, FakeSlack, type Fault, textOf } from "./fake_slack.ts";

async function withSlack(
  slack: FakeSlack,
  controlPlane: FakePlane,
  test: (scene: BridgeScene) => Promise<void>,
  clock: Clock = systemClock,
): Promise<void> {
  await withBridge({ controlPlane, clock, chat: (signal, logger) => slackChat(slack, signal, logger) }, test);
}

function slackChat(
  slack: FakeSlack,
  signal: AbortSignal,
  logger: ReturnType<typeof memoryLogger>,
): SlackChat {
  return new SlackChat({
    apiUrl: slack.apiUrl,
    channel: CHANNEL,
    botToken: "xoxb-secret",
    appToken: "xapp-secret",
    clock: impatientClock,
    logger,
    fetch,
    signal,
  });
}

const limited: Fault = () => new Response("", { status: 429, headers: { "retry-after": "0.05" } });
const broken: Fault = () => new Response("<html>xoxb-secret</html>", { status: 500 });
const garbage: Fault = () => new Response('{"ok":tru', { headers: { "content-type": "application/json" } });
const nonsense: Fault = () => Response.json([]);
const refused: Fault = () => Response.json({ ok: false, error: "not_in_channel" });
const huge: Fault = () => new Response(`{"ok":true,"x":"${"x".repeat(5 << 20)}"}`);

const BUTTON = { action_id: "gateway_approve", value: `${ID}.nonce` };

const standing = (slack: FakeSlack, start: RegExp) =>
  poll(() => slack.posted.length > 0 && start.test(textOf(slack.posted[0]!)), { what: `${start}` });

Deno.test("bridge to Slack: posts and decides a request once despite error responses of Slack", async () => {
  await using slack = new FakeSlack();
  slack.fail("auth.test", garbage, broken);
  slack.fail("apps.connections.open", limited, broken);
  slack.fail("chat.postMessage", refused, broken, limited, garbage, nonsense, huge);
  await withSlack(slack, new FakePlane(), async ({ log, controlPlane }) => {
    await poll(() => slack.posted.length > 0, { what: "the message" });
    await slack.connected();
    slack.fail("chat.update", broken, limited, refused);
    slack.fail("users.info", broken);
    slack.send(clickOn(slack.posted[0]!, "approve"));
    await poll(() => slack.said.length === 1, { what: "that the decision failed" });
    assert.match(
      slack.said[0]!,
      /the result of your decision is unknown: Slack sent an invalid response/,
    );
    slack.send(clickOn(slack.posted[0]!, "approve"));
    await standing(slack, /^Approved/);
    assert.deepEqual([controlPlane.decisions.length, slack.posted.length], [1, 1]);
    assert.doesNotMatch(log.join("\n"), /xoxb-secret|xapp-secret|secret-ticket/);
  });
});

Deno.test("bridge to Slack: finds a posted message whose response was lost and does not post it again", async () => {
  await using slack = new FakeSlack();
  // Slack accepts the message but does not answer.
  slack.fail("chat.postMessage", () => {
    slack.answer("chat.postMessage", slack.lastForm);
    return new Response("", { status: 502 });
  });
  await withSlack(slack, new FakePlane(), async () => {
    await standing(slack, /^Approval required/);
    assert.equal(slack.posted.length, 1);
  });
});

Deno.test("bridge to Slack: posts a lost message again if it may not read the channel", async () => {
  await using slack = new FakeSlack();
  slack.fail("chat.postMessage", broken);
  slack.fail("conversations.history", () => Response.json({ ok: false, error: "missing_scope" }));
  await withSlack(slack, new FakePlane(), async () => {
    await poll(() => slack.posted.length > 0, { what: "the message" });
  });
});

Deno.test("bridge to Slack: a click is decided while the post of another message hangs", async () => {
  await using slack = new FakeSlack();
  await withSlack(slack, new FakePlane(), async ({ controlPlane, log }) => {
    await poll(() => slack.posted.length > 0, { what: "the message" });
    await slack.connected();
    const held = Promise.withResolvers<Response>();
    slack.fail("chat.postMessage", () => held.promise);
    const calls = slack.calls.length;
    controlPlane.add({ command: "reboot" });
    await poll(() => slack.calls.slice(calls).includes("chat.postMessage"), { what: "the second message" });
    // A click on a forgotten message must not delay later clicks.
    slack.send(clickOn({ ...slack.posted[0]!, ts: "1.2" }, "approve"));
    slack.send(clickOn(slack.posted[0]!, "deny"));
    await poll(() => controlPlane.decisions.length === 1, { what: "the decision" });
    assert.ok(!log.some((line) => /did not answer/.test(line)), "decided before the message was given up");
    held.resolve(new Response("", { status: 500 }));
    await standing(slack, /^Denied/);
  });
});

Deno.test("bridge to Slack: reconnects after a refresh request and a lost connection, and accepts clicks again", async () => {
  await using slack = new FakeSlack();
  await withSlack(slack, new FakePlane(), async ({ controlPlane, log }) => {
    await poll(() => slack.posted.length > 0, { what: "the message" });
    await slack.connected();
    const connections = () => log.filter((line) => line.startsWith("connected")).length;
    slack.sendText(JSON.stringify({ type: "disconnect", reason: "refresh_requested" }));
    await poll(() => connections() === 2, { what: "the connection after a refresh" });
    slack.cut();
    await poll(() => connections() === 3, { what: "the connection after a cut" });
    slack.send(clickOn(slack.posted[0]!, "approve"));
    await poll(() => controlPlane.decisions.length === 1, { what: "the decision" });
  });
});

Deno.test("bridge to Slack: after a restart posts no message again and accepts buttons of earlier messages", async () => {
  await using slack = new FakeSlack();
  await withSlack(slack, new FakePlane(), async ({ controlPlane, restart, stop }) => {
    await poll(() => slack.posted.length > 0, { what: "the message" });
    const message = slack.posted[0]!;
    await restart();
    controlPlane.add({ command: "reboot" });
    await poll(() => slack.posted.length === 2, { what: "the second message" });
    await slack.connected();
    slack.send(clickOn(message, "approve"));
    await standing(slack, /^Approved/);
    await stop();
    controlPlane.records.delete(ID);
    await restart();
    await standing(slack, /^Closed: the control plane no longer lists this request/);
    assert.equal(slack.posted.length, 2);
  });
});

Deno.test("bridge to Slack: decides a click that was stored before a kill once after the restart", async () => {
  await using slack = new FakeSlack();
  await withSlack(slack, new FakePlane(), async ({ controlPlane, restart, stop, statePath }) => {
    await poll(() => slack.posted.length > 0, { what: "the message" });
    await stop();
    const store = BridgeStore.open({ path: statePath, warn() {} });
    const [posted] = await store.posted();
    const { message, nonce } = posted!;
    await store.take(
      { key: "k", message, nonce, user: "U0BOB", verb: { kind: "learn", ttlSeconds: 3600 } },
      1,
    );
    await store.close();
    const restarted = async (count: number) => {
      await restart();
      controlPlane.add({ command: "reboot" });
      await poll(() => slack.posted.length === count, { what: "another message, which comes after clicks" });
    };
    await restarted(2);
    await restarted(3);
    assert.deepEqual(controlPlane.decisions.map(({ learn, ttl_seconds }) => [learn, ttl_seconds]), [[
      true,
      3600,
    ]]);
    assert.deepEqual(slack.said, []);
  });
});

Deno.test("SlackChat acknowledges a click to Slack only after the click is stored", async () => {
  await using slack = new FakeSlack();
  const stop = new AbortController();
  const chat = slackChat(slack, stop.signal, memoryLogger([]));
  const noted = Promise.withResolvers<void>();
  const listening = chat.listen(() => noted.promise, stop.signal);
  try {
    await slack.connected();
    const posted = { ts: "1.2", thread: "", text: "", blocks: [{ type: "actions", elements: [BUTTON] }] };
    const click = slack.send(clickOn(posted, "approve"));
    const other = slack.send({}, "other", "slash_commands");
    await poll(() => slack.acknowledged.includes(other), { what: "what is no click, and came later" });
    assert.ok(!slack.acknowledged.includes(click));
    noted.resolve();
    await poll(() => slack.acknowledged.includes(click), { what: "the acknowledgement" });
  } finally {
    stop.abort();
    await listening;
  }
});

Deno.test("bridge to Slack: a click that was reported as failed is not repeated after a restart", async () => {
  await using slack = new FakeSlack();
  await withSlack(slack, new FakePlane(), async ({ controlPlane, restart }) => {
    await poll(() => slack.posted.length > 0, { what: "the message" });
    await slack.connected();
    controlPlane.refusal = new AppError("audit_unavailable", "no record, no decision");
    slack.send(clickOn(slack.posted[0]!, "approve"));
    await pollUndecided(controlPlane, () => slack.said.length === 1, { what: "that it failed" });
    await restart();
    await slack.connected();
    slack.send(clickOn(slack.posted[0]!, "deny"));
    await poll(() => controlPlane.decisions.length > 0, { what: "a decision" });
    assert.deepEqual(controlPlane.decisions.map(({ approve }) => approve), [false]);
  });
});

Deno.test("bridge to Slack: posts a request after a control plane outage and shows its expiry", async () => {
  await using slack = new FakeSlack();
  const controlPlane = new FakePlane();
  controlPlane.isDown = true;
  await withSlack(slack, controlPlane, async ({ log }) => {
    await slack.connected();
    await poll(() => log.some((line) => /Failed contacting the control plane/.test(line)), {
      what: "the failure",
    });
    controlPlane.isDown = false;
    await standing(slack, /^Approval required/);
    controlPlane.isDown = true;
    slack.send(clickOn(slack.posted[0]!, "approve"));
    await pollUndecided(controlPlane, () => slack.said.length === 1, { what: "that it was not decided" });
    assert.match(
      slack.said[0]!,
      /Failed contacting the control plane; see the request's page for its status/,
    );
    controlPlane.isDown = false;
    controlPlane.records.set(ID, { ...controlPlane.records.get(ID)!, status: "expired" });
    await standing(slack, /^Expired, not run/);
    assert.deepEqual(controlPlane.decisions, []);
  });
});

Deno.test("bridge to Slack: posts a pending request again if its message was deleted", async () => {
  await using slack = new FakeSlack();
  await withSlack(slack, new FakePlane(), async ({ controlPlane }) => {
    await poll(() => slack.posted.length > 0, { what: "the message" });
    slack.messages.clear();
    controlPlane.records.set(ID, {
      ...controlPlane.records.get(ID)!,
      reason: "a look that makes it change the message",
    });
    await poll(() => slack.posted.length === 1, { what: "the message" });
  });
});

Deno.test("bridge to Slack: limits a Retry-After of years to minutes", async () => {
  await using slack = new FakeSlack();
  const years: Fault = () => new Response("", { status: 429, headers: { "retry-after": "999999999" } });
  slack.fail("chat.postMessage", years);
  const controlPlane = new FakePlane();
  let [ahead, looks] = [0, 0];
  const now = () => {
    looks++;
    return impatientClock.now() + ahead;
  };
  await withSlack(slack, controlPlane, async ({ log }) => {
    await poll(() => log.some((line) => /Slack requested a pause/.test(line)), { what: "the pause" });
    ahead = 10 * 60_000;
    const before = looks;
    await poll(() => slack.posted.length > 0 || looks > before + 10, { what: "the message, or many a poll" });
    assert.equal(slack.posted.length, 1);
  }, { ...impatientClock, now });
});

Deno.test("bridge to Slack: --check reports each invalid token and a channel without the bot", async (t) => {
  await using slack = new FakeSlack();
  const refuse = (error: string): Fault => () => Response.json({ ok: false, error });
  const connect = (log: string[] = []) => {
    const { signal } = new AbortController();
    return slackChat(slack, signal, memoryLogger(log)).connect();
  };
  assert.equal(await connect(), "U0BRIDGE in T0TEAM");
  for (
    const { method, error, said } of [
      { method: "auth.test", error: "invalid_auth", said: /auth\.test: invalid_auth: SLACK_BOT_TOKEN/ },
      { method: "users.info", error: "missing_scope", said: /users\.info: missing_scope: add the scopes/ },
      {
        method: "apps.connections.open",
        error: "not_allowed_token_type",
        said: /connections\.open: not_allowed_token_type: SLACK_APP_TOKEN/,
      },
      { method: "conversations.history", error: "not_in_channel", said: /not_in_channel: invite the bot/ },
      { method: "conversations.history", error: "channel_not_found", said: /channel_not_found: invite/ },
    ]
  ) {
    await t.step(`${method}: ${error}`, async () => {
      slack.fail(method, refuse(error));
      await assert.rejects(connect(), said);
    });
  }
  await t.step("without the scope to read the channel, --check passes with a warning", async () => {
    slack.fail("conversations.history", refuse("missing_scope"));
    const log: string[] = [];
    assert.equal(await connect(log), "U0BRIDGE in T0TEAM");
    assert.match(log.join("\n"), /app cannot read the channel, a request may be posted twice/);
  });
});
