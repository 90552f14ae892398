import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { SlackChat } from "../../ctl/bridge/slack.ts";
import { poll } from "../stage/poll.ts";
import {
  type BridgeOptions,
  type BridgeScene,
  FakePlane,
  ID,
  PENDING,
  pollUndecided,
  withBridge,
} from "./bridge_fixture.ts";
import { CHANNEL, clickOn, elementsOf, type FakeMessage, FakeSlack, textOf } from "./fake_slack.ts";

async function withSlack(
  test: (scene: BridgeScene & { readonly slack: FakeSlack; readonly first: FakeMessage }) => Promise<void>,
  options: Partial<BridgeOptions> & { readonly prepare?: (slack: FakeSlack) => void } = {},
): Promise<void> {
  await using slack = new FakeSlack();
  options.prepare?.(slack);
  const chat: BridgeOptions["chat"] = (signal, logger) =>
    new SlackChat({
      apiUrl: slack.apiUrl,
      channel: CHANNEL,
      botToken: "xoxb-secret",
      appToken: "xapp-secret",
      clock: systemClock,
      logger,
      fetch,
      signal,
    });
  await withBridge({ ...options, chat }, async (scene) => {
    await poll(() => slack.posted.length > 0, { what: "the first message" });
    await slack.connected();
    await test({ ...scene, slack, first: slack.posted[0]! });
    const log = scene.log.join("\n");
    assert.doesNotMatch(log, /xoxb-secret|xapp-secret|secret-ticket/);
  });
}

/** Waits until a click was acknowledged and all its effects have happened. */
async function settle(slack: FakeSlack, envelope: string, isDone: () => boolean): Promise<void> {
  await acknowledged(slack, envelope);
  await poll(isDone, { what: "what comes of the click" });
}

/** Like `settle()` for a click that must not decide. */
async function settleUndecided(
  { slack, controlPlane }: { readonly slack: FakeSlack; readonly controlPlane: FakePlane },
  envelope: string,
  isDone: () => boolean,
): Promise<void> {
  await acknowledged(slack, envelope);
  await pollUndecided(controlPlane, isDone, { what: "what comes of the click" });
}

async function acknowledged(slack: FakeSlack, envelope: string): Promise<void> {
  await poll(() => slack.acknowledged.includes(envelope), { what: "the acknowledgement" });
}

Deno.test("bridge to Slack: a click decides in the name of the user, and the message shows the decision", async () => {
  await withSlack(async ({ slack, controlPlane, first }) => {
    assert.match(
      textOf(first),
      /^Approval required\n[^]*end user {3}ann@example\.com\n[^]*command {4}"systemctl restart nginx"/,
    );
    assert.deepEqual(elementsOf(first).map(({ action_id }) => action_id), [
      "gateway_approve",
      "gateway_deny",
      "gateway_learn",
    ]);
    assert.equal(first.text, "Approval required", "what notifications show is read as markup");
    await settle(
      slack,
      slack.send(clickOn(first, "approve")),
      () => /^Approved/.test(textOf(slack.posted[0]!)),
    );
    assert.deepEqual(controlPlane.decisions, [{
      id: ID,
      approve: true,
      learn: false,
      ttl_seconds: 0,
      shown_ids: [ID],
      comment: "reported by the chat bridge: Slack user U0BOB, bob@example.com in the identity map",
    }]);
    assert.deepEqual(elementsOf(slack.posted[0]!), []);
    assert.deepEqual(slack.said, []);
  });
});

Deno.test("bridge to Slack: a click decides only the identical requests that the message counted", async () => {
  const controlPlane = new FakePlane();
  const [second, third, late] = ["2", "3", "4"].map((digit) => digit.repeat(32));
  assert.ok(second && third && late);
  controlPlane.records.set(ID, { ...PENDING, joined: [second, third] });
  await withSlack(async ({ slack, first, restart }) => {
    assert.match(textOf(first), /^Approval required \(3 identical requests\)\n/);
    // The third request was decided elsewhere, and one more request has joined.
    controlPlane.records.set(ID, { ...PENDING, joined: [second, late] });
    await restart();
    await slack.connected();
    const isDone = () => /^Approved \(3 identical requests\)/.test(textOf(slack.posted[0]!));
    await settle(slack, slack.send(clickOn(first, "approve")), isDone);
    assert.deepEqual(controlPlane.decisions.map(({ shown_ids }) => shown_ids), [[ID, second]]);
  }, { controlPlane });
});

Deno.test("bridge to Slack: approves and learns for the chosen time, and reports a rejection by the control plane", async () => {
  await withSlack(async ({ slack, controlPlane, first }) => {
    controlPlane.refusal = new AppError(
      "invalid_request",
      "nothing to learn: no policy rule requires approval; approve it without learn",
    );
    await settle(slack, slack.send(clickOn(first, "learn")), () => slack.said.length === 1);
    assert.match(slack.said[0]!, /^U0BOB: your decision failed: nothing to learn/);
    await settle(slack, slack.send(clickOn(first, "learn")), () => controlPlane.decisions.length === 1);
    assert.deepEqual([controlPlane.decisions[0]?.learn, controlPlane.decisions[0]?.ttl_seconds], [
      true,
      3600,
    ]);
  });
});

