import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { share } from "../stage/share.ts";
import { browserTest, TestBrowser } from "./chromium.ts";
import { DebateProcess, sceneEnv, withHome } from "./debate_scene.ts";

const RUN = "ab".repeat(16);
const CALL = {
  call_id: "cd".repeat(6),
  tool_name: "run_local_command",
  agent_node: "diagnostic_agent",
  agent_role: "Primary Diagnosis",
  args: { command: "uptime" },
};
/** A run in progress of a newer or broken server. */
const SENT = [
  { type: "run_started", round: 1, topic: "it hangs", max_rounds: 2, confidence_threshold: 0.8 },
  { type: "of_tomorrow", what: {} },
  { type: "hypothesis_update", node: "diagnostic_agent", round: 1, hypotheses: [{ id: "H-1" }] },
  { type: "samples_compared", votes: 7 },
  { type: "moderator_decision", decision: null },
  { type: "hypothesis_update", hypotheses: 7 },
  { type: "tool_approval_request", ...CALL, timestamp: "2026-01-02T03:04:05.000Z" },
];

const withPage = share<{ readonly server: DebateProcess; readonly browser: TestBrowser }>((use) =>
  withHome(async (home) => {
    await using server = await DebateProcess.start(sceneEnv(home));
    await using browser = await TestBrowser.start();
    await use({ server, browser });
  })
);

browserTest(
  "a failure in one part of the page, or an unknown event, does not affect other parts",
  () =>
    withPage(async ({ server, browser }) => {
      const page = await (await browser.plainSession(server.url)).newPage();
      const decided: unknown[] = [];
      const run = { run_id: RUN, topic: "it hangs", status: "running", models: {}, events: [] };
      await page.route(`**/api/runs/${RUN}`, (route) => route.fulfill({ json: run }));
      const options = { require_approval: true, pause_between_rounds: false };
      await page.route(`**/api/runs/${RUN}/options`, (route) => route.fulfill({ json: options }));
      await page.route(`**/api/runs/${RUN}/approval`, (route) => {
        decided.push(route.request().postDataJSON());
        return route.fulfill({ json: { detail: "not now" }, status: 409 });
      });
      await page.route(`**/api/runs/${RUN}/events`, (route) =>
        route.fulfill({
          contentType: "text/event-stream",
          body: `retry: 600000\n\n${
            SENT.map((event, index) => `id: ${index + 1}\nevent: message\ndata: ${JSON.stringify(event)}\n\n`)
              .join("")
          }`,
        }));
      // A click on a button that appears this moment was meant for something else.
      await page.addInitScript(`new MutationObserver((_, observer) => {
        const button = document.querySelector("button.approve");
        if (button === null) return;
        observer.disconnect();
        button.click();
      }).observe(document, { childList: true, subtree: true });`);
      await page.goto(`/#/runs/${RUN}`);
      await page.locator("#run-asked").getByText("Decide on run_local_command").waitFor();
      const card = page.locator("#waiting .card");

      // The approved arguments are the shown arguments.
      const [approve, forRun] = ["Approve once", "Allow for this run"].map((name) =>
        card.getByRole("button", { name, exact: true })
      );
      const edited = card.getByRole("button", { name: "Approve with these arguments" });
      const mayDo = async () =>
        await Promise.all([approve, forRun, edited].map((button) => button?.isEnabled()));
      await card.getByText("Arguments", { exact: true }).click();
      await poll(async () => JSON.stringify(await mayDo()) === "[true,true,false]", {
        what: "the buttons to be ready",
      });
      const text = card.getByRole("textbox");
      await text.press("Enter");
      await text.fill("[1]");
      await card.getByText("The arguments are not a JSON object").waitFor();
      assert.deepEqual(await mayDo(), [false, false, false]);
      await text.fill('{"command":"df"}');
      assert.deepEqual(await mayDo(), [false, false, true]);
      await edited.click();
      await page.getByText("Not done: not now").waitFor();
      assert.deepEqual(await mayDo(), [false, false, true], "also after an answer that failed");
      await card.getByRole("button", { name: "Undo the changes" }).click();
      assert.deepEqual(await mayDo(), [true, true, false]);
      await approve?.click();
      await poll(() => decided.length === 2, { what: "the second answer" });
      const { call_id } = CALL;
      assert.deepEqual(decided, [
        { call_id, approved: true, args: { command: "df" } },
        { call_id, approved: true },
      ]);
    }),
);

