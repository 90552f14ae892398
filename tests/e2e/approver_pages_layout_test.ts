import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { poll } from "../stage/poll.ts";
import { browserTest, TestBrowser } from "./chromium.ts";
import { identityOf, startPages } from "./pages_scene.ts";

const LONG = `echo ${"x".repeat(30_000)} ${"word ".repeat(6_000)}`;

async function onPage(
  options: Parameters<TestBrowser["session"]>[2],
  test: (scene: Awaited<ReturnType<typeof startPages>> & { readonly page: Page }) => Promise<void>,
): Promise<void> {
  await using pages = await startPages();
  await using browser = await TestBrowser.start();
  await using session = await browser.session(pages.origin, await identityOf("approver-1"), options);
  await test({ ...pages, page: await session.newPage() });
}

const overflow = (page: Page) =>
  page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");

for (const colorScheme of ["light", "dark"] as const) {
  for (const width of [320, 768, 1280]) {
    browserTest(
      `no page scrolls sideways, ${width} pixels wide, ${colorScheme}`,
      () =>
        onPage({ colorScheme, viewport: { width, height: 700 } }, async ({ park, page }) => {
          const id = await park({
            command: LONG,
            host: "h".repeat(200),
            caller: "c".repeat(64),
            endUser: `${"u".repeat(120)}@example.com`,
            sudo: true,
            sudoUser: "s".repeat(120),
            rule: `require_approval:${"r".repeat(500)}`,
            anomalies: [`new-host:${"h".repeat(200)}`],
          });
          for (const path of ["/ui/approvals", `/ui/approvals/${id}`, "/ui/approvals/0123"]) {
            await page.goto(path);
            assert.equal(await overflow(page), 0, path);
          }
        }),
    );
  }
}

browserTest(
  "a command of 60 KiB scrolls within its box, by keyboard too",
  () =>
    onPage({ viewport: { width: 375, height: 700 } }, async ({ park, page }) => {
      await page.goto(`/ui/approvals/${await park({ command: LONG })}`);
      const box = page.getByRole("region", { name: "Exact command" });
      const { height = 0 } = await box.boundingBox() ?? {};
      assert.ok(height > 100 && height < 500, String(height));
      await box.focus();
      await page.keyboard.press("End");
      await poll(
        async () => Number(await page.evaluate("document.querySelector('.command').scrollTop")) > 0,
        {
          what: "the box to scroll",
        },
      );
    }),
);

browserTest(
  "everything can be reached and done by keyboard, in order, with a visible focus",
  () =>
    onPage({ viewport: { width: 1280, height: 900 } }, async ({ park, page, controlPlane }) => {
      await park();
      await page.goto("/ui/approvals");
      await page.keyboard.press("Tab");
      assert.equal(await page.evaluate("document.activeElement.textContent"), "Skip to the content");
      assert.equal(await page.evaluate("document.activeElement.getBoundingClientRect().top >= 0"), true);
      await page.keyboard.press("Enter");
      await page.keyboard.press("Tab");
      assert.match(String(await page.evaluate("document.activeElement.textContent")), /^Review/);
      assert.equal(await page.evaluate("getComputedStyle(document.activeElement).outlineStyle"), "solid");
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: "Deny" }).waitFor();
      const order: unknown[] = [];
      for (let count = 0; count < 7; count++) {
        await page.keyboard.press("Tab");
        order.push(
          await page.evaluate(
            "document.activeElement.id || document.activeElement.getAttribute('aria-label') || document.activeElement.textContent",
          ),
        );
      }
      assert.deepEqual(order, [
        "Skip to the content",
        "Approvals",
        "Exact command",
        "approve",
        "deny",
        "ttl",
        "learn",
      ]);
      await page.locator("#deny").focus();
      await page.keyboard.press("Space");
      await page.getByText(/^Denied by approver-1 .* ago/).waitFor();
      assert.equal(controlPlane.registry.pendingCount(), 0);
    }),
);

browserTest(
  "a screen reader finds landmarks, a table with headers, and named fields, also on a phone",
  () =>
    onPage({ viewport: { width: 375, height: 700 } }, async ({ park, page }) => {
      const id = await park();
      await page.goto("/ui/approvals");
      for (const role of ["banner", "navigation", "main", "contentinfo"] as const) {
        assert.equal(await page.getByRole(role).count(), 1, role);
      }
      await page.getByRole("table", { name: "1 request waits for a decision" }).waitFor();
      assert.deepEqual(
        await page.getByRole("columnheader").allTextContents(),
        ["Command", "Host", "Elevation", "Asked by", "Time left", "Page of the request"],
      );
      await page.goto(`/ui/approvals/${id}`);
      for (const name of ["Command", "Request", "Decision"]) {
        await page.getByRole("region", { name, exact: true }).waitFor();
      }
      const group = page.getByRole("group", { name: "Or approve it for a while" });
      await group.getByRole("combobox", { name: "For" }).selectOption("another time");
      await group.getByRole("spinbutton", { name: "Number" }).waitFor();
      await group.getByRole("combobox", { name: "Unit" }).waitFor();
    }),
);

browserTest(
  "the fields for another time are there only when they count",
  () =>
    onPage({}, async ({ park, page }) => {
      await page.goto(`/ui/approvals/${await park()}`);
      assert.equal(await page.getByLabel("Number").isVisible(), false);
      await page.getByLabel("For").selectOption("another time");
      assert.equal(await page.getByLabel("Number").isVisible(), true);
    }),
);

browserTest(
  "a request can be printed: its command whole, without what can't be pressed on paper",
  () =>
    onPage({ colorScheme: "dark" }, async ({ park, page }) => {
      await page.goto(`/ui/approvals/${await park({ command: LONG })}`);
      await page.emulateMedia({ media: "print" });
      assert.equal(await page.getByRole("button").count(), 0);
      assert.equal(
        await page.evaluate(
          "(({ scrollHeight, clientHeight }) => scrollHeight - clientHeight)(document.querySelector('.command'))",
        ),
        0,
      );
      assert.equal(
        await page.evaluate("getComputedStyle(document.querySelector('.command')).color"),
        "rgb(26, 29, 33)",
      );
    }),
);
