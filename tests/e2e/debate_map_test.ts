import assert from "node:assert/strict";
import { browserTest, TestBrowser, violationsOf } from "./chromium.ts";
import { DebateProcess, LOOKS_ELSEWHERE, sceneEnv, withHome } from "./debate_scene.ts";
import { onDebatePage } from "./debate_screens.ts";
import { poll } from "../stage/poll.ts";

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
  "a browser groups tool calls, copies code, and shows the map by keyboard and time",
  () =>
    onDebatePage({
      records: [RECORD],
      permissions: ["clipboard-read", "clipboard-write"],
      viewport: { width: 390, height: 844 },
    }, async ({ page }) => {
      await page.goto(`/#/runs/${RUN_ID}`);
      const conversation = page.locator("#conversation");
      await conversation.locator("> summary").click();
      const turn = conversation.locator("li.turn").first();
      await turn.getByText("3 tool calls").waitFor();
      await turn.getByText("1 failed").waitFor();
      assert.equal(await turn.locator("li.call").count(), 3);
      assert.match(
        await turn.locator("li.call").nth(1).innerText(),
        /#2\s+GET http:\/\/a\.example\/2\s+failed/,
      );
      const single = conversation.locator("li.turn").nth(1);
      assert.equal(await single.locator("li.call").count(), 1);
      assert.equal(await single.getByText("tool calls").count(), 0, "a single call is no group");

      await turn.locator(".copyable", { hasText: "ls -l" }).getByRole("button", { name: "Copy" }).click();
      await page.getByText("Copied").waitFor();
      assert.equal(await page.evaluate("navigator.clipboard.readText()"), "ls -l");

      const map = page.locator("#map");
      await map.locator("summary").click();
      const nodes = map.locator("[data-key]");
      const said = [
        /^Incident$/,
        /^Hypothesis:\s+H-1\s+rejected\s+70%\s+The cause H-1$/,
        /^Evidence for H-1 that counts:\s+http_get #1\s+GET http:\/\/a\.example\/1$/,
        /^Objection to H-1:\s+Skeptic: rejected\s+too <b>late<\/b>$/,
        /^Hypothesis:\s+H-2\s+active\s+70%\s+The cause H-2$/,
      ];
      assert.equal(await nodes.count(), said.length);
      for (const [index, text] of said.entries()) assert.match(await nodes.nth(index).innerText(), text);
      const details = map.locator(".map-details");
      await nodes.first().focus();
      await page.keyboard.press("Tab");
      await page.keyboard.press("Enter");
      await details.getByText("too <b>late</b>").waitFor();
      await page.keyboard.press("Tab");
      await page.keyboard.press("Enter");
      await turn.getByText("3 tool calls").click();
      await details.getByRole("button", { name: "http_get #1" }).click();
      const quote = turn.locator("mark");
      await quote.waitFor();
      assert.equal(await quote.textContent(), "200 OK since noon");
      await poll(() => page.evaluate("document.activeElement.matches('.call summary')"), {
        what: "the call to have the focus",
      });
      const box = await quote.boundingBox();
      assert.ok(box !== null && box.y > 0 && box.y < 844, "the quote is in sight");
      await map.getByLabel("Moment").focus();
      await page.keyboard.press("Home");
      await map.getByText("Round 1, after Diagnosis").waitFor();
      assert.equal(await nodes.count(), 3);
      await map.getByRole("button", { name: "Replay" }).click();
      await map.getByText("Round 2, after Skeptic").waitFor();
      await map.getByRole("button", { name: "Replay" }).waitFor();
      assert.deepEqual(await violationsOf(page), []);
      assert.equal(await page.evaluate("document.documentElement.scrollWidth > innerWidth"), false);
    }),
);

const CALL = { agent_node: "diagnostic_agent", agent_role: "Primary Diagnosis", call_id: "ab".repeat(6) };

