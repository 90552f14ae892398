import assert from "node:assert/strict";
import { browserTest, TestBrowser, violationsOf } from "./chromium.ts";
import { DebateProcess, sceneEnv, withHome } from "./debate_scene.ts";

const RUN_ID = "ab".repeat(16);
const ROLE = { agent_node: "diagnostic_agent", agent_role: "Primary Diagnosis" };

const hypothesis = (id: string, more: object = {}) => ({
  id,
  text: `The cause ${id}`,
  state: "active",
  proposer: "diagnostic_agent",
  round: 1,
  supporting_evidence: [],
  evidence: [{
    text: '[tool:http_get#1] "200 OK since noon"',
    round: 1,
    status: "grounded",
    call_ids: ["c1"],
  }],
  reviews: [],
  rejected_reason: null,
  probability: 0.7,
  transitions: [],
  ...more,
});

const call = (number: number, error = false) => ({
  type: "tool_call",
  ...ROLE,
  call_id: `c${number}`,
  number,
  tool_name: "http_get",
  args: { url: `http://a.example/${number}` },
  result: error ? "refused" : "200 OK since noon",
  error,
  approval: "auto",
  cached: false,
  duration_ms: 5,
});

const RECORD = {
  run_id: RUN_ID,
  topic: "slow checkout",
  timestamp: "2026-01-02T03:04:05.000Z",
  status: "completed",
  context: "",
  events: [
    { type: "run_started", round: 1, topic: "slow checkout", max_rounds: 2, confidence_threshold: 0.8 },
    call(1),
    call(2, true),
    call(3),
    {
      type: "agent_completed",
      node: "diagnostic_agent",
      role: "Primary Diagnosis",
      content: "`x`\n\n```\nls -l\n```",
    },
    call(4),
    { type: "hypothesis_update", node: "diagnostic_agent", round: 1, hypotheses: [hypothesis("H-1")] },
    {
      type: "hypothesis_update",
      node: "skeptic_agent",
      round: 2,
      hypotheses: [
        hypothesis("H-1", {
          state: "rejected",
          rejected_reason: "too <b>late</b>",
          reviews: [{
            round: 2,
            agent: "skeptic_agent",
            verdict: "rejected",
            probability: null,
            reason: "too <b>late</b>",
            evidence: [],
            new_evidence: false,
          }],
        }),
        hypothesis("H-2", { round: 2, evidence: [] }),
      ],
    },
    { type: "run_finished", status: "completed" },
  ],
};

browserTest(
  "a browser groups tool calls in a row, copies code, and shows the map by keyboard, by round and over time",
  () =>
    withHome(async (home) => {
      await Deno.mkdir(`${home}/runs`);
      await Deno.writeTextFile(`${home}/runs/${RUN_ID}.json`, JSON.stringify(RECORD));
      await using server = await DebateProcess.start(sceneEnv(home));
      await using browser = await TestBrowser.start();
      const page = await (await browser.plainSession(server.url, {
        permissions: ["clipboard-read", "clipboard-write"],
        viewport: { width: 390, height: 844 },
      })).newPage();
      const problems: string[] = [];
      page.on("pageerror", (error) => problems.push(error.message));
      page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
      await page.goto(`/#/runs/${RUN_ID}`);
      const group = page.locator("#thread > .tools");
      await group.locator("> details > summary", {
        hasText: /^3 tool calls for Primary Diagnosis: http_get \(1 failed\)$/,
      }).waitFor();
      assert.equal(await group.count(), 1);
      assert.equal(await group.locator("li.card").count(), 3);
      assert.equal(await page.locator("#thread > .card > details").count(), 1, "a single call is no group");

      await page.locator("#thread .card", { hasText: "ls -l" }).getByRole("button", { name: "Copy" }).click();
      await page.getByRole("button", { name: "Copied" }).waitFor();
      assert.equal(await page.evaluate("navigator.clipboard.readText()"), "ls -l");

      const map = page.locator("#map");
      await map.locator("summary").click();
      const nodes = map.locator("[data-key]");
      // It is drawn when it has been opened, which the page hears of later.
      await nodes.first().waitFor();
      assert.deepEqual(
        await page.evaluate(
          `[...document.querySelectorAll("#map [data-key]")].map((each) => each.getAttribute("aria-label"))`,
        ),
        [
          "The incident",
          "Hypothesis H-1, rejected",
          "Evidence for H-1 that counts: http_get #1",
          "Objection to H-1, rejected",
          "Hypothesis H-2, active",
        ],
      );
      await nodes.first().focus();
      await page.keyboard.press("ArrowRight");
      await map.getByText("too <b>late</b>").waitFor();
      await page.keyboard.press("ArrowRight");
      await map.getByRole("button", { name: "Show the tool call" }).click();
      assert.ok(
        await group.locator("> details").getAttribute("open") !== null,
        "the group of the call is open",
      );
      await map.getByLabel("Show").selectOption("1");
      assert.equal(await map.locator(".node.dim").count(), 2, "what is of round 2 only");
      await map.getByLabel("Show").selectOption("");
      await map.getByLabel("Moment").focus();
      await page.keyboard.press("Home");
      await map.getByText("Round 1, after Diagnosis").waitFor();
      assert.equal(await nodes.count(), 3);
      await map.getByRole("button", { name: "Replay" }).click();
      await map.getByText("Round 2, after Skeptic").waitFor();
      await map.getByRole("button", { name: "Replay" }).waitFor();
      assert.deepEqual(await violationsOf(page), []);
      assert.equal(await page.evaluate("document.documentElement.scrollWidth > innerWidth"), false);
      assert.deepEqual(problems, []);
    }),
);
