import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { poll } from "../stage/poll.ts";
import { browserTest, violationsOf } from "./chromium.ts";
import { onDebatePage, VIEWS } from "./debate_screens.ts";

const PROVIDERS = [
  { name: "hub", protocol: "openai", configured: true, missing: [], login: false },
  { name: "assist", protocol: "openai", configured: false, missing: ["ASSIST_TOKEN"], login: true },
];
const TOOLS = [
  {
    name: "http_get",
    description: "Requests a <b>URL</b>",
    available: true,
    why: null,
    needs_approval: true,
  },
  {
    name: "query_loki",
    description: "",
    available: false,
    why: "LOKI_URL is not set",
    needs_approval: false,
  },
];

/** Adds members to an answer of the server. */
async function extend(page: Page, path: string, more: object): Promise<void> {
  await page.route(path, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...await response.json(), ...more } });
  });
}

browserTest(
  "the start page shows what is missing, which tools are off, and has no accessibility problems",
  () =>
    onDebatePage({}, async ({ page }) => {
      await extend(page, "**/api/settings", { providers: PROVIDERS, tools: TOOLS });
      await extend(page, "**/api/auth/status", { missing_settings: ["ASSIST_TOKEN"] });
      for (const { width, height, colorScheme } of VIEWS) {
        await page.setViewportSize({ width, height });
        await page.emulateMedia({ colorScheme });
        await page.goto("/");
        const setup = page.getByRole("region", { name: "Connect a model provider" });
        assert.match(await setup.innerText(), /assist\s+openai\s+missing ASSIST_TOKEN/);
        assert.equal(
          await page.locator("button.primary").allInnerTexts().then(String),
          "Try the built-in incident",
        );
        await page.locator("summary", { hasText: /^Options/ }).click();
        await page.locator("summary", { hasText: "1 on, 1 off" }).click();
        await page.getByText("Requests a <b>URL</b>").waitFor();
        await page.getByText("LOKI_URL is not set").waitFor();
        assert.match(
          await page.locator("form").innerText(),
          /Ready\s+hub[^]*Not set up\s+assist[^]*missing ASSIST_TOKEN/,
        );
        assert.equal(await page.evaluate("document.documentElement.scrollWidth > innerWidth"), false);
        assert.deepEqual(await violationsOf(page), []);
      }
    }),
);

browserTest(
  "Enter sends the text and the dropped files, and Shift + Enter adds a line",
  () =>
    onDebatePage({ isQuiet: false }, async ({ page }) => {
      const sent: string[] = [];
      await page.route("**/api/runs", async (route) => {
        if (route.request().method() !== "POST") return await route.continue();
        sent.push(route.request().postDataBuffer()?.toString() ?? "");
        await route.fulfill({ status: 409, json: { detail: "not now" } });
      });
      await page.goto("/");
      const field = page.getByRole("textbox", { name: "Incident" });
      await field.press("Enter");
      assert.deepEqual(sent, [], "an empty text is not sent");
      await field.fill("it hangs");
      await field.press("Shift+Enter");
      await field.pressSequentially("since noon");
      await page.evaluate(`{
        const dataTransfer = new DataTransfer();
        for (const name of ["incident.md", "systems.md"]) dataTransfer.items.add(new File([name + " inside"], name));
        document.querySelector("form").dispatchEvent(new DragEvent("drop", { dataTransfer, cancelable: true }));
      }`);
      const files = page.getByRole("list", { name: "Attached files" }).getByRole("listitem");
      await poll(async () => await files.count() === 2, { what: "two files" });
      await field.press("Control+Enter");
      await page.getByText("Not done: not now").waitFor();
      await page.getByRole("button", { name: "Remove incident.md" }).click();
      await page.getByRole("link", { name: "Runs", exact: true }).click();
      await page.getByRole("link", { name: "New run" }).click();
      assert.equal(
        await field.inputValue(),
        "it hangs\nsince noon",
        "the text survives a visit to another view",
      );
      await field.press("Enter");
      await poll(() => sent.length === 2, { what: "the second form" });
      const part = (name: string, text: string) => new RegExp(`name="${name}"[^]*?\\r\\n\\r\\n${text}\\r\\n`);
      for (const [form, incident] of [[sent[0], true], [sent[1], false]] as const) {
        assert.match(form ?? "", part("topic", "it hangs\\r?\\nsince noon"));
        assert.equal(part("incident_file", "incident.md inside").test(form ?? ""), incident);
      }
      assert.match(sent[0] ?? "", part("base_context", "systems.md inside"));
    }),
);