Deno.test("bridge to Slack: counts a repeated envelope and a repeated click once", async () => {
  await withSlack(async ({ slack, controlPlane, first }) => {
    // A second attempt would succeed.
    controlPlane.refusal = new AppError("audit_unavailable", "no record, no decision");
    const click = clickOn(first, "approve");
    const envelope = slack.send(click);
    slack.send(click, envelope);
    slack.send(click);
    // Clicks are handled in order, so the effects of this one follow all effects of the earlier ones.
    slack.send(clickOn(first, "deny"));
    await poll(() => controlPlane.decisions.length > 0, { what: "a decision" });
    assert.deepEqual(controlPlane.decisions.map(({ approve }) => approve), [false]);
    assert.equal(slack.said.length, 1);
    assert.match(slack.said[0]!, /no record, no decision/);
  });
});

interface Forgery {
  readonly name: string;
  readonly forge: (click: Record<string, unknown>, other: FakeMessage) => Record<string, unknown>;
  /** The text below the message. Absent if the bridge did not post the message. */
  readonly said?: RegExp;
}

const withAction = (click: Record<string, unknown>, changes: object) => ({
  ...click,
  actions: [{ ...(click["actions"] as readonly object[])[0], ...changes }],
});
const withUser = (click: Record<string, unknown>, changes: object) => ({
  ...click,
  user: { ...(click["user"] as object), ...changes },
});

const FORGERIES: readonly Forgery[] = [
  {
    name: "with the button of another message",
    forge: (click, other) => withAction(click, { value: elementsOf(other)[0]?.value }),
    said: /the button belongs to another message/,
  },
  {
    name: "with only the ID of another approval",
    forge: (click, other) => withAction(click, { value: elementsOf(other)[0]?.value?.split(".")[0] }),
  },
  {
    name: "with a made-up button",
    forge: (click) => withAction(withUser(click, { id: "U0TOM" }), { value: `${ID}.0` }),
    said: /belongs to another message/,
  },
  {
    name: "on a message that the bridge did not post",
    forge: (click) => ({ ...click, container: { ...(click["container"] as object), message_ts: "1.2" } }),
  },
  {
    name: "by the requester",
    forge: (click) => withUser(click, { id: "U0ANN" }),
    said: /requesters cannot approve their own requests/,
  },
  {
    name: "by an unknown user",
    forge: (click) => withUser(click, { id: "U0EVE" }),
    said: /not in the bridge's identity map/,
  },
  {
    name: "by a program",
    forge: (click) => withUser(click, { id: "U0BOT" }),
    said: /programs cannot decide requests/,
  },
  {
    name: "by a deactivated account",
    forge: (click) => withUser(click, { id: "U0GONE" }),
    said: /account is deactivated/,
  },
  { name: "by a guest of Slack Connect", forge: (click) => withUser(click, { team_id: "T0OTHER" }) },
  {
    name: "by a user of another workspace",
    forge: (click) => withUser(click, { id: "U0FAR", team_id: undefined }),
    said: /another workspace/,
  },
  { name: "from another workspace", forge: (click) => ({ ...click, team: { id: "T0OTHER" } }) },
  {
    name: "from another channel",
    forge: (click) => ({ ...click, container: { ...(click["container"] as object), channel_id: "C0OTHER" } }),
  },
  { name: "in a dialog", forge: (click) => ({ ...click, type: "view_submission" }) },
  {
    name: "that learns for a time that the message does not offer",
    forge: (click) =>
      withAction(click, { action_id: "gateway_learn", selected_option: { value: `${ID}.x.999999999` } }),
  },
  { name: "of a megabyte", forge: (click) => withAction(click, { value: "x".repeat(1 << 20) }) },
  { name: "that is garbage", forge: () => ({ type: "block_actions", actions: "x" }) },
];

Deno.test("bridge to Slack: rejects every forged or unauthorized click and continues", async (t) => {
  const controlPlane = new FakePlane();
  await withSlack(async ({ slack, first, log }) => {
    controlPlane.add({ command: "reboot" });
    await poll(() => slack.posted.length === 2, { what: "the second message" });
    const other = slack.posted[1]!;
    for (const { name, forge, said } of FORGERIES) {
      await t.step(`a click ${name}`, async () => {
        const [saidBefore, loggedBefore] = [slack.said.length, log.length];
        const envelope = slack.send(forge(clickOn(first, "approve"), other));
        await settleUndecided(
          { slack, controlPlane },
          envelope,
          () => log.length > loggedBefore && (!said || slack.said.length > saidBefore),
        );
        assert.equal(slack.said.length, saidBefore + (said === undefined ? 0 : 1));
        if (said !== undefined) assert.match(slack.said.at(-1)!, said);
      });
    }
    slack.sendText("garbage");
    slack.send(null, "other", "slash_commands");
    await settle(slack, slack.send(clickOn(first, "approve")), () => controlPlane.decisions.length === 1);
  }, {
    controlPlane,
    prepare: ({ users }) => {
      users.set("U0BOT", { is_bot: true });
      users.set("U0GONE", { deleted: true });
      users.set("U0FAR", { team_id: "T0OTHER" });
    },
  });
});

