import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { browserTest, violationsOf } from "./chromium.ts";
import { onDebatePage } from "./debate_screens.ts";
import { sceneEnv, withHome } from "./debate_scene.ts";
import { PROGRAM_PATH } from "../../debate/tools/run_program.ts";
import { denoDir } from "../stage/deno_dir.ts";
import { freePort } from "../stage/free_port.ts";
import { commandOf, readProcFile } from "../stage/proc_file.ts";
import { ROOT } from "../stage/service_command.ts";

const LOGIN = { WEB_USERNAME: "ann", WEB_PASSWORD: "pässword" };

browserTest(
  "a browser starts a run, follows it live, approves, comments, reports, resumes and deletes",
  () =>
    onDebatePage({
      env: LOGIN,
      httpCredentials: { username: LOGIN.WEB_USERNAME, password: LOGIN.WEB_PASSWORD },
      viewport: { width: 360, height: 740 },
    }, async ({ page }) => {
      await page.goto("/");
      const incident = page.getByRole("textbox", { name: "Incident" });
      await poll(() => page.evaluate("document.activeElement?.name === 'topic'"), { what: "the focus" });
      await incident.fill("memory grows <img src=x onerror=alert(1)>");
      await page.locator("summary", { hasText: /^Options/ }).click();
      await page.getByLabel("Pause between rounds").check();
      await page.getByLabel("Attach").setInputFiles({
        name: "incident.md",
        mimeType: "text/markdown",
        buffer: (await import("node:buffer")).Buffer.from("it began at noon"),
      });
      assert.ok(await page.locator("select[name=template] option").count() >= 5);
      await page.getByText("asks before sensitive tools · pauses between rounds").waitFor();
      await incident.press("Enter");

      await page.getByRole("heading", { level: 1, name: "memory grows <img" }).waitFor();
      await page.locator(".live").first().waitFor();
      const isWide = await page.evaluate("document.documentElement.scrollWidth > innerWidth");
      assert.equal(isWide, false);

      // Approves every pending call and comments every pause until the run ends.
      const status = page.locator("#run-status");
      const comments = page.locator(".thread > li", { hasText: "look at the carts" });
      let [approved, commented] = [0, 0];
      await poll(async () => {
        const approve = page.getByRole("button", { name: "Approve once" }).first();
        if (await approve.isVisible()) {
          // A decided call can disappear before the click. The next iteration queries the page again.
          await approve.click({ timeout: 5_000 }).then(() => approved += 1, () => {});
        }
        if (await page.locator("#comment-form").isVisible()) {
          await page.getByRole("textbox", { name: "Comment" }).fill("look at the carts");
          const pick = page.locator("#steer select").first();
          // The content of the form can appear later than the form.
          const isOpen = await page.locator("#steer").getAttribute("open") !== null;
          if (!isOpen) await page.getByText("Pin, drop or add hypotheses").click();
          await pick.selectOption("pin");
          await page.getByRole("button", { name: "Send and continue" }).click();
          commented += 1;
          // Until then, the form of the last pause is still visible.
          await poll(async () => await comments.count() >= commented, {
            what: "the comment to be in the thread",
          });
        }
        return await status.textContent() === "completed";
      }, { what: "the run to end", timeoutMs: 600_000, intervalMs: 100 });
      assert.ok(approved > 0, "no tool was approved");
      assert.ok(commented > 0, "no comment was asked for");
      await page.getByRole("heading", { name: "Final result" }).waitFor();
      await page.locator(".thread > li", { hasText: "the operator wants this examined further: " }).first()
        .waitFor();
      assert.equal(await page.locator("main img").count(), 0);

      const download = page.waitForEvent("download");
      await page.getByRole("button", { name: "Share" }).click();
      await page.getByRole("link", { name: "Report as Markdown" }).click();
      assert.match((await download).suggestedFilename(), /^diagnosis-[0-9a-f]{8}\.md$/);

      await page.getByText("Continue with new evidence").click();
      await page.getByLabel("New evidence").fill("the heap is full of carts");
      await page.locator("#resume-form").getByLabel("Ask me before").uncheck();
      await page.getByRole("button", { name: "Start a new run from here" }).click();
      await page.getByText("Continues run").waitFor();
      await page.getByRole("button", { name: "Stop" }).click();
      await poll(async () => await status.textContent() === "cancelled", { what: "the run to be cancelled" });

      await page.getByRole("link", { name: "Runs" }).click();
      const rows = page.locator("tbody tr");
      await poll(async () => await rows.count() === 2, { what: "two runs in the list" });
      await page.getByRole("button", { name: /^Delete: / }).first().click();
      await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
      await poll(async () => await rows.count() === 1, { what: "one run in the list" });
    }),
);

