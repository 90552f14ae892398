import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { browserTest, TestBrowser } from "./chromium.ts";
import { DebateProcess, sceneEnv, withHome } from "./debate_scene.ts";

browserTest(
  "the list of runs in a browser follows what happens elsewhere, and keeps the focus",
  () =>
    withHome(async (home) => {
      await using server = await DebateProcess.start(sceneEnv(home));
      await using browser = await TestBrowser.start();
      const page = await (await browser.plainSession(server.url)).newPage();
      const asked: string[] = [];
      page.on("dialog", (dialog) => {
        asked.push(dialog.message());
        return dialog.accept();
      });
      await page.goto("/#/runs");
      await page.getByText("There are no runs yet").waitFor();
      const shows = (...rows: readonly (readonly [string, string])[]) =>
        poll(async () => {
          const names = await page.locator("#runs-list a").allTextContents();
          const states = await page.locator("#runs-list .status").allTextContents();
          return JSON.stringify(names.map((name, index) => [name, states[index]])) === JSON.stringify(rows);
        }, { what: `the list to be ${JSON.stringify(rows)}` });

      const first = await server.run({ topic: "memory grows" });
      await server.event(first, "tool_approval_request");
      await shows(["memory grows", "waits for you"]);
      await page.getByRole("button", { name: "Stop: memory grows" }).focus();
      const second = await server.run({ topic: "disk is full" });
      await server.event(second, "tool_approval_request");
      await shows(["disk is full", "waits for you"], ["memory grows", "waits for you"]);
      const focused = () => page.evaluate("document.activeElement.getAttribute('aria-label')");
      assert.equal(await focused(), "Stop: memory grows");

      await (await fetch(`${server.url}/api/runs/${first}`, { method: "DELETE" })).body?.cancel();
      await shows(["disk is full", "waits for you"], ["memory grows", "cancelled"]);
      assert.equal(await focused(), "Delete: memory grows");
      await page.keyboard.press("Enter");
      await shows(["disk is full", "waits for you"]);
      assert.match(asked.join(), /^Delete this run and its record\?\s+memory grows$/);

      await server.stop("SIGKILL");
      await page.getByText("The list may be out of date").waitFor();
    }),
);