browserTest(
  "a browser shows hidden characters of a call and of its result, and a call without a result",
  () => {
    const call = {
      ...CALL,
      tool_name: "run_local_command",
      args: { argv: ["ls", "\u202etxt.\u200bx", "\u3164"] },
    };
    const record = {
      run_id: RUN_ID,
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
        // A tool call without a decision.
        { type: "tool_approval_request", ...call, call_id: "cd".repeat(6) },
        { type: "run_finished", status: "completed" },
      ],
    };
    return onDebatePage({ records: [record] }, async ({ page }) => {
      await page.goto(`/#/runs/${RUN_ID}`);
      await page.locator("#conversation > summary").click();
      const calls = page.locator("#conversation li.call");
      await poll(async () => await calls.count() === 2, { what: "both calls" });
      await calls.nth(1).getByText("no recorded result").waitFor();
      for (const call of await calls.all()) {
        await call.locator("summary").first().click();
        await call.locator("pre").last().waitFor({ state: "attached" });
        const text = await call.textContent() ?? "";
        assert.doesNotMatch(text, /[\u202e\u200b\u3164\u2066]/);
        assert.match(text, /"\\u\{202e\}txt\.\\u\{200b\}x",\s+"\\u\{3164\}"/);
      }
      assert.deepEqual(
        await page.evaluate(
          `[...document.querySelectorAll(".call:first-child pre .odd")].map(({ title }) => title)`,
        ),
        [
          "U+2066 bidirectional control",
          "U+202E RIGHT-TO-LEFT OVERRIDE",
          "U+200B ZERO WIDTH SPACE",
          "U+3164 invisible character",
        ],
      );
    });
  },
);

browserTest(
  "a browser shows a pending call of a killed server as ended",
  () =>
    withHome(async (home) => {
      const env = sceneEnv(home);
      await using browser = await TestBrowser.start();
      const killed = await DebateProcess.start(env);
      const page = await (await browser.plainSession(killed.url)).newPage();
      const request = page.getByRole("region", { name: "Waiting for your approval" });
      const call = page.locator("#conversation li.call", { hasText: "waits for you" });
      let runId: string;
      try {
        runId = await killed.run({ topic: "memory grows" });
        await page.goto(`/#/runs/${runId}`);
        await request.getByRole("button", { name: "Approve once" }).waitFor();
        await call.waitFor();
      } finally {
        await killed.stop("SIGKILL");
      }
      await using _server = await DebateProcess.start(env, Number(new URL(killed.url).port));
      const status = page.locator("#run-status");
      const isEnded = async () => await status.textContent() === "interrupted";
      for (const reload of [() => Promise.resolve(), () => page.reload()]) {
        await reload();
        await poll(isEnded, { what: "the page to say that the run is over" });
        await page.locator("#conversation li.call", { hasText: "no recorded result" }).waitFor({
          state: "attached",
        });
        assert.equal(await call.count() + await request.count(), 0);
        assert.equal(await page.getByRole("button", { name: "Stop" }).isVisible(), false);
      }
    }),
);