const MARKDOWN = `# Cause

The pool is **full** since \`09:00\`, *not* before:

1. connections wait
   - most of them <img src=x onerror=alert(1)>
2. [a link](http://127.0.0.1/) ![a picture](http://127.0.0.1/x.png)

| time | open |
| --- | ---: |
| 09:00 | 100 |

\`\`\`sql
select '<script>alert(1)</script>';
\`\`\`

<details><summary>HTML</summary>hidden</details>`;

browserTest(
  "a browser shows what models write as text, lists, tables and code, and nothing of it is live",
  () => {
    const runId = "ab".repeat(16);
    const record = {
      run_id: runId,
      topic: "slow checkout",
      timestamp: "2026-01-02T03:04:05.000Z",
      status: "completed",
      context: "",
      events: [
        { type: "run_started", round: 1, topic: "slow checkout", max_rounds: 1, confidence_threshold: 0.8 },
        { type: "agent_completed", node: "diagnostic_agent", role: "Primary Diagnosis", content: MARKDOWN },
        {
          type: "agent_completed",
          node: "skeptic_agent",
          role: "Skeptical Reviewer",
          content: ">".repeat(300),
        },
        { type: "telepathy" },
        { type: "moderator_decision", round: 1, decision: null },
        {
          type: "agent_completed",
          node: "skeptic_agent",
          role: "Skeptical Reviewer",
          content: "[hypothesis:H-1] needs_evidence [P=0.62]\nReason: A large cache is not yet a leak.\n" +
            '- [tool:http_get#9] "1498 MB": a snapshot',
        },
        { type: "run_finished", status: "completed" },
      ],
    };
    return onDebatePage({ records: [record] }, async ({ server, page, problems }) => {
      page.on(
        "request",
        (request) => new URL(request.url()).port === new URL(server.url).port || problems.push(request.url()),
      );
      await page.goto(`/#/runs/${runId}`);
      await page.locator("#conversation > summary").click();
      const card = page.locator("#conversation li.turn", { hasText: "Primary Diagnosis" });
      await card.waitFor();
      for (
        const [selector, text] of [
          ["p > b", "Cause"],
          ["strong", "full"],
          ["em", "not"],
          ["p code", "09:00"],
          ["ol > li", "connections wait"],
          ["ol > li > ul > li", "most of them <img src=x onerror=alert(1)>"],
          ["table td", "09:00"],
          ["pre", "select '<script>alert(1)</script>';"],
          ["p", "<details><summary>HTML</summary>hidden</details>"],
        ] as const
      ) {
        assert.equal(await card.locator(selector, { hasText: text }).count(), 1, selector);
      }
      assert.equal(await card.locator("a, img, script, details, h1, [style]").count(), 0);
      await page.locator("#conversation pre", { hasText: ">".repeat(300) }).waitFor();
      const last = page.locator("#conversation li.turn").last();
      assert.match(
        (await last.innerText()).replace(/\s+/g, " "),
        /H-1 needs evidence Probability 62% A large cache is not yet a leak\. http_get #9 "1498 MB": a snapshot/,
      );
      assert.equal(await last.getByRole("button").count(), 0, "a call that does not exist has no link");
      const notes = await page.locator("#conversation li.event").allInnerTexts();
      assert.deepEqual(notes.map((text) => text.trim()), [
        "This event cannot be shown: telepathy",
        "This event cannot be shown: moderator_decision",
      ]);
      assert.deepEqual(await violationsOf(page), []);
    });
  },
);

