import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { draftOf } from "../../control_plane/testing/sample_approval.ts";
import { poll } from "../stage/poll.ts";
import { browserTest } from "./chromium.ts";
import { onPage } from "./pages_scene.ts";

const LONG = `echo ${"x".repeat(30_000)} ${"word ".repeat(6_000)}`;

const overflow = (page: Page) =>
  page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");

for (const [width, colorScheme] of [[320, "light"], [768, "dark"], [1280, "light"]] as const) {
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
      for (let count = 0; count < 8; count++) {
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
        "comment",
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
      await page.getByRole("table", { name: "1 pending request" }).waitFor();
      assert.deepEqual(
        await page.getByRole("columnheader").allTextContents(),
        ["Request", "Host", "Elevation", "Requester", "Time left", "Request page"],
      );
      await page.goto(`/ui/approvals/${id}`);
      for (const name of ["Command", "Request", "Decision"]) {
        await page.getByRole("region", { name, exact: true }).waitFor();
      }
      const group = page.getByRole("group", { name: "Approval for a time" });
      assert.equal(await page.getByLabel("Number").isVisible(), false);
      await group.getByRole("combobox", { name: "For" }).selectOption("custom");
      await group.getByRole("spinbutton", { name: "Number" }).waitFor();
      await group.getByRole("combobox", { name: "Unit" }).waitFor();
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
        "rgb(22, 25, 29)",
      );
    }),
);

const { request } = draftOf();
const TARGET = { user: "deploy", addr: "10.0.0.1:22", lifeSeconds: 300 };
const WRITE = "cat > '/etc/nginx/conf.d/app.conf' && chmod 640 '/etc/nginx/conf.d/app.conf'";

browserTest(
  "all that a decision needs is on the first screen of a phone",
  () =>
    onPage({ viewport: { width: 390, height: 844 } }, async ({ park, page }) => {
      const asker = { endUser: "alice@example.com", sudo: true, target: TARGET };
      const reason = "the site is down since 12:40, I want to look at its logs";
      const shell = await park({
        ...asker,
        command: "",
        request: {
          ...request,
          command: "",
          purpose: "session",
          session_mode: "shell",
          session_max_seconds: 1800,
          reason,
        },
        rule: "behavior",
        anomalies: ["new-host:web01"],
      });
      await page.goto(`/ui/approvals/${shell}`);
      await isOnFirstScreen(page, [
        /asks for an interactive shell, as root, on web01; what is typed there is not shown to you; it may live 30 minutes\./,
        /the site is down/,
        /^deploy, then sudo as root$/,
        /^10\.0\.0\.1:22$/,
        /^unusual request: first request for host web01$/,
        /; time left: (?:2 min|1 min)/,
        /certificate for any command, valid for 5 minutes/,
        /The request is rejected/,
        /can only be approved once/,
      ], ["Approve once", "Deny"]);
      const command = await park({ ...asker, request: { ...request, reason } });
      await page.goto(`/ui/approvals/${command}`);
      await isOnFirstScreen(page, [
        /asks to run this command, as root, on web01\./,
        /^policy rule require_approval:\^systemctl restart$/,
        /certificate for exactly this command, valid for 5 minutes/,
        /identical requests are approved automatically/,
      ], ["Approve once", "Deny", "Approve and learn"]);
      const write = await park({
        target: TARGET,
        command: WRITE,
        request: {
          ...request,
          command: WRITE,
          file_transfer: true,
          content_sha256: "ab".repeat(32),
          content_bytes: 12_345,
          content_head: "server {\n  listen 443 ssl;\n}\n",
        },
      });
      await page.goto(`/ui/approvals/${write}`);
      await isOnFirstScreen(page, [
        /asks to move a file with this command/,
        /12,345 bytes, SHA-256 (?:ab){32}/,
        /listen 443 ssl/,
        /exactly this command with exactly this content/,
      ], ["Approve once", "Deny", "Approve and learn"]);
    }),
);

async function isOnFirstScreen(
  page: Page,
  texts: readonly RegExp[],
  buttons: readonly string[],
): Promise<void> {
  const elements = [
    ...texts.map((text) => page.locator("p, dd, code.command").filter({ hasText: text })),
    ...buttons.map((name) => page.getByRole("button", { name, exact: true })),
  ];
  for (const element of elements) {
    const box = await element.first().boundingBox();
    assert.ok(
      box !== null && box.y >= 0 && box.y + box.height <= 844,
      `${element}: ${box?.y}+${box?.height}`,
    );
  }
}