browserTest(
  "a browser edits the arguments of a call, and the tool validates them; shortcuts; Spanish",
  () =>
    onDebatePage({ viewport: { width: 390, height: 844 }, isQuiet: false }, async (scene) => {
      const { home, server, browser, page, problems } = scene;
      const runId = await server.run({ topic: "memory grows", require_approval: "true" });
      await page.goto(`/#/runs/${runId}`);
      const card = page.locator("#waiting .card").first();
      await card.getByText("Arguments", { exact: true }).click();
      await card.getByRole("textbox").fill("[1]");
      await page.getByText("The arguments are not a JSON object").waitFor();
      assert.deepEqual(await violationsOf(page), []);
      await card.getByRole("textbox").fill('{"command":"cat /etc/shadow"}');
      await card.getByRole("button", { name: "Approve with these arguments" }).click();
      const called = page.locator("#conversation li.call", { hasText: "changed by the operator" }).first();
      await called.locator("summary").first().click();
      await called.getByText("Requested by the agent").waitFor();
      assert.match(await called.innerText(), /\$ cat \/etc\/shadow\s+changed by the operator[^]*failed/);
      const { events } = await server.json(`/api/runs/${runId}`);
      const event = events.find(({ proposed_args }: { readonly proposed_args?: object }) =>
        proposed_args !== undefined
      );
      assert.deepEqual([event.error, event.args], [true, { command: "cat /etc/shadow" }]);
      const audited = (await Deno.readTextFile(`${home}/runs/audit.jsonl`)).trimEnd().split("\n")
        .map((line) => JSON.parse(line));
      assert.ok(
        audited.some(({ args, proposed_args }) =>
          args.command === "cat /etc/shadow" && proposed_args.command === event.proposed_args.command
        ),
      );

      await page.locator("h1").focus();
      await page.keyboard.press("?");
      const help = page.getByRole("dialog", { name: "Shortcuts" });
      await help.getByText("Go to the pending request").waitFor();
      assert.deepEqual(await violationsOf(page), []);
      await help.getByRole("checkbox").uncheck();
      await help.getByRole("button", { name: "Close" }).click();
      await page.keyboard.press("r");
      assert.equal(new URL(page.url()).hash, `#/runs/${runId}`, "shortcuts are off");
      await page.getByRole("button", { name: "Shortcuts" }).click();
      await help.getByRole("checkbox").check();
      await page.keyboard.press("Escape");
      // The agent asks for its next call.
      await page.locator("#waiting").waitFor();
      const places = [["w", "waiting"], ["a", "answer"], ["h", "hypotheses"], ["c", "conversation"]] as const;
      for (const [key, id] of places) {
        await page.keyboard.press(key);
        assert.equal(await page.evaluate("document.activeElement.id"), id);
      }
      await page.keyboard.press("m");
      await page.locator("#map[open] [data-key]").first().waitFor();
      await page.keyboard.press("j");
      assert.equal(await page.evaluate("document.activeElement.matches('.thread > li')"), true);
      await page.keyboard.press("r");
      await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
      await page.keyboard.press("/");
      await poll(() => page.evaluate("document.activeElement.id === 'runs-search'"), { what: "the search" });
      await page.keyboard.press("n");
      assert.equal(await page.getByRole("searchbox").inputValue(), "n", "a key in a field is text");
      await page.locator("h1").focus();
      await page.keyboard.press("n");
      await page.getByRole("heading", { level: 1, name: "What is wrong?" }).waitFor();
      await page.locator("summary", { hasText: /^Options/ }).click();
      await page.getByRole("combobox", { name: "Diagnostic agent", exact: true }).fill("replay/memory_leak");
      assert.deepEqual(await violationsOf(page), []);

      await page.goto("/#/templates");
      const text = page.locator("#template-text");
      await poll(async () => await text.inputValue() !== "", { what: "the first template" });
      await page.getByLabel("Start from").selectOption("errors/en");
      await poll(async () => (await text.inputValue()).includes("name: errors"), { what: "the template" });
      await page.getByRole("button", { name: "Check and preview" }).click();
      await page.locator("#template-preview summary", { hasText: "Skeptic" }).click();
      await page.locator("#template-preview pre:visible", { hasText: "DIAGNOSIS OF THIS ROUND" }).waitFor();
      assert.deepEqual(await violationsOf(page), []);
      const saved = page.waitForEvent("download");
      await page.getByRole("button", { name: "Save as a file" }).click();
      assert.equal((await saved).suggestedFilename(), "errors.en.yaml");
      await text.fill("name: 1");
      await page.getByRole("button", { name: "Save as a file" }).click();
      await page.getByText('key "diagnostic_system" is missing').waitFor();

      const away = await page.context().newPage();
      await away.addInitScript(LOOKS_ELSEWHERE);
      await away.goto(`/#/runs/${runId}`);
      await poll(async () => await away.evaluate("told.length > 0") === true, { what: "a notification" });
      await away.locator("#run-asked").getByText(/left$/).waitFor();
      assert.deepEqual(
        await away.evaluate("told"),
        [["memory grows", "Decide on run_local_command"]],
        "once",
      );

      const spanish = await browser.plainSession(server.url, {
        locale: "es-ES",
        viewport: { width: 390, height: 844 },
        colorScheme: "dark",
      });
      const pagina = await spanish.newPage();
      pagina.on("pageerror", (error) => problems.push(error.message));
      await pagina.goto("/");
      await pagina.getByRole("heading", { level: 1 }).waitFor();
      await pagina.getByRole("button", { name: "Iniciar el debate" }).waitFor();
      assert.deepEqual(await violationsOf(pagina), []);
      await pagina.goto(`/#/runs/${runId}`);
      await pagina.locator("#run-status").getByText("te espera").waitFor();
      assert.equal(await pagina.evaluate("document.documentElement.scrollWidth > innerWidth"), false);
      await pagina.getByLabel("Idioma").selectOption("en");
      await pagina.locator("#run-status").getByText("waits for you").waitFor();
      await pagina.reload();
      await pagina.locator("#run-status").getByText("waits for you").waitFor();
    }),
);
