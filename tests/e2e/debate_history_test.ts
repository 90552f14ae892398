import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { poll } from "../stage/poll.ts";
import { browserTest, violationsOf } from "./chromium.ts";
import { onDebatePage } from "./debate_screens.ts";

const idOf = (number: number) => number.toString(16).padStart(32, "0");

/** A stored run. Every third run has a cause. */
function recordOf(number: number) {
  const outcome = number % 3 === 0 ? "cause" : "no_confident_cause";
  const hypothesis = {
    id: "H-1",
    text: `Cause number ${number} of it all`,
    state: outcome === "cause" ? "confirmed" : "active",
    proposer: "diagnostic_agent",
    round: 1,
    supporting_evidence: [],
    evidence: [{
      text: '[tool:http_get#1] "503 since noon"',
      round: 1,
      status: "grounded",
      call_ids: ["c1"],
    }],
    reviews: [],
    rejected_reason: null,
    probability: 0.7,
    transitions: [],
  };
  const grounding = {
    hypothesis_id: "H-1",
    level: "partial",
    stated_confidence: 0.9,
    cap: 0.85,
    reason: "all evidence of H-1 comes from a single tool result",
    outcome,
  };
  return {
    run_id: idOf(number),
    topic: `Incident ${number}: checkout <b>hangs</b>`,
    timestamp: new Date(Date.UTC(2026, 0, 1, 0, number)).toISOString(),
    models: { diagnostic: `hub/model-${number % 2}`, skeptic: "hub/s", moderator: "hub/m" },
    language: "en",
    parent_run_id: null,
    finished_at: "2026-01-02T00:00:00.000Z",
    duration_seconds: 65,
    token_totals: { by_node: {}, total: { input_tokens: 1000, output_tokens: 500, total_tokens: 1500 } },
    cost_estimate: { by_node: {}, total_usd: 0.25, has_prices: true },
    status: "completed",
    conclusion: {
      outcome,
      confidence: 0.85,
      cause:
        `H-1: ${hypothesis.text}, which nobody looked at as long as checkout was only slow and not yet down`,
    },
    schema_version: 1,
    context: "",
    hypotheses: [hypothesis],
    events: [
      { type: "run_started", round: 1, topic: "x", max_rounds: 2, confidence_threshold: 0.8 },
      { type: "hypothesis_update", node: "diagnostic_agent", round: 1, hypotheses: [hypothesis] },
      {
        type: "moderator_decision",
        round: 1,
        decision: {
          status: "final_diagnosis",
          confidence: 0.85,
          risk_level: "low",
          leading_hypothesis: "H-1",
          grounding,
        },
      },
      { type: "run_finished", status: "completed" },
    ],
  };
}

