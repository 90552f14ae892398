import assert from "node:assert/strict";
import { inFolder, runDebateHere } from "./debate_program.ts";
import { poll } from "../stage/poll.ts";
import { browserTest } from "./chromium.ts";
import { LOOKS_ELSEWHERE } from "./debate_scene.ts";
import { onDebatePage } from "./debate_screens.ts";

const MODEL = "replay/memory_leak";

const debate = (args: readonly string[], folder: string) =>
  runDebateHere(args, folder, {
    DATA_DIR: `${folder}/runs`,
    DIAGNOSTIC_MODEL: MODEL,
    SKEPTIC_MODEL: MODEL,
    MODERATOR_MODEL: MODEL,
    TOOLS_ENABLED: "false",
  });

Deno.test("stored runs are listed, shown, compared, reported, exported and resumed", () =>
  inFolder(async (folder) => {
    assert.match((await debate(["runs", "list"], folder)).err, /No runs in /);
    const first = await debate(["run", "Memory grows", "since noon"], folder);
    assert.equal(first.code, 0, first.err);
    const id = /stored as ([0-9a-f]{8})/.exec(first.err)?.[1] ?? assert.fail(first.err);
    const listed = await debate(["runs", "list", "--search", "MEMORY"], folder);
    assert.match(listed.out, new RegExp(`^Run .*\\n${id}  \\d{4}-.*completed .*Memory grows since noon\\n$`));
    assert.match(
      (await debate(["runs", "show", id], folder)).out,
      /Outcome {5}no confident cause\n[^]*Status: /,
    );
    assert.match(
      (await debate(["runs", "report", id], folder)).out,
      /^# Diagnosis report: Memory grows since noon\n/,
    );
    const written = await debate(["runs", "report", id, "--html", "--output", "r.html"], folder);
    assert.deepEqual([written.code, written.out], [0, ""]);
    assert.match(await Deno.readTextFile(`${folder}/r.html`), /^<!doctype html>/);

    const resumed = await debate([
      "runs",
      "resume",
      id,
      "--evidence",
      "DB_PASSWORD=hunter22 was found",
      "--json",
    ], folder);
    assert.equal(resumed.code, 0, resumed.err);
    const record = JSON.parse(resumed.out);
    assert.equal(record.parent_run_id.slice(0, 8), id);
    assert.equal(record.events[0].type, "run_resumed");
    assert.match(record.context, /New evidence/);
    assert.doesNotMatch(record.context, /hunter22/);
    const shown = JSON.parse((await debate(["runs", "show", record.run_id, "--json"], folder)).out);
    assert.deepEqual(shown, record);
  }));

Deno.test("commands for stored runs reject wrong IDs with exit code 2 and escape hostile records", () =>
  inFolder(async (folder) => {
    await Deno.mkdir(`${folder}/runs`);
    for (const [digit, topic] of [["a", "\u001b[2Jevil\u202e"], ["b", "plain"]] as const) {
      const record = {
        topic,
        status: "completed",
        events: [{ type: "final_result", content: "\u001b]0;title\u0007" }],
      };
      await Deno.writeTextFile(`${folder}/runs/${"c".repeat(31)}${digit}.json`, JSON.stringify(record));
    }
    await Deno.writeTextFile(`${folder}/runs/${"d".repeat(32)}.json`, "{");
    const id = `${"c".repeat(31)}a`;
    for (const args of [["list"], ["show", id], ["report", id]]) {
      const { code, out } = await debate(["runs", ...args], folder);
      assert.equal(code, 0);
      const found = ["\u001b", "\u0007", "\u202e"].filter((each) => out.includes(each));
      assert.deepEqual(found, [], args.join(" "));
    }
    for (
      const [args, reason] of [
        [["show", "cccc"], /Cannot select run "cccc": several IDs begin with it/],
        [["show", "abcd"], /Cannot find run "abcd"\nfix: debate runs list/],
        [["show", "abc"], /Invalid run ID /],
        [["show", "../../etc/passwd"], /Invalid run ID /],
        [["show", "dddd"], /Cannot read run "dddd": its record is damaged/],
        [["resume", id], /new evidence is missing/],
      ] as const
    ) {
      const { code, out, err } = await debate(["runs", ...args], folder);
      assert.deepEqual([code, out], [2, ""], args.join(" "));
      assert.match(err, reason);
    }
  }));

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

