import assert from "node:assert/strict";
import { boundedFetch } from "./chat.ts";
import { createRedactor } from "@gateway/shared/redact";
import type { ApprovalRecord, ApprovalSubject } from "@gateway/shared/wire";
import { type Card, contentDigest, LONGEST_CARD, makeCard } from "./card.ts";
import { fenced, LONGEST_ROW, messageOf } from "./mattermost.ts";
import { AppError } from "@gateway/shared/errors";
import { createControlPlaneClient, explainControlPlaneFailure } from "./control_plane_client.ts";
import { blocksOf } from "./slack_messages.ts";

const CHUNK = new TextEncoder().encode("x".repeat(1 << 20));

/** A chat that answers with this many MiB, and the result of the request. */
function answering(mebibytes: number) {
  const seen: { init?: RequestInit | undefined; taken: number; isCanceled: boolean } = {
    taken: 0,
    isCanceled: false,
  };
  const fetch: typeof globalThis.fetch = (_input, init) => {
    seen.init = init;
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull(controller) {
        if (seen.taken++ < mebibytes) controller.enqueue(CHUNK);
        else controller.close();
      },
      cancel() {
        seen.isCanceled = true;
      },
    }, { highWaterMark: 0 });
    return Promise.resolve(new Response(body));
  };
  return { fetch, seen };
}

Deno.test("boundedFetch() accepts 4 MiB and cancels a longer response", async () => {
  const { signal } = new AbortController();
  const enough = answering(4);
  assert.equal((await (await boundedFetch(enough.fetch, signal)("https://chat/")).text()).length, 4 << 20);
  const { fetch, seen } = answering(50);
  await assert.rejects(boundedFetch(fetch, signal)("https://chat/"), /larger than 4194304 bytes/);
  assert.deepEqual([seen.taken, seen.isCanceled], [5, true]);
});

Deno.test("boundedFetch() never follows a redirect, because it would send the token to another host", async () => {
  const { fetch, seen } = answering(0);
  await boundedFetch(fetch, new AbortController().signal)("https://chat/", { redirect: "follow" });
  assert.equal(seen.init?.redirect, "error");
});

Deno.test("boundedFetch() is aborted by the caller's signal and by the bridge's signal", async () => {
  const [bridge, caller] = [new AbortController(), new AbortController()];
  const { fetch, seen } = answering(0);
  await boundedFetch(fetch, bridge.signal)("https://chat/", { signal: caller.signal });
  assert.equal(seen.init?.signal?.aborted, false);
  caller.abort();
  assert.equal(seen.init?.signal?.aborted, true);
  await boundedFetch(fetch, bridge.signal)("https://chat/");
  assert.equal(seen.init?.signal?.aborted, false);
  bridge.abort();
  assert.equal(seen.init?.signal?.aborted, true);
});

const PENDING: ApprovalRecord = {
  id: "0123456789abcdef0123456789abcdef",
  caller: "broker-1",
  host: "web01",
  command: "uptime",
  status: "pending",
  created_at: "2026-01-02T03:04:05Z",
  decided_at: "0001-01-01T00:00:00Z",
};

function cardOf(changes: Partial<ApprovalRecord>): Card {
  const context = {
    ...{ nonce: "n", joined: [] },
    redact: createRedactor(undefined),
    pageOf: (id: string) => `https://gw/${id}`,
  };
  return makeCard(PENDING.id, { ...PENDING, ...changes }, context);
}

Deno.test("makeCard() offers approval if the card shows the complete request", () => {
  assert.deepEqual(cardOf({}).verbs, ["approve", "deny", "learn"]);
});

Deno.test("makeCard() offers no approval of a request that needs signatures, and links to its page", () => {
  const subject = {} as ApprovalSubject;
  const signed_approval = { required: 2, installation: "lab-12345", subject, approved_by: ["ann"] };
  const { verbs, note, lines } = cardOf({ signed_approval });
  assert.deepEqual(verbs, ["deny"]);
  assert.match(note, /must be signed/);
  assert.ok(lines.some((line) => line.includes("1 of 2 people have signed: ann")));
});

Deno.test("contentDigest() stays the same when somebody signs, so that a chat can still deny", () => {
  const digest = (approved_by: readonly string[]) => {
    const signed = { required: 2, installation: "lab-12345", subject: {} as ApprovalSubject, approved_by };
    return contentDigest({ ...PENDING, signed_approval: signed });
  };
  assert.equal(digest(["ann"]), digest([]));
});

