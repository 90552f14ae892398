import assert from "node:assert/strict";
import { MattermostChat } from "../../ctl/bridge/mattermost.ts";
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
import { BOT, FakeMattermost, type FakePost, HOME } from "./fake_mattermost.ts";

async function withMattermost(
  test: (scene: BridgeScene & { readonly chat: FakeMattermost; readonly first: FakePost }) => Promise<void>,
  prepare: (chat: FakeMattermost, controlPlane: FakePlane) => void = () => {},
): Promise<void> {
  await using chat = new FakeMattermost();
  const controlPlane = new FakePlane();
  prepare(chat, controlPlane);
  const { url, token } = chat;
  await withBridge({
    controlPlane,
    chat: (signal, logger) =>
      new MattermostChat({ url, token, channel: HOME, clock: impatientClock, logger, fetch, signal }),
  }, async (scene) => {
    await poll(() => chat.posted.length > 0, { what: "the first message" });
    await chat.connected();
    await test({ ...scene, chat, first: chat.posted[0]! });
    assert.doesNotMatch(scene.log.join("\n"), /mattermost-secret/);
  });
}

Deno.test("bridge to Mattermost: a reply to the message decides the request and is shown", async () => {
  await withMattermost(async ({ chat, controlPlane, first }) => {
    assert.match(first.message, /^\*\*Approval required\*\*\n\n```text\nid {9}[^]*"systemctl restart nginx"/);
    chat.answer(first, " Learn 2h ");
    await poll(() => /^\*\*Approved\*\*/.test(chat.posted[0]!.message), { what: "the decision" });
    assert.deepEqual(controlPlane.decisions, [{
      id: ID,
      approve: true,
      learn: true,
      ttl_seconds: 7200,
      shown_ids: [ID],
      comment:
        "reported by the chat bridge: Mattermost user bobbobbobbobbobbobbobbobbo, bob@example.com in the identity map",
    }]);
  });
});

const REFUSED: readonly { name: string; changes: Partial<FakePost>; words?: string; said?: RegExp }[] = [
  {
    name: "by the requester",
    changes: { user_id: "annannannannannannannannan" },
    said: /requesters cannot approve their own requests/,
  },
  {
    name: "by an unknown user",
    changes: { user_id: "eveeveeveeveeveeveeveeveev" },
    said: /not in the bridge's identity map/,
  },
  {
    name: "by another bot",
    changes: { user_id: "carcarcarcarcarcarcarcarca" },
    said: /programs cannot decide requests/,
  },
  {
    name: "by a user of another server",
    changes: { user_id: "farfarfarfarfarfarfarfarfa" },
    said: /another workspace/,
  },
  { name: "by a webhook", changes: { props: { from_webhook: "true" } } },
  { name: "by the bridge", changes: { user_id: BOT, props: {} } },
  { name: "in another channel", changes: { channel_id: "otherotherotherotherothero" } },
  { name: "of the server itself", changes: { type: "system_join_channel" } },
  { name: "below no message", changes: { root_id: "" } },
  { name: "below a message that is not the bridge's", changes: { root_id: "foreignforeignforeignforei" } },
  { name: "with more words", changes: {}, words: "approve, but not on Friday" },
  { name: "with a wrong time", changes: {}, words: "learn forever" },
  { name: "with a time beyond all bounds", changes: {}, words: "learn 99999999999h" },
  { name: "with a time where there is none", changes: {}, words: "approve 2h" },
];

Deno.test("bridge to Mattermost: rejects every forged or unauthorized reply and continues", async () => {
  await withMattermost(async ({ chat, controlPlane, first }) => {
    chat.send("garbage");
    for (const { name, changes, words = "approve", said } of REFUSED) {
      const before = chat.said.length;
      chat.answer(first, words, changes);
      if (said === undefined) continue;
      await pollUndecided(controlPlane, () => chat.said.length > before, { what: `the refusal ${name}` });
      assert.match(chat.said.at(-1)!, said);
    }
    assert.deepEqual(controlPlane.decisions, []);
    // Posts are handled in order: when this one is decided, all earlier ones have been handled.
    chat.answer(first, "deny");
    await poll(() => controlPlane.decisions.length > 0, { what: "the decision" });
    assert.deepEqual(controlPlane.decisions.map(({ approve }) => approve), [false]);
    const refusals = chat.said.filter((text) => /your decision was rejected/.test(text));
    assert.equal(refusals.length, REFUSED.filter(({ said }) => said !== undefined).length);
  }, ({ users }) => {
    users.set("carcarcarcarcarcarcarcarca", { is_bot: true });
    users.set("farfarfarfarfarfarfarfarfa", { remote_id: "r" });
  });
});

Deno.test("bridge to Mattermost: posts a request once despite error responses, and reconnects", async () => {
  await withMattermost(async ({ chat, controlPlane, log }) => {
    const connections = () => log.filter((line) => line.startsWith("connected")).length;
    await poll(() => connections() === 1, { what: "the connection" });
    chat.cut();
    await poll(() => connections() === 2, { what: "another connection" });
    chat.answer(chat.posted[0]!, "approve");
    await poll(() => controlPlane.decisions.length === 1, { what: "the decision" });
    assert.equal(chat.posted.length, 1);
  }, ({ faults }) => {
    faults.push(
      () => new Response("", { status: 500 }),
      () => new Response("garbage"),
      () => new Response("", { status: 403 }),
      () => new Response("", { status: 429, headers: { "x-ratelimit-reset": "0.05" } }),
    );
  });
});

Deno.test("bridge to Mattermost: shows text of requests in a code block it cannot close", async () => {
  await withMattermost(({ first }) => {
    const fence = /^(`{3,})text$/m.exec(first.message)?.[1] ?? "";
    assert.equal(fence.length, 5);
    assert.equal(first.message.split(`\n${fence}`).length, 3, "the fence is there twice");
    return Promise.resolve();
  }, (_chat, controlPlane) => {
    controlPlane.records.clear();
    controlPlane.add({ host: "@channel", command: "echo ````\n```` @all" });
  });
});

Deno.test("bridge to Mattermost: --check reports an invalid token and a channel without the bot", async () => {
  await using chat = new FakeMattermost();
  const { signal } = new AbortController();
  const connect = (token: string, channel = HOME) =>
    new MattermostChat({
      ...{ url: chat.url, token, channel },
      ...{ clock: impatientClock, logger: memoryLogger([]), fetch, signal },
    }).connect();
  assert.equal(await connect(chat.token), BOT);
  await assert.rejects(connect("other"), /HTTP 401: MATTERMOST_TOKEN is invalid/);
  await assert.rejects(connect(chat.token, "otherotherotherotherothero"), /the bot is not in the channel/);
});