/** One event of the server. The browser reconnects for the next event. */
const frame = (id: number, event: object) =>
  `retry: 100\n\nid: ${id}\nevent: message\ndata: ${JSON.stringify(event)}\n\n`;

browserTest(
  "a browser shows a running tool, then its result or its end",
  () =>
    onDebatePage({ isQuiet: false }, async ({ page }) => {
      const frames = [
        frame(1, { type: "tool_call_started", call_id: "1", ...CALL }),
        frame(2, { ...RESULT, call_id: "1", duration_ms: 5 }),
        frame(3, { type: "tool_call_started", call_id: "2", ...CALL }) +
        frame(4, { type: "moderator_decision", round: 1 }),
        frame(5, { type: "something_new", call_id: "2" }) +
        frame(6, { type: "run_finished", status: "cancelled" }),
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
      const calls = page.locator("#conversation li.call");
      const shows = (index: number, text: RegExp) =>
        poll(
          async () => text.test((await calls.nth(index).locator("summary").first().innerText()).trim()),
          { what: `call ${index} to show ${text}` },
        );

      next[0]?.resolve();
      await calls.first().waitFor();
      await shows(0, /^GET http:\/\/a\.example\/\\u\{202e\}\s+running, 0s$/);
      await shows(0, /running, [1-9]\d*s$/);

      next[1]?.resolve();
      await shows(0, /\}\s+5 ms$/);
      next[2]?.resolve();
      await calls.nth(1).waitFor();
      await shows(1, /running, \d+s$/);
      next[3]?.resolve();
      await shows(1, /no recorded result$/);
      assert.equal(await calls.count(), 2);
      for (const type of ["moderator_decision", "something_new"]) {
        await page.getByText(`This event cannot be shown: ${type}`).waitFor();
      }
    }),
);

browserTest(
  "a rejected event stream does not end a run that waits for the operator",
  () =>
    onDebatePage({ isQuiet: false }, async ({ page }) => {
      const request = (id: string) => ({ type: "tool_approval_request", ...CALL, call_id: id });
      const answers = [
        { contentType: "text/event-stream", body: frame(1, request("1")) + frame(2, request("2")) },
        { status: 429, json: { detail: "The limit of event streams is reached" } },
        {
          contentType: "text/event-stream",
          body: frame(1, request("1")) +
            frame(3, { type: "tool_approval_resolved", call_id: "1", resolution: "approved" }),
        },
      ];
      await page.route(
        `**/api/runs/${RUN_ID}/events`,
        (route) => route.fulfill(answers.shift() ?? { status: 502 }),
      );
      await page.route(
        `**/api/runs/${RUN_ID}`,
        (route) => route.fulfill({ json: { run_id: RUN_ID, topic: "slow", status: "running", events: [] } }),
      );
      await page.goto(`/#/runs/${RUN_ID}`);
      const approve = page.getByRole("button", { name: "Approve once" });
      await approve.nth(1).waitFor();
      await approve.first().focus();
      await page.getByText("Connection lost. Reconnecting …").waitFor();
      await poll(async () => await approve.count() === 1, { what: "the decision in the next stream" });
      assert.equal(await page.locator("#run-status").textContent(), "waits for you");
      assert.equal(await page.evaluate("document.activeElement.id"), "asked-2", "the next request");
    }),
);

