import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { browserTest, TestBrowser } from "./chromium.ts";
import { DebateProcess, sceneEnv, withHome } from "./debate_scene.ts";

const CALL = { agent_node: "diagnostic_agent", agent_role: "Primary Diagnosis", call_id: "ab".repeat(6) };

browserTest(
  "a browser shows as boxes what hides in a call that waits for approval, and in its result",
  () =>
    withHome(async (home) => {
      const runId = "ab".repeat(16);
      const call = {
        ...CALL,
        tool_name: "run_local_command",
        args: { argv: ["ls", "\u202etxt.\u200bx", "\u3164"] },
      };
      const record = {
        run_id: runId,
        topic: "hidden",
        timestamp: "2026-01-02T03:04:05.000Z",
        status: "completed",
        context: "",
        events: [
          { type: "tool_approval_request", ...call },
          { type: "tool_approval_resolved", call_id: call.call_id, approved: true, resolution: "approved" },
          {
            type: "tool_call",
            ...call,
            result: "one\n\u2066two",
            error: false,
            approval: "approved",
            cached: false,
            duration_ms: 3,
          },
          // Nobody decided on this one.
          { type: "tool_approval_request", ...call, call_id: "cd".repeat(6) },
          { type: "run_finished", status: "completed" },
        ],
      };
      await Deno.mkdir(`${home}/runs`);
      await Deno.writeTextFile(`${home}/runs/${runId}.json`, JSON.stringify(record));
      await using server = await DebateProcess.start(sceneEnv(home));
      await using browser = await TestBrowser.start();
      const page = await (await browser.plainSession(server.url)).newPage();
      const problems: string[] = [];
      page.on("pageerror", (error) => problems.push(error.message));
      page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
      await page.goto(`/#/runs/${runId}`);
      const cards = page.locator("#thread > .card");
      await poll(async () => await cards.count() === 2, { what: "the call and its result" });
      for (const card of await cards.all()) {
        const text = await card.textContent() ?? "";
        assert.doesNotMatch(text, /[\u202e\u200b\u3164\u2066]/);
        assert.match(text, /"U\+202Etxt\.U\+200Bx",\s+"U\+3164"/);
      }
      assert.deepEqual(await cards.first().locator(".odd").allTextContents(), [
        "U+202E",
        "U+200B",
        "U+3164",
        "U+2066",
      ]);
      assert.deepEqual(problems, []);
    }),
);

browserTest(
  "a browser shows a call as ended when the server was killed while it waited for approval",
  () =>
    withHome(async (home) => {
      const env = sceneEnv(home);
      await using browser = await TestBrowser.start();
      const killed = await DebateProcess.start(env);
      const page = await (await browser.plainSession(killed.url)).newPage();
      const card = page.locator(".card", { hasText: "asks to use" });
      let runId: string;
      try {
        runId = await killed.run({ topic: "memory grows" });
        await page.goto(`/#/runs/${runId}`);
        await card.getByRole("button", { name: "Approve" }).waitFor();
      } finally {
        await killed.stop("SIGKILL");
      }
      await using _server = await DebateProcess.start(env, Number(new URL(killed.url).port));
      const status = page.locator("#run-status");
      const isEnded = async () => await status.textContent() === "interrupted";
      for (const reload of [() => Promise.resolve(), () => page.reload()]) {
        await reload();
        await poll(isEnded, { what: "the page to say that the run is over" });
        await card.getByText("ended: the run is over, and no answer was recorded").waitFor();
        assert.equal(await card.getByRole("button").count(), 0);
        assert.equal(await page.getByRole("button", { name: "Stop" }).isVisible(), false);
      }
    }),
);