browserTest(
  "a late template overwrites neither a later choice nor edits, and another choice asks first",
  () =>
    withPage(async ({ server, browser }) => {
      const page = await (await browser.plainSession(server.url)).newPage();
      const gate = Promise.withResolvers<void>();
      // The page loads the default first.
      await page.route(/\/api\/prompts\/(?:default|errors)\/en$/, async (route) => {
        await gate.promise;
        await route.continue();
      });
      await page.goto("/#/templates");
      const text = page.locator("#template-text");
      const late = ["default", "errors"].map((name) => page.waitForResponse(`**/${name}/en`));
      const requested = page.waitForRequest("**/errors/en");
      await page.getByLabel("Start from").selectOption("errors/en");
      await requested;
      await page.getByLabel("Start from").selectOption("data/en");
      await poll(async () => await text.count() === 1 && (await text.inputValue()).includes("name: data"), {
        what: "the one chosen last",
      });
      await text.fill("mine");
      gate.resolve();
      for (const each of late) await (await each).finished();
      await page.evaluate("new Promise((done) => setTimeout(done))");
      const asked = page.waitForEvent("dialog");
      const chosen = page.getByLabel("Start from").selectOption("default/en");
      await (await asked).dismiss();
      await chosen;
      assert.equal(await page.getByLabel("Start from").inputValue(), "data/en");
      assert.equal(await text.inputValue(), "mine");
      assert.equal(await page.getByLabel("File name").inputValue(), "data.en.yaml");
    }),
);

browserTest(
  "the form offers the models of the providers, and sends any other ID, too",
  () =>
    withPage(async ({ server, browser }) => {
      const page = await (await browser.plainSession(server.url)).newPage();
      const ids = ["hub/one", "hub/two"];
      const models = ids.map((id) => ({ id, name: id, provider: "hub", price: null }));
      await page.route("**/api/models", (route) => route.fulfill({ json: { models, problems: [] } }));
      const sent: string[] = [];
      await page.route("**/api/runs", async (route) => {
        if (route.request().method() !== "POST") return await route.continue();
        sent.push(route.request().postDataBuffer()?.toString() ?? "");
        await route.fulfill({ status: 409, json: { detail: "not now" } });
      });
      await page.goto("/");
      await page.locator("summary", { hasText: /^Options/ }).click();
      const offered = () =>
        page.evaluate("[...document.querySelectorAll('#models option')].map((each) => each.value)");
      await poll(async () => String(await offered()) === String(ids), { what: "the models" });
      await page.getByRole("combobox", { name: "Diagnostic agent", exact: true }).fill("hub/unlisted");
      await page.getByRole("textbox", { name: "Incident" }).fill("it hangs");
      await page.getByRole("button", { name: "Start the debate" }).click();
      await page.getByText("Not done: not now").waitFor();
      assert.match(sent[0] ?? "", /name="diagnostic_model"\s+hub\/unlisted\s/);
      assert.match(sent[0] ?? "", /name="skeptic_model"\r\n\r\n\r\n/);
    }),
);

browserTest(
  "keyboard: a call is approved for the whole run and the approval is revoked; a login is requested",
  () =>
    withPage(async ({ server, browser }) => {
      const page = await (await browser.plainSession(server.url)).newPage();
      const runId = await server.run({ topic: "memory grows", require_approval: "true" });
      await page.goto(`/#/runs/${runId}`);
      const forRun = page.getByRole("button", { name: "Allow for this run", disabled: false }).first();
      await forRun.waitFor();
      await forRun.focus();
      await page.keyboard.press("Enter");
      const again = page.locator("#allowed").getByRole("button", { name: /^Revoke: / });
      await again.focus();
      await page.keyboard.press("Enter");
      await page.locator("#conversation").getByText("needs approval again").waitFor();
      await page.locator("#allowed").waitFor({ state: "hidden" });

      // Shortcuts work while a checkbox has the focus. Open evidence stays open when the answer changes.
      const focused = () => page.evaluate("document.activeElement?.id");
      await page.locator("#opt-notify").focus();
      await page.keyboard.press("?");
      await page.getByRole("dialog").waitFor();
      await page.keyboard.press("Escape");
      await page.keyboard.press("h");
      assert.equal(await focused(), "hypotheses");
      const link = page.locator("#answer button.mark-link").first();
      await link.focus();
      await page.locator("#waiting .card").waitFor();
      const { events } = await server.json(`/api/runs/${runId}`);
      const { call_id } = events.findLast(({ type }: { type: string }) => type === "tool_approval_request");
      await server.post(`/api/runs/${runId}/approval`, { call_id, approved: false });
      await poll(async () => await page.locator(".board").getByText("Skeptic, round 1").count() > 0, {
        what: "the review",
      });
      assert.equal(await page.evaluate("document.activeElement?.textContent"), "http_get #2");

      const failed = {
        run_id: RUN,
        topic: "it hangs",
        status: "error",
        models: { diagnostic: "assist/x" },
        events: [],
      };
      await page.route(`**/api/runs/${RUN}`, (route) => route.fulfill({ json: failed }));
      await page.goto(`/#/runs/${RUN}`);
      await page.locator("#run-asked").getByText("Log in to assist").focus();
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: "Log in to assist" }).waitFor();
      await poll(
        async () => await page.evaluate("document.activeElement?.textContent") === "Log in to assist",
        {
          what: "the button",
        },
      );
    }),
);