browserTest(
  "the page follows the conversation only for a reader at its end",
  () =>
    onDebatePage({ isQuiet: false }, async ({ page }) => {
      const turn = (id: number) =>
        frame(id, {
          type: "agent_completed",
          node: id % 2 === 0 ? "skeptic_agent" : "diagnostic_agent",
          role: id % 2 === 0 ? "Skeptical Reviewer" : "Primary Diagnosis",
          content: `turn ${id}`,
        });
      const frames = [Array.from({ length: 30 }, (_, index) => turn(index + 1)).join(""), turn(31), turn(32)];
      const next = frames.map(() => Promise.withResolvers<void>());
      let asked = 0;
      await page.route(`**/api/runs/${RUN_ID}/events`, async (route) => {
        const now = asked++;
        await next[now]?.promise;
        await route.fulfill({ contentType: "text/event-stream", body: frames[now] ?? "retry: 60000\n\n" });
      });
      await page.route(
        `**/api/runs/${RUN_ID}`,
        (route) => route.fulfill({ json: { run_id: RUN_ID, topic: "slow", status: "running", events: [] } }),
      );
      await page.goto(`/#/runs/${RUN_ID}`);
      const said = (id: number) => page.locator("#conversation").getByText(`turn ${id}`, { exact: true });
      const scrolled = () => page.evaluate<number>("scrollY");
      next[0]?.resolve();
      await said(30).waitFor();
      assert.equal(await scrolled(), 0, "a reader of the beginning stays there");

      await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)");
      const before = await scrolled();
      next[1]?.resolve();
      await said(31).waitFor();
      await poll(async () => await scrolled() > before, { what: "the page to follow" });
      const box = await said(31).boundingBox();
      assert.ok(box !== null && box.y + box.height <= (page.viewportSize()?.height ?? 0));

      await page.evaluate("scrollBy(0, -500)");
      const above = await scrolled();
      next[2]?.resolve();
      await said(32).waitFor();
      assert.equal(await scrolled(), above);
    }),
);

const UNSET = { DIAGNOSTIC_MODEL: "assist/a", SKEPTIC_MODEL: "hub/a", MODERATOR_MODEL: "assist/a" };

browserTest(
  "a browser names missing settings and plays the built-in incident",
  () =>
    onDebatePage({ env: UNSET }, async ({ server, page }) => {
      await page.goto("/");
      const setup = page.getByRole("region", { name: "Connect a model provider" });
      await setup.waitFor();
      assert.deepEqual(await setup.locator("li code").allTextContents(), [
        "HUB_BASE_URL",
        "HUB_TOKEN",
        "ASSIST_BASE_URL",
        "ASSIST_TOKEN",
      ]);
      await setup.getByRole("button", { name: "Try the built-in incident" }).click();
      await page.getByRole("heading", { level: 1, name: "checkout-api is killed" }).waitFor();
      const runId = new URL(page.url()).hash.slice("#/runs/".length);
      await server.post(`/api/runs/${runId}/options`, { require_approval: false });
      await server.event(runId, "run_finished");
      const { status, models } = await server.json(`/api/runs/${runId}`);
      assert.equal(status, "completed");
      assert.deepEqual([...new Set(Object.values(models))], ["replay/memory_leak"]);
    }),
);

interface Event {
  readonly type: string;
  readonly call_id?: string;
}

browserTest(
  "a run that is opened later sends no notification for decided requests",
  () =>
    onDebatePage({ isQuiet: false }, async ({ server, page }) => {
      const runId = await server.run({ topic: "memory grows", require_approval: "true" });
      const asked = await server.event(runId, "tool_approval_request");
      await server.post(`/api/runs/${runId}/approval`, { call_id: asked?.call_id, approved: false });
      let events: readonly Event[] = [];
      await poll(async () => {
        events = (await server.json(`/api/runs/${runId}`)).events;
        return events.filter(({ type }) => type === "tool_approval_request").length === 2;
      }, { what: "the second request" });
      const frames = events.map((event, index) => `id: ${index + 1}\ndata: ${JSON.stringify(event)}\n\n`);
      const first = events.findIndex(({ type }) => type === "tool_approval_request") + 1;

      await page.addInitScript(LOOKS_ELSEWHERE);
      const pieces = [frames.slice(0, first), frames.slice(first)];
      let toldBetween: unknown;
      // A slow network gives the page time to draw outdated events.
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