browserTest(
  "the list of runs refreshes and keeps the focus",
  () =>
    onDebatePage({ isQuiet: false, isHurried: true }, async ({ server, page }) => {
      await page.goto("/#/runs");
      await page.getByText("There are no runs yet").waitFor();
      const shows = (...rows: readonly (readonly [string, string])[]) =>
        poll(async () => {
          const names = await page.locator("tbody a").allTextContents();
          const states = await page.locator("tbody .badge").allTextContents();
          return JSON.stringify(names.map((name, index) => [name, states[index]])) === JSON.stringify(rows);
        }, { what: `the list to be ${JSON.stringify(rows)}` });

      const first = await server.run({ topic: "memory grows" });
      await server.event(first, "tool_approval_request");
      await shows(["memory grows", "Waits for you"]);
      await page.getByRole("button", { name: "Stop: memory grows" }).focus();
      const second = await server.run({ topic: "disk is full" });
      await server.event(second, "tool_approval_request");
      await shows(["disk is full", "Waits for you"], ["memory grows", "Waits for you"]);
      const focused = () => page.evaluate("document.activeElement.getAttribute('aria-label')");
      assert.equal(await focused(), "Stop: memory grows");

      await (await fetch(`${server.url}/api/runs/${first}`, { method: "DELETE" })).body?.cancel();
      await shows(["disk is full", "Waits for you"], ["memory grows", "Stopped"]);
      assert.equal(await focused(), "Delete: memory grows");
      await page.keyboard.press("Enter");
      const dialog = page.getByRole("dialog", { name: "Delete this run and its record?" });
      await dialog.getByText("memory grows").waitFor();
      // The first button has the focus, and it changes nothing.
      await page.keyboard.press("Enter");
      await dialog.waitFor({ state: "detached" });
      assert.equal(await focused(), "Delete: memory grows");
      await page.keyboard.press("Enter");
      await dialog.getByRole("button", { name: "Delete" }).click();
      await shows(["disk is full", "Waits for you"]);

      await server.stop("SIGKILL");
      await page.getByText("The list can be out of date").waitFor();
    }),
);

function start(home: string, env: Readonly<Record<string, string>>, args: readonly string[] = []) {
  return new Deno.Command(`${ROOT}debate/start.sh`, {
    args: [...args],
    cwd: home,
    clearEnv: true,
    env: {
      ...env,
      DENO: Deno.execPath(),
      PATH: Deno.env.get("PATH") ?? "",
      DENO_DIR: denoDir(),
      NO_COLOR: "1",
    },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
}

Deno.test("debate/start.sh executes the server with the permissions of .env", () =>
  withHome(async (home) => {
    const port = freePort();
    await Deno.writeTextFile(`${home}/.env`, `ENABLED_TOOLS=run_kubectl\nPROMPTS_DIR=${home}/prompts\n`);
    const child = start(home, sceneEnv(home), ["--port", String(port)]);
    const log = new Response(child.stderr).text();
    try {
      await poll(() => isUp(port), { what: "the debate server" });
      const flags = await commandOf(child.pid);
      const allowed = flags.filter((flag) => flag.startsWith("--allow-") && !flag.startsWith("--allow-env="));
      assert.deepEqual(allowed.map((flag) => flag.replace(/=.*/, "")), [
        "--allow-read",
        "--allow-write",
        "--allow-net",
        "--allow-run",
      ]);
      assert.ok(flags.includes(`--allow-write=${home}/runs,${home}/.config/debate`));
      assert.ok(flags.some((flag) => /^--allow-run=kubectl,(?:bwrap,)?kill$/.test(flag)));
      assert.ok(flags.includes(`${ROOT}debate/main.ts`));
      assert.match(allowed[0] ?? "", new RegExp(`,${home}/prompts,`));
      const environment = (await readProcFile(`/proc/${child.pid}/environ`)).split("\0");
      assert.ok(
        environment.includes(`PATH=${PROGRAM_PATH}`),
        "programs are permitted where tools look for them",
      );
    } finally {
      child.kill("SIGTERM");
    }
    assert.equal((await child.status).code, 0, await log);
    assert.equal(await isUp(port), false);
  }));

Deno.test.each([
  { level: "DEBUG", says: /^The debate service is at .*Z GET \/healthz: 200\n/s },
  { level: "ERROR", says: /^$/ },
])("the server logs messages of LOG_LEVEL=$level", ({ level, says }) =>
  withHome(async (home) => {
    const port = freePort();
    const child = start(home, sceneEnv(home, { LOG_LEVEL: level }), ["--port", String(port)]);
    const log = new Response(child.stderr).text();
    try {
      await poll(() => isUp(port), { what: "the debate server" });
    } finally {
      child.kill("SIGTERM");
    }
    assert.match(await log, says);
  }));

Deno.test("debate/start.sh rejects invalid settings and names them", () =>
  withHome(async (home) => {
    const { code, stderr } = await start(home, sceneEnv(home, { MAX_ROUNDS: "11" })).output();
    assert.match(new TextDecoder().decode(stderr), /^error: Cannot load settings .*MAX_ROUNDS/s);
    assert.equal(code, 2);
  }));

async function isUp(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/healthz`);
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}