browserTest(
  "a browser searches, filters and pages runs, compares two, renames, exports and imports one",
  () =>
    onDebatePage({
      records: Array.from({ length: 60 }, (_, index) => recordOf(index + 1)),
      viewport: { width: 390, height: 844 },
      colorScheme: "dark",
    }, async ({ server, page }) => {
      const check = async (what: string) => {
        assert.deepEqual(await violationsOf(page), [], what);
        assert.equal(await page.evaluate("document.documentElement.scrollWidth > innerWidth"), false, what);
      };
      await page.goto("/");
      await page.getByRole("heading", { level: 1, name: "What is wrong?" }).waitFor();
      await check("the start page");
      const background = () => page.evaluate("getComputedStyle(document.body).backgroundColor");
      const dark = await background();
      await page.getByLabel("Theme").selectOption("light");
      const light = await background();
      assert.notEqual(light, dark);
      await check("the start page in the other theme");
      await page.reload();
      await page.getByRole("heading", { level: 1, name: "What is wrong?" }).waitFor();
      assert.equal(await background(), light, "the theme is remembered");
      await page.getByLabel("Theme").selectOption("");
      assert.equal(await background(), dark);
      await page.goto("/#/runs");
      const rows = page.locator("tbody tr");
      const filter = page.getByRole("combobox", { name: "State" });
      const shows = (count: number) =>
        poll(async () => await rows.count() === count, { what: `${count} rows` });
      await shows(50);
      await check("the list");
      await page.setViewportSize({ width: 1280, height: 800 });
      assert.deepEqual(
        await page.evaluate(
          `[...document.querySelectorAll("tbody :is(.badge, button)")].flatMap((each) => {
            const range = document.createRange();
            range.selectNodeContents(each);
            return new Set([...range.getClientRects()].map(({ y }) => y)).size > 1 ? [each.innerText] : [];
          })`,
        ),
        [],
        "words that are broken",
      );
      await page.setViewportSize({ width: 390, height: 844 });
      await page.getByRole("button", { name: "Show more" }).click();
      await shows(60);
      await filter.selectOption("cause");
      await shows(20);
      await page.getByRole("searchbox").fill("incident 3:");
      await shows(2);
      assert.match(
        await rows.last().innerText(),
        /Incident 3: checkout <b>hangs<\/b>\s+Cause number 3 of it all[^]*Cause found\s+[^]*85%/,
      );
      assert.match(await rows.last().innerText(), /\$0\.2500\s*1m 5s/);
      await page.getByRole("searchbox").fill("nothing like it");
      await page.getByText("No run matches").waitFor();

      await filter.selectOption("");
      await page.getByRole("searchbox").fill("incident 60:");
      await shows(1);
      await page.getByRole("searchbox").fill("incident 6");
      await page.getByRole("checkbox", { name: "Compare: Incident 60" }).check();
      await page.getByRole("checkbox", { name: "Compare: Incident 6:" }).check();
      await page.getByRole("button", { name: "Compare (2 of 2)" }).click();
      const table = page.getByRole("table", { name: "Two runs compared" });
      await table.waitFor();
      for (
        const said of [
          /Cause , different Cause number 60 of it all\s+Cause number 6 of it all/,
          /Cost\s+\$0\.2500\s+\$0\.2500/,
        ]
      ) {
        assert.match((await table.innerText()).replace(/\s+/g, " "), said);
      }
      await check("the comparison");
      const box = await table.getByRole("link", { name: "Incident 6:" }).boundingBox();
      assert.ok(box !== null && box.x + box.width <= 390, "both runs are in sight");

      await table.getByRole("link", { name: "Incident 60" }).click();
      const rename = page.getByRole("button", { name: "Rename" });
      await rename.click();
      await check("the title of a run");
      await page.keyboard.press("Escape");
      assert.ok(await rename.evaluate((button) => button.matches(":focus")), "the focus returns");
      await rename.click();
      await page.getByLabel("Title").fill("The night of the carts");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { level: 1, name: "The night of the carts" }).waitFor();
      await check("a run");
      for (
        const [link, name] of [["HTML", /\.html$/], ["JSON", /^run-[0-9a-f]{8}\.json$/]] as const
      ) {
        await page.getByRole("button", { name: "Share" }).click();
        await check("the files of a run");
        const download = page.waitForEvent("download");
        await page.getByRole("link", { name: link }).click();
        assert.match((await download).suggestedFilename(), name);
      }
      const exported = await (await fetch(`${server.url}/api/runs/${idOf(60)}`)).text();
      await page.goto("/#/runs");
      await page.getByLabel("Import", { exact: true }).setInputFiles({
        name: "run.json",
        mimeType: "application/json",
        buffer: Buffer.from(exported),
      });
      await page.getByRole("heading", { level: 1, name: "The night of the carts" }).waitFor();
      assert.doesNotMatch(page.url(), new RegExp(idOf(60)));
      await page.goto("/#/runs");
      await filter.selectOption("imported");
      await page.getByRole("searchbox").fill("");
      await shows(1);
      assert.match(await rows.first().innerText(), /The night of the carts\s[^]*\sImported\s/);
    }),
);