Deno.test("makeCard() truncates content over the chat's limit, reports it and offers no approval", () => {
  const changes = Array.from({ length: 25 }, (_, index) => ({
    path: `data.k${index}`,
    before: "a".repeat(300),
    after: "b".repeat(300),
  }));
  const { lines, verbs, note } = cardOf({
    target_type: "k8s",
    command: "x".repeat(1_900),
    k8s_diff: { kind: "changed", changes },
  });
  assert.ok(lines.join("\n").length <= LONGEST_CARD + 100, `${lines.join("\n").length}`);
  assert.match(lines.at(-1)!, /^\[TRUNCATED: \d+ of \d+ lines\]$/);
  assert.deepEqual([verbs, note === ""], [["deny"], false]);
});

const CARD = {
  approval: "a",
  nonce: "n",
  title: "Approval required",
  note: "",
  page: "https://gw/a",
  verbs: ["approve", "deny"],
} as const;

Deno.test("messageOf() wraps long lines, because code blocks do not and would hide text beyond their right edge", () => {
  const command = `command    "true ${"x".repeat(30)}${" ".repeat(500)}${"😀".repeat(60)}\u0301; rm -rf /"`;
  const message = messageOf({ ...CARD, lines: ["host       web01", command, "created    now"] });
  const [, block = ""] = /```text\n([^]*?)\n```/.exec(message) ?? [];
  const rows = block.split("\n");
  for (const row of rows) assert.ok([...row].length <= LONGEST_ROW, row);
  const [host, first, ...rest] = rows;
  assert.deepEqual([host, first?.startsWith('command    "true'), rest.at(-1)], [
    "host       web01",
    true,
    "created    now",
  ]);
  // A continued row cannot look like a new row.
  for (const row of rest.slice(0, -1)) assert.match(row, /^ {9}↳ /);
  assert.equal(first + rest.slice(0, -1).map((row) => row.slice(11)).join(""), command);
});

Deno.test("fenced() uses a fence longer than any run of backticks in the wrapped text", () => {
  const text = `command    "${"`".repeat(400)}"`;
  const block = messageOf({ ...CARD, lines: [text] });
  const [fence = ""] = /`+(?=text\n)/.exec(block) ?? [];
  assert.ok(!block.slice(block.indexOf("text\n")).replace(/\n`+\n/, "\n").includes(fence));
  assert.equal(fenced("a``b"), "```text\na``b\n```");
});

const SETTINGS = { cpUrl: "https://gw.example:7443", ca: "/pki/ca.crt", cert: "/pki/bridge.crt" };

function explained(error: unknown): string {
  const found = explainControlPlaneFailure(error, SETTINGS);
  return found instanceof Error ? found.message : "";
}

Deno.test("explainControlPlaneFailure() shows the fix if nothing listens or if another CA signed", () => {
  const failure = (code: string) =>
    new AppError("upstream_failure", "Failed contacting the control plane", {
      cause: Object.assign(new Error("connect"), { code }),
    });
  assert.match(
    explained(failure("ECONNREFUSED")),
    /at https:\/\/gw\.example:7443: nothing listens at this address/,
  );
  assert.match(
    explained(failure("UNABLE_TO_VERIFY_LEAF_SIGNATURE")),
    /not signed by the CA in \/pki\/ca\.crt/,
  );
  assert.equal(explained(failure("EPIPE")), "Failed contacting the control plane");
});

Deno.test("explainControlPlaneFailure() explains where to register a certificate that is not an approver's", async () => {
  const body = {
    type: "about:blank",
    title: "Forbidden",
    status: 403,
    detail: "not authorised",
    code: "forbidden",
  };
  const controlPlane = createControlPlaneClient({
    request: () => Promise.resolve({ status: 403, headers: {}, text: "", body }),
  });
  const refused = await controlPlane.list().catch((error) => error);
  assert.match(
    explained(refused),
    /403: not authorised at .*: add the CN of "\/pki\/bridge\.crt" to approval\.callers/,
  );
});

Deno.test("blocksOf() splits long text so that Slack hides none of it behind 'see more'", () => {
  const command = `command    "true ${" ".repeat(1_900)}; rm -rf /"`;
  const blocks = blocksOf({
    approval: "a",
    nonce: "n",
    title: "Approval required",
    lines: ["host       web01", command, "x".repeat(2_000)],
    note: "note",
    page: "https://gw/a",
    verbs: ["deny"],
  });
  const sections = blocks.filter(({ type }) => type === "section");
  assert.equal(sections.length, 3);
  for (const section of sections) assert.equal(section["expand"], true);
});
