import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { browserTest, TestBrowser } from "./chromium.ts";
import { DebateProcess, sceneEnv, withHome } from "./debate_scene.ts";

const RUN_ID = "ab".repeat(16);
const CALL = {
  agent_node: "diagnostic_agent",
  agent_role: "Primary Diagnosis",
  tool_name: "http_get",
  args: { url: "http://a.example/\u202e" },
};
const RESULT = {
  type: "tool_call",
  ...CALL,
  result: "200 OK",
  error: false,
  approval: "auto",
  cached: false,
};

/** One event as a server sends it; the browser asks again for what follows. */
const frame = (id: number, event: object) =>
  `retry: 100\n\nid: ${id}\nevent: message\ndata: ${JSON.stringify(event)}\n\n`;

browserTest(
  "a browser shows a tool while it runs, then its result in its place, and which never came",
  () =>
    withHome(async (home) => {
      await using server = await DebateProcess.start(sceneEnv(home));
      await using browser = await TestBrowser.start();
      const page = await (await browser.plainSession(server.url)).newPage();
      const problems: string[] = [];
      page.on("pageerror", (error) => problems.push(error.message));
      const frames = [
        frame(1, { type: "tool_call_started", call_id: "1", ...CALL }),
        frame(2, { ...RESULT, call_id: "1", duration_ms: 5 }),
        frame(3, { type: "tool_call_started", call_id: "2", ...CALL }),
        frame(4, { type: "something_new", call_id: "2" }) +
        frame(5, { type: "run_finished", status: "cancelled" }),
      ];
      const next = frames.map(() => Promise.withResolvers<void>());
      let asked = 0;
      await page.route(`**/api/runs/${RUN_ID}/events`, async (route) => {
        const turn = asked++;
        await next[turn]?.promise;
        await route.fulfill({ contentType: "text/event-stream", body: frames[turn] ?? "" });
      });
      await page.route(
        `**/api/runs/${RUN_ID}`,
        (route) => route.fulfill({ json: { run_id: RUN_ID, topic: "slow", status: "running", events: [] } }),
      );
      await page.goto(`/#/runs/${RUN_ID}`);
      const cards = page.locator("#thread li.card");
      const shows = (index: number, text: RegExp) =>
        poll(
          async () => text.test(await cards.nth(index).locator("> details > summary").textContent() ?? ""),
          {
            what: `card ${index} to show ${text}`,
          },
        );

      next[0]?.resolve();
      await cards.first().waitFor();
      await shows(0, /^http_get, for Primary Diagnosis \(running, 0s\)$/);
      await shows(0, /\(running, [1-9]\d*s\)$/);
      assert.match(await cards.first().textContent() ?? "", /a\.example\/U\+202E/);

      next[1]?.resolve();
      await shows(0, /\(auto, 5 ms\)$/);
      next[2]?.resolve();
      await cards.nth(1).waitFor({ state: "attached" });
      await shows(1, /\(running, \d+s\)$/);
      next[3]?.resolve();
      await shows(1, /\(ended without a recorded result\)$/);
      assert.equal(await cards.count(), 2);
      assert.deepEqual(problems, []);
    }),
);
