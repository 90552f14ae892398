import assert from "node:assert/strict";
import { browserTest, TestBrowser } from "./chromium.ts";
import { DebateProcess, sceneEnv, withHome } from "./debate_scene.ts";

const UNSET = { DIAGNOSTIC_MODEL: "assist/a", SKEPTIC_MODEL: "hub/a", MODERATOR_MODEL: "assist/a" };

browserTest(
  "a browser says what an unconfigured server lacks, and plays the built-in incident on it",
  () =>
    withHome(async (home) => {
      await using server = await DebateProcess.start(sceneEnv(home, UNSET));
      await using browser = await TestBrowser.start();
      const page = await (await browser.plainSession(server.url)).newPage();
      const problems: string[] = [];
      page.on("pageerror", (error) => problems.push(error.message));
      await page.goto("/");
      const setup = page.locator("#setup");
      await setup.waitFor();
      assert.deepEqual(await setup.locator("#setup-names code").allTextContents(), [
        "HUB_BASE_URL",
        "HUB_TOKEN",
        "ASSIST_BASE_URL",
        "ASSIST_TOKEN",
      ]);
      await setup.getByRole("button", { name: "Try the built-in incident" }).click();
      await page.getByRole("heading", { level: 1, name: "checkout-api is killed" }).waitFor();
      const runId = new URL(page.url()).hash.slice("#/runs/".length);
      await server.json(`/api/runs/${runId}/options`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ require_approval: false }),
      });
      await server.event(runId, "run_finished");
      const { status, models } = await server.json(`/api/runs/${runId}`);
      assert.equal(status, "completed");
      assert.deepEqual([...new Set(Object.values(models))], ["replay/memory_leak"]);
      assert.deepEqual(problems, []);
    }),
);
