import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { browserTest, TestBrowser, violationsOf } from "./chromium.ts";
import { DebateProcess, LOOKS_ELSEWHERE, sceneEnv, withHome } from "./debate_scene.ts";

browserTest(
  "a browser changes what a tool is to be called with, and the tool refuses what it refuses to agents; keys; Spanish",
  () =>
    withHome(async (home) => {
      await using server = await DebateProcess.start(sceneEnv(home));
      await using browser = await TestBrowser.start();
      const english = await browser.plainSession(server.url, { viewport: { width: 390, height: 844 } });
      const page = await english.newPage();
      const problems: string[] = [];
      page.on("pageerror", (error) => problems.push(error.message));
      const runId = await server.run({ topic: "memory grows", require_approval: "true" });
      await page.goto(`/#/runs/${runId}`);
      const card = page.locator("#asked-list .card").first();
      await card.getByText("Change the arguments").click();
      await card.getByRole("textbox").fill("[1]");
      await page.getByText("the arguments are not a JSON object").waitFor();
      assert.deepEqual(await violationsOf(page), []);
      await card.getByRole("textbox").fill('{"command":"cat /etc/shadow"}');
      await card.getByRole("button", { name: "Approve with these arguments" }).click();
      const called = page.locator("#thread li.card", { hasText: "arguments changed by the operator" })
        .first();
      await called.locator("summary").click();
      await called.getByText("Asked for by the agent").waitFor();
      assert.match(await called.innerText(), /\(failed, arguments changed by the operator/);
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

      await page.locator("h1:visible").first().focus();
      await page.keyboard.press("?");
      const help = page.getByRole("dialog");
      await help.getByText("Go to what waits for me").waitFor();
      assert.deepEqual(await violationsOf(page), []);
      await help.getByRole("button", { name: "Close" }).click();
      await page.keyboard.press("r");
      await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
      await page.keyboard.press("n");
      await page.getByLabel("Incident what is wrong").fill("n r ?");
      await page.getByRole("heading", { level: 1, name: "New run" }).waitFor();
      await page.locator("summary", { hasText: /^Models$/ }).click();
      await page.locator("select.pick").first().selectOption("other");
      await page.getByLabel("Diagnostic agent: id of the model").fill("replay/memory_leak");
      assert.deepEqual(await violationsOf(page), []);

      await page.goto("/#/templates");
      const text = page.locator("#template-text");
      await page.locator("#template-from").selectOption("errors/en");
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

      const away = await english.newPage();
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
      await pagina.getByRole("heading", { level: 1, name: "Nueva ejecución" }).waitFor();
      await pagina.getByRole("button", { name: "Iniciar el debate" }).waitFor();
      assert.deepEqual(await violationsOf(pagina), []);
      await pagina.goto(`/#/runs/${runId}`);
      await pagina.locator("#run-status").getByText("en curso").waitFor();
      assert.equal(await pagina.evaluate("document.documentElement.scrollWidth > innerWidth"), false);
      await pagina.locator("#language").selectOption("en");
      await pagina.locator("#run-status").getByText("running").waitFor();
      await pagina.reload();
      await pagina.locator("#run-status").getByText("running").waitFor();
      assert.deepEqual(problems, []);
    }),
);