Deno.test("bridge to Slack: rejects a click on a request that has changed or is already decided", async () => {
  await withSlack(async ({ slack, controlPlane, first }) => {
    controlPlane.records.set(ID, { ...PENDING, command: "systemctl restart nginx; rm -rf /" });
    await settleUndecided(
      { slack, controlPlane },
      slack.send(clickOn(first, "approve")),
      () => slack.said.length === 1,
    );
    assert.match(slack.said[0]!, /the request has changed since this message was posted/);
    controlPlane.records.set(ID, PENDING);
    controlPlane.decideElsewhere(ID, false);
    await poll(() => /^Denied[^]*by approver-1/.test(textOf(slack.posted[0]!)), {
      what: "the decision in the message",
    });
    const envelope = slack.send(clickOn(first, "approve"));
    const late = slack.send({ ...clickOn(first, "approve"), type: "x" });
    await settle(slack, late, () => slack.acknowledged.includes(envelope));
    assert.deepEqual(controlPlane.decisions, []);
    const other = controlPlane.add({ command: "reboot" });
    await poll(() => slack.posted.length === 2, { what: "another message" });
    slack.send(clickOn(slack.posted[1]!, "deny"));
    // Clicks are handled in turn, so the reply to the earlier click was sent.
    await poll(() => controlPlane.decisions.length > 0, { what: "its decision" });
    assert.deepEqual(controlPlane.decisions.map(({ id }) => id), [other]);
    assert.equal(slack.said.length, 1, "what became of a request its message says");
  });
});

Deno.test("bridge to Slack: a request without a known end user can be denied but not approved", async () => {
  const controlPlane = new FakePlane();
  const { end_user: _, ...unknown } = PENDING;
  controlPlane.records.set(ID, unknown);
  await withSlack(async ({ slack, first }) => {
    await settleUndecided(
      { slack, controlPlane },
      slack.send(clickOn(first, "approve")),
      () => slack.said.length === 1,
    );
    assert.match(slack.said[0]!, /the requester is unknown/);
    await settle(
      slack,
      slack.send(clickOn(first, "deny", "U0EVE")),
      () => controlPlane.decisions.length === 1,
    );
    assert.equal(controlPlane.decisions[0]?.approve, false);
  }, { controlPlane });
});

Deno.test("bridge to Slack: without an identity map, any channel user can approve, and the comment records this", async () => {
  await withSlack(async ({ slack, controlPlane, first }) => {
    await settle(
      slack,
      slack.send(clickOn(first, "approve", "U0EVE")),
      () => controlPlane.decisions.length === 1,
    );
    assert.equal(
      controlPlane.decisions[0]?.comment,
      "reported by the chat bridge: Slack user U0EVE, identity guard off",
    );
  }, { identities: undefined });
});

Deno.test("bridge to Slack: shows plain text, masks secrets and offers no approval of a truncated command", async () => {
  const controlPlane = new FakePlane();
  controlPlane.records.clear();
  controlPlane.add({
    host: "<!channel>",
    command: "echo *x* `y` <https://evil.example|ok> \u202egnp\u200b :tada:",
  });
  await withSlack(async ({ slack, first }) => {
    assert.match(textOf(first), /host {7}<!channel>\n/);
    assert.ok(
      textOf(first).includes(
        String.raw`"echo *x* ${"`y`"} <https://evil.example|ok> \u202egnp\u200b :tada:"`,
      ),
    );
    for (const { type, text } of first.blocks) {
      if (type === "section") {
        assert.deepEqual([text?.type, (text as { emoji?: boolean }).emoji], ["plain_text", false]);
      }
    }
    controlPlane.add({ command: "mysql --password=hunter2hunter2", created_at: "2026-02-02T03:04:05Z" });
    controlPlane.add({ command: `echo ${"x".repeat(60_000)}; rm -rf /`, created_at: "2026-03-02T03:04:05Z" });
    await poll(() => slack.posted.length === 3, { what: "three messages" });
    const [, masked, cut] = slack.posted;
    assert.doesNotMatch(JSON.stringify(masked), /hunter2/);
    assert.match(textOf(cut!), /\[TRUNCATED: 2000 of/);
    for (const message of [masked!, cut!]) {
      assert.deepEqual(elementsOf(message).map(({ action_id }) => action_id), ["gateway_deny"]);
      assert.match(textOf(message), /To approve it, open its page/);
      const forged = clickOn(message, "deny");
      const action = { ...(forged["actions"] as readonly object[])[0], action_id: "gateway_approve" };
      const said = slack.said.length;
      await settleUndecided(
        { slack, controlPlane },
        slack.send({ ...forged, actions: [action] }),
        () => slack.said.length > said,
      );
      assert.match(slack.said.at(-1)!, /does not show the complete request/);
    }
    assert.deepEqual(controlPlane.decisions, []);
  }, { controlPlane });
});
