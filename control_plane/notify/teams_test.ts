import assert from "node:assert/strict";
import fc from "fast-check";
import { stringifyJson } from "@gateway/shared/json";
import { createApprovalLink, teamsMessageCard, teamsWorkflowMessage } from "./teams.ts";
import { factsOf } from "./facts.ts";
import { anyApproval } from "./testing/hostile_text.ts";
import { APPROVAL_ID, sampleApproval } from "./testing/sample_approval.ts";

const link = createApprovalLink("https://cp.example/ui/approvals/{id}");

Deno.test("teamsMessageCard() returns a MessageCard with Markdown disabled", () => {
  assert.deepEqual(teamsMessageCard(sampleApproval({ sudo_user: "postgres" }), link), {
    "@type": "MessageCard",
    "@context": "http://schema.org/extensions",
    themeColor: "FFA500",
    summary: "Approval required: systemctl restart nginx on web01",
    sections: [{
      activityTitle: "Access Broker — Approval Required",
      activitySubtitle: "A command needs the approval of a second person. Nothing runs before that.",
      facts: [
        { name: "Approval ID", value: APPROVAL_ID },
        { name: "Status", value: "pending" },
        { name: "Created", value: "2026-01-02T03:04:05Z" },
        { name: "Host", value: "web01" },
        { name: "Command", value: "systemctl restart nginx" },
        { name: "Caller (broker)", value: "broker-1" },
        { name: "End user", value: "ada@example.org" },
        { name: "Elevation", value: "sudo → postgres" },
        { name: "Policy rule", value: "require_approval:^systemctl restart" },
      ],
      markdown: false,
    }],
    potentialAction: [{
      "@type": "OpenUri",
      name: "View request",
      targets: [{ os: "default", uri: `https://cp.example/ui/approvals/${APPROVAL_ID}` }],
    }],
  });
});

Deno.test("teamsMessageCard() returns no action without a link", () => {
  const card = teamsMessageCard(sampleApproval(), createApprovalLink(""));
  assert.ok(!("potentialAction" in card));
});

Deno.test("teamsMessageCard() keeps its structure for any values and contains no tag (A15)", () => {
  const frameOf = (card: object): unknown =>
    JSON.parse(stringifyJson(card), (key, value) => key === "facts" || key === "summary" ? "…" : value);
  const frame = frameOf(teamsMessageCard(sampleApproval(), link));
  fc.assert(fc.property(anyApproval, (record) => {
    const card = teamsMessageCard(record, link);
    assert.deepEqual(frameOf(card), frame);
    const text = stringifyJson(card);
    assert.doesNotMatch(text, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}<>]/u);
    assert.doesNotMatch(text.replace(/&(?:lt|gt|amp);/g, "_"), /&[#A-Za-z]/);
    const { sections: [section], summary } = JSON.parse(text);
    assert.match(summary, /^Approval required:.* on/);
    assert.equal(section.markdown, false);
    assert.deepEqual(
      section.facts.map(({ name }: { name: string }) => name),
      factsOf(record).map(({ name }) => name),
    );
  }));
});

Deno.test.each(["x", "<", "&a", "火", "\x1b"])(
  "teamsMessageCard() stays within the limit of Teams with 60 KiB of %o in each field",
  (text) => {
    const long = text.repeat(60 * 1024);
    const record = sampleApproval({
      caller: long,
      end_user: long,
      host: long,
      command: long,
      sudo_user: long,
    });
    const card = teamsMessageCard({ ...record, rule: long, anomalies: [long] }, link);
    assert.ok(new TextEncoder().encode(stringifyJson(card)).length < 28 * 1024);
  },
);

const noLink = createApprovalLink("");

Deno.test("teamsWorkflowMessage() returns an Adaptive Card with title, sentence, facts and link", () => {
  assert.deepEqual(teamsWorkflowMessage(sampleApproval({ rule: "behavior", end_user: "" }), link), {
    type: "message",
    attachments: [{
      contentType: "application/vnd.microsoft.card.adaptive",
      contentUrl: null,
      content: {
        $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
        type: "AdaptiveCard",
        version: "1.4",
        body: [
          {
            type: "TextBlock",
            size: "Medium",
            weight: "Bolder",
            color: "Warning",
            wrap: true,
            text: "Access Broker — Approval Required",
          },
          {
            type: "TextBlock",
            wrap: true,
            text: "A command needs the approval of a second person. Nothing runs before that.",
          },
          {
            type: "FactSet",
            facts: [
              { title: "Approval ID", name: "Approval ID", value: APPROVAL_ID },
              { title: "Status", name: "Status", value: "pending" },
              { title: "Created", name: "Created", value: "2026-01-02T03:04:05Z" },
              { title: "Host", name: "Host", value: "web01" },
              { title: "Command", name: "Command", value: "systemctl restart nginx" },
              { title: "Caller (broker)", name: "Caller (broker)", value: "broker-1" },
              { title: "Elevation", name: "Elevation", value: "sudo → root" },
              { title: "Policy rule", name: "Policy rule", value: "behavior" },
            ],
          },
        ],
        actions: [{
          type: "Action.OpenUrl",
          title: "View request",
          url: `https://cp.example/ui/approvals/${APPROVAL_ID}`,
        }],
      },
    }],
  });
});

Deno.test("teamsWorkflowMessage() returns no actions without a link", () => {
  assert.ok(!stringifyJson(teamsWorkflowMessage(sampleApproval(), noLink)).includes("actions"));
});

/** The message without the values of its facts. */
function frameOf(message: object): unknown {
  return JSON.parse(stringifyJson(message), (key, value) => key === "facts" ? "…" : value);
}

Deno.test("teamsWorkflowMessage() keeps its structure for any values (A15)", () => {
  const frame = frameOf(teamsWorkflowMessage(sampleApproval(), link));
  fc.assert(fc.property(anyApproval, (record) => {
    const message = teamsWorkflowMessage(record, link);
    assert.deepEqual(frameOf(message), frame);
    const text = stringifyJson(message);
    assert.doesNotMatch(text, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
    const [card] = JSON.parse(text).attachments;
    const facts: readonly Record<string, string>[] = card.content.body[2].facts;
    assert.deepEqual(
      facts.map(({ title, name }) => [title, name]),
      factsOf(record).map(({ name }) => [name, name]),
    );
    for (const { value } of facts) {
      assert.doesNotMatch(value?.replace(/\\[!-/:-@[-`{-~]/g, "") ?? "", /[\\`*_[\]()#~>|<!&]/);
    }
  }));
});

Deno.test.each([
  { name: "letters", text: "x" },
  { name: "markdown", text: "*" },
  { name: "backslashes", text: "\\" },
  { name: "quotes", text: '"' },
  { name: "ideographs", text: "火" },
  { name: "controls", text: "\x1b" },
])("teamsWorkflowMessage() stays within the limit of Teams with 60 KiB of $name", ({ text }) => {
  const long = text.repeat(60 * 1024);
  const record = sampleApproval({ caller: long, end_user: long, host: long, command: long, sudo_user: long });
  const message = teamsWorkflowMessage({ ...record, rule: long, anomalies: [long] }, link);
  assert.ok(new TextEncoder().encode(stringifyJson(message)).length < 28 * 1024);
});
