import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { browserTest, violationsOf } from "./chromium.ts";
import { onDebatePage } from "./debate_screens.ts";

const RUN_ID = "ab".repeat(16);
const SKEPTIC = { agent_node: "skeptic_agent", agent_role: "Skeptical Reviewer" };
const STARTED = { type: "run_started", round: 1, topic: "x", max_rounds: 4, confidence_threshold: 0.8 };

const hypothesis = (id: string, more: object) => ({
  id,
  text: `The cause ${id}`,
  state: "active",
  proposer: "diagnostic_agent",
  round: 1,
  supporting_evidence: [],
  evidence: [],
  reviews: [],
  rejected_reason: null,
  probability: 0.6,
  transitions: [],
  ...more,
});
const rejection = (agent: string) => ({
  round: 1,
  agent,
  verdict: "rejected",
  probability: null,
  reason: "no",
  evidence: [],
  new_evidence: false,
});
const HYPOTHESES = {
  type: "hypothesis_update",
  node: "skeptic_agent",
  round: 1,
  hypotheses: [
    hypothesis("H-1", { reviews: [rejection("skeptic_agent")] }),
    hypothesis("H-2", { state: "rejected", reviews: [rejection("diagnostic_rebuttal_agent")] }),
  ],
};
const DECIDED = {
  type: "moderator_decision",
  round: 1,
  decision: {
    status: "final_diagnosis",
    confidence: 0.6,
    leading_hypothesis: "H-1",
    missing_evidence: ["the connections before noon"],
    next_step: "Unproved: Run `kubectl rollout restart deploy/shop` in `prod`",
    recommended_fix: null,
    risk_level: "high",
    grounding: {
      hypothesis_id: "H-1",
      level: "none",
      stated_confidence: 0.9,
      cap: 0.6,
      reason: "no evidence for H-1 counts",
      outcome: "no_confident_cause",
    },
  },
};

const recordOf = (status: string, ...events: readonly object[]) => ({
  run_id: RUN_ID,
  topic: "slow checkout",
  timestamp: "2026-01-02T03:04:05.000Z",
  status,
  context: "",
  events: [...events, { type: "run_finished", status }],
});

browserTest("a failed run shows the provider's words and continues from where it failed", () => {
  const message = 'The provider answered 429: "No quota <img src=x onerror=alert(1)>"';
  const record = recordOf("error", STARTED, HYPOTHESES, { type: "error", message });
  return onDebatePage({ records: [record] }, async ({ server, page }) => {
    // No model of the run has a login, so the page does not request its state.
    await page.route("**/api/auth/status", (route) => route.abort());
    await page.goto(`/#/runs/${RUN_ID}`);
    const answer = page.locator("#answer");
    await answer.getByText(message).waitFor();
    assert.equal(await page.evaluate("document.activeElement.tagName"), "H1");
    assert.equal(await page.locator("main img").count(), 0);
    assert.deepEqual(await page.locator("button.primary:visible").allTextContents(), ["Continue from here"]);
    assert.deepEqual(await violationsOf(page), []);
    await answer.getByRole("button", { name: "Continue from here" }).click();
    await page.waitForURL((url) => url.hash.startsWith("#/runs/") && !url.hash.endsWith(RUN_ID));
    const { parent_run_id } = await server.json(`/api${new URL(page.url()).hash.slice(1)}`);
    assert.equal(parent_run_id, RUN_ID);
  });
});

browserTest(
  "without a proved cause, the answer shows what is missing and hedges its steps",
  () =>
    onDebatePage({
      records: [recordOf("completed", STARTED, HYPOTHESES, DECIDED)],
      permissions: ["clipboard-read", "clipboard-write"],
    }, async ({ page }) => {
      await page.goto(`/#/runs/${RUN_ID}`);
      const answer = page.locator("#answer");
      await answer.getByText("the connections before noon").waitFor();
      const text = (await answer.innerText()).replace(/\s+/g, " ");
      assert.match(
        text,
        /^No confident cause Best candidate The cause H-1 60% confidence high risk, unproved/,
      );
      assert.match(text, /Next step Unproved: Run kubectl rollout restart deploy\/shop in prod/);
      assert.match(text, /Missing evidence .* the connections before noon Evidence for it No evidence/);
      // The skeptic needs a quote to reject. A proposer withdraws without one.
      assert.match(text, /Skeptic, round 1, rejected, an opinion without a quoted result: no/);
      await page.locator("#hypotheses > summary").click();
      const withdrawn = page.locator(".board li", { hasText: "The cause H-2" });
      await withdrawn.getByText("Details").click();
      await withdrawn.getByText("Rebuttal, round 1, rejected, withdrawn by its proposer").waitFor();

      const copied = () => page.evaluate("navigator.clipboard.readText()");
      const copy = answer.getByRole("button", { name: "Copy", exact: true });
      assert.equal(await copy.count(), 2, "the step and its command, not each name");
      await copy.last().click();
      await poll(async () => await copied() === "kubectl rollout restart deploy/shop", {
        what: "the command",
      });
      await copy.first().click();
      await poll(async () => await copied() === DECIDED.decision.next_step, { what: "the hedged step" });
    }),
);

browserTest(
  "a run in progress shows who speaks, the last text, and the wait for a rate limit",
  () =>
    onDebatePage({ isQuiet: false, viewport: { width: 390, height: 844 } }, async ({ page }) => {
      const timestamp = new Date(Date.now() - 5000).toISOString();
      const sent = [
        STARTED,
        { type: "agent_turn_started", ...SKEPTIC, timestamp },
        { type: "model_waiting", node: "skeptic_agent", model: "m", seconds: 3600, timestamp },
        { type: "agent_delta", ...SKEPTIC, delta: `${"It rose.\n".repeat(200)}It fell <b>now</b>.` },
      ];
      let count = 3;
      const run = { run_id: RUN_ID, topic: "slow", status: "running", models: {}, events: [] };
      await page.route(`**/api/runs/${RUN_ID}`, (route) => route.fulfill({ json: run }));
      // The first three events come again after a reconnect.
      await page.route("**/events", (route) => {
        const body = sent.slice(0, count).map((event, index) =>
          `id: ${index + 1}\ndata: ${JSON.stringify(event)}\n\n`
        );
        count = 4;
        return route.fulfill({ contentType: "text/event-stream", body: `retry: 2000\n\n${body.join("")}` });
      });
      await page.goto(`/#/runs/${RUN_ID}`);
      const bar = page.locator("#run-bar");
      await bar.getByText(/^Round 1 of 4 · Skeptic is reviewing · \d+s$/).waitFor();
      await bar.getByText(/^Rate limited, retry 1 in 59:\d\d$/).waitFor();
      await bar.getByText("Connection lost. Reconnecting …").waitFor();
      const tail = page.locator(".tail");
      const { height } = await tail.boundingBox() ?? assert.fail("no live text");
      await tail.getByText("It fell <b>now</b>.").waitFor();
      await bar.getByText("Rate limited").waitFor({ state: "detached" });
      const box = await tail.boundingBox();
      assert.equal(box?.height, height, "the box does not move what is below it");
      assert.ok((await tail.innerText()).length < 900);
      assert.equal(await page.evaluate("document.documentElement.scrollWidth > innerWidth"), false);
      assert.deepEqual(await violationsOf(page), []);
    }),
);