browserTest(
  "on a touch screen, Enter adds a line, and controls have the size of a finger",
  () =>
    onDebatePage(
      { hasTouch: true, isMobile: true, viewport: { width: 390, height: 844 } },
      async ({ page }) => {
        await page.goto("/");
        const field = page.getByRole("textbox", { name: "Incident" });
        await field.fill("it hangs");
        await field.press("Enter");
        assert.equal(await field.inputValue(), "it hangs\n");
        const size = await page.evaluate("getComputedStyle(document.querySelector('textarea')).fontSize");
        assert.equal(size, "16px", "the browser zooms in on smaller text");
        const button = await page.getByRole("button", { name: "Start the debate" }).boundingBox();
        assert.ok((button?.height ?? 0) >= 44);
      },
    ),
);

browserTest(
  "the list of runs shows states, reasons and exact times, filters, and leads to a comparison",
  () => {
    const record = (digit: string, more: object) => ({
      run_id: digit.repeat(32),
      topic: `incident ${digit} <img src=x onerror=alert(1)>`,
      timestamp: "2026-01-02T03:04:05.000Z",
      models: { diagnostic: `hub/${digit}` },
      events: [{ type: "run_started", round: 1, topic: "x", max_rounds: 1, confidence_threshold: 0.8 }],
      ...more,
    });
    const records = [
      record("a", { status: "error", problem: "hub: 404 No such model <b>" }),
      record("b", { status: "cancelled" }),
      record("c", {
        status: "completed",
        conclusion: { outcome: "cause", confidence: 0.93, cause: "H-1: The pool is full. It leaks." },
      }),
    ];
    return onDebatePage({ records }, async ({ page }) => {
      for (const { width, height, colorScheme } of VIEWS) {
        await page.setViewportSize({ width, height });
        await page.emulateMedia({ colorScheme });
        await page.goto("/#/runs");
        const row = (name: string) => page.getByRole("row", { name });
        assert.match(await row("incident a").innerText(), /404 No such model <b>[^]*Failed/);
        assert.match(await row("incident c").innerText(), /The pool is full\.\s[^]*Cause found[^]*93%/);
        assert.match(await row("incident b").locator("time").getAttribute("title") ?? "", /^Jan \d, 2026, /);
        await page.getByRole("searchbox").fill("LEAKS hub/a");
        await page.getByText("No run matches").waitFor();
        await page.getByRole("searchbox").fill("hub/b");
        await poll(async () => await page.locator("tbody tr").count() === 1, { what: "one run" });
        await page.getByRole("searchbox").fill("");
        assert.equal(await page.evaluate("document.documentElement.scrollWidth > innerWidth"), false);
        assert.deepEqual(await violationsOf(page), []);
        for (const name of ["a", "c"]) {
          await page.getByRole("checkbox", { name: `Compare: incident ${name}` }).check();
        }
        await page.getByRole("button", { name: "Compare (2 of 2)" }).click();
        await page.getByRole("rowheader", { name: /^Models ?, different$/ }).waitFor();
        assert.equal(await page.locator("main img").count(), 0);
        assert.equal(await page.evaluate("document.documentElement.scrollWidth > innerWidth"), false);
        assert.deepEqual(await violationsOf(page), []);
      }
    });
  },
);
