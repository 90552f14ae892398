import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { signRequest } from "@gateway/shared/wire";
import { withoutToken } from "../../control_plane/approvals/approval.ts";
import { draftOf } from "../../control_plane/testing/sample_approval.ts";
import { HOSTILE } from "../../control_plane/testing/sample_record.ts";
import { browserTest, TestBrowser, violationsOf } from "./chromium.ts";
import { identityOf, startPages } from "./pages_scene.ts";

/** As much as there can be, and as much as axe looks at in a moment. */
const LARGE = { bytes: 65_536, fields: 500 };
const SMALL = { bytes: 4_096, fields: 40 };
const TEXTS: readonly string[] = HOSTILE.map(({ text }) => text.slice(0, 90)).filter((text) =>
  text.isWellFormed() && !text.includes("\0")
);
const textAt = (index: number) => (TEXTS[index % TEXTS.length] ?? "").slice(0, 60);

/** With hostile keys and values, and a line of its own for the last bytes. */
function hostileManifest(bytes: number): string {
  const data = Object.fromEntries(TEXTS.map((text, index) => [`${text}${index}`, text]));
  const manifest = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data, rest: "" };
  const rest = "y".repeat(bytes - new TextEncoder().encode(JSON.stringify(manifest)).length);
  return JSON.stringify({ ...manifest, rest });
}

/** An apply that changes so many fields as a signer may tell of. */
function hostileApply({ bytes, fields }: typeof LARGE) {
  const manifest = hostileManifest(bytes);
  const command = "apply configmaps shop/settings";
  const body = {
    host: "prod",
    role: "target",
    purpose: "oneshot",
    command,
    target_type: "k8s",
    k8s_verb: "apply",
    k8s_resource: "configmaps",
    k8s_namespace: "shop",
    k8s_name: "settings",
    k8s_manifest: manifest,
  };
  return draftOf({
    host: "prod",
    command,
    rule: "require_approval:^apply",
    request: withoutToken(signRequest.parse(body)),
    k8sDiff: {
      kind: "changed",
      changes: Array.from({ length: fields }, (_, index) => ({
        path: `data[${JSON.stringify(`${textAt(index)}${index}`)}]`,
        ...(index % 3 === 0 ? {} : { before: JSON.stringify(textAt(index + 1)) }),
        ...(index % 3 === 1 ? {} : { after: JSON.stringify(textAt(index + 2)) }),
      })),
      omitted: 7,
    },
  });
}

/** What of a page can't be used or read. */
async function checkLayout(page: Page, width: number): Promise<void> {
  const wide = await page.evaluate(
    "document.documentElement.scrollWidth - document.documentElement.clientWidth",
  );
  assert.equal(wide, 0, "nothing scrolls sideways");
  for (const name of ["Changed fields", "Manifest"]) {
    const { height = 0, width: own = 0 } = await page.getByRole("region", { name }).boundingBox() ?? {};
    assert.ok(height > 100 && height < 600 && own <= width, `${name}: ${own} x ${height}`);
  }
}

/** Shows the page of an approval of hostile content in each size and colour. */
async function onPages(
  size: typeof LARGE,
  test: (page: Page, width: number) => Promise<void>,
): Promise<void> {
  await using pages = await startPages();
  await using browser = await TestBrowser.start();
  const id = await pages.park(hostileApply(size));
  for (const [width, colorScheme] of [[390, "dark"], [1280, "light"]] as const) {
    await using session = await browser.session(pages.origin, await identityOf("approver-1"), {
      colorScheme,
      viewport: { width, height: 844 },
    });
    const page = await session.newPage();
    const events: string[] = [];
    page.on("dialog", (dialog) => (events.push(dialog.message()), dialog.dismiss()));
    page.on("pageerror", (error) => events.push(error.message));
    await page.goto(`/ui/approvals/${id}`);
    await page.getByText("The manifest", { exact: true }).click();
    await checkLayout(page, width);
    await test(page, width);
    assert.deepEqual(events, []);
  }
}

browserTest(
  "axe finds nothing on a page with what an apply would change",
  () =>
    onPages(SMALL, async (page) => {
      assert.deepEqual(await violationsOf(page), []);
    }),
);

browserTest(
  "a manifest of 64 KiB and 500 changed fields stay readable, whatever is in them",
  () =>
    onPages(LARGE, async (page) => {
      const changes = page.getByRole("region", { name: "Changed fields" });
      assert.equal(await changes.locator("dt").count(), LARGE.fields);
      assert.match(await page.locator("main").innerText(), /\b7 more are not shown\./);
      const shown = await page.getByRole("region", { name: "Manifest" }).textContent() ?? "";
      for (const [name, text] of [["manifest", shown], ["changes", await changes.textContent() ?? ""]]) {
        assert.doesNotMatch(text?.replaceAll("\n", "") ?? "", /[\p{C}\p{Zl}\p{Zp}\p{DI}]/u, `${name}`);
      }
      assert.equal(await page.locator("script, img, iframe, form, [onfocus], [autofocus]").count(), 2);
      assert.ok(shown.includes("y".repeat(100)), "to its end");
    }),
);
