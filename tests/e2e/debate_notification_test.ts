import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { browserTest, TestBrowser } from "./chromium.ts";
import { DebateProcess, LOOKS_ELSEWHERE, sceneEnv, withHome } from "./debate_scene.ts";

interface Event {
  readonly type: string;
  readonly call_id?: string;
}

browserTest(
  "of a run that is opened later nothing is notified that was decided on before",
  () =>
    withHome(async (home) => {
      await using server = await DebateProcess.start(sceneEnv(home));
      await using browser = await TestBrowser.start();
      const runId = await server.run({ topic: "memory grows", require_approval: "true" });
      const asked = await server.event(runId, "tool_approval_request");
      await server.json(`/api/runs/${runId}/approval`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ call_id: asked?.call_id, approved: false }),
      });
      let events: readonly Event[] = [];
      await poll(async () => {
        events = (await server.json(`/api/runs/${runId}`)).events;
        return events.filter(({ type }) => type === "tool_approval_request").length === 2;
      }, { what: "the second request" });
      const frames = events.map((event, index) => `id: ${index + 1}\ndata: ${JSON.stringify(event)}\n\n`);
      const first = events.findIndex(({ type }) => type === "tool_approval_request") + 1;

      const session = await browser.plainSession(server.url);
      const page = await session.newPage();
      await page.addInitScript(LOOKS_ELSEWHERE);
      const pieces = [frames.slice(0, first), frames.slice(first)];
      let toldBetween: unknown;
      // As where the machine or the network is slow: the page has time to draw what is out of date.
      await page.route("**/events", async (route) => {
        const piece = pieces.shift();
        if (piece === undefined) return;
        if (pieces.length === 0) {
          await page.locator("#run-asked").getByText(/left$/).waitFor();
          toldBetween = await page.evaluate("told");
        }
        await route.fulfill({ contentType: "text/event-stream", body: `retry: 1\n\n${piece.join("")}` });
      });
      await page.goto(`/#/runs/${runId}`);
      await poll(async () => toldBetween !== undefined && await page.evaluate("told.length > 0") === true, {
        what: "a notification",
      });
      assert.deepEqual(toldBetween, [], "of a call that was rejected long ago");
      assert.deepEqual(await page.evaluate("told"), [["memory grows", "Decide on run_local_command"]]);
    }),
);
