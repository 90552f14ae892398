import assert from "node:assert/strict";
import { HOSTILE } from "../../control_plane/testing/sample_record.ts";
import { browserTest, violationsOf } from "./chromium.ts";
import { identityOf, onPage } from "./pages_scene.ts";
import { approvalOf, draftOf } from "../../control_plane/testing/sample_approval.ts";
import type { Page } from "playwright-core";
import { signRequest } from "@gateway/shared/wire";
import { withoutToken } from "../../control_plane/approvals/approval.ts";

/** Values accepted by the database; other values never become an approval. */
const STORABLE = HOSTILE.filter(({ text }) => text.isWellFormed() && !text.includes("\0"));

browserTest(
  "hostile text stays text in every field: nothing runs, nothing is added, nothing is hidden",
  () =>
    onPage({}, async ({ page, ...pages }) => {
      const events: string[] = [];
      page.on("dialog", (dialog) => (events.push(`dialog ${dialog.message()}`), dialog.dismiss()));
      page.on("console", (message) => events.push(message.text()));
      page.on("pageerror", (error) => events.push(error.message));
      page.on("request", (request) => {
        if (!request.url().startsWith(`${pages.origin}/ui/`)) events.push(request.url());
      });
      for (const { name, text } of STORABLE) {
        const id = await pages.park({
          host: text,
          command: text,
          endUser: text,
          sudo: true,
          sudoUser: text,
          rule: text,
          anomalies: [text, `new-host:${text}`],
        });
        await page.goto(`/ui/approvals/${id}`);
        assert.equal(
          await page.locator("script, img, iframe, form, [onfocus], [autofocus]").count(),
          2,
          name,
        );
        const shown = await page.locator(".command").textContent() ?? "";
        assert.doesNotMatch(shown.replaceAll("\n", ""), /[\p{C}\p{Zl}\p{Zp}\p{DI}]/u, name);
        assert.ok(!(await page.title()).match(/[\p{C}\p{Zl}\p{Zp}]/u), name);
      }
      await page.goto("/ui/approvals");
      assert.equal(await page.getByRole("row").count(), STORABLE.length + 1);
      assert.equal(await page.locator("script, img, iframe, form").count(), 1);
      assert.deepEqual(events, []);
    }),
);

browserTest(
  "right to left text stands in the order of its characters",
  () =>
    onPage({}, async ({ park, page }) => {
      const id = await park({ command: "rm \u05d0\u05d1\u05d2/x" });
      await page.goto(`/ui/approvals/${id}`);
      const lefts = await page.evaluate(`
    [...document.querySelector(".command .foreign").firstChild.data].map((_, index) => {
      const range = document.createRange();
      const node = document.querySelector(".command .foreign").firstChild;
      range.setStart(node, index);
      range.setEnd(node, index + 1);
      return range.getBoundingClientRect().left;
    })`) as number[];
      assert.equal(lefts.length, 3);
      assert.deepEqual(lefts, lefts.toSorted((a, b) => a - b));
    }),
);

browserTest(
  "the pages run no script but their own, and load nothing from elsewhere",
  () =>
    onPage({}, async ({ page }) => {
      await page.goto("/ui/approvals");
      const violations = await page.evaluate(`new Promise((resolve) => {
    const found = [];
    addEventListener("securitypolicyviolation", ({ effectiveDirective }) => {
      found.push(effectiveDirective);
      if (found.length === 5) resolve(found.sort());
    });
    const add = (tag, properties) => document.body.append(Object.assign(document.createElement(tag), properties));
    add("script", { textContent: "window.isHacked = true" });
    add("img", { src: "/ui/approvals" });
    add("style", { textContent: "body{display:none}" });
    add("base", { href: "https://evil.example/" });
    fetch("https://evil.example/").catch(() => {});
  })`);
      assert.deepEqual(violations, "base-uri connect-src img-src script-src-elem style-src-elem".split(" "));
      assert.equal(await page.evaluate("window.isHacked"), undefined);
    }),
);

browserTest(
  "pages of other sites can neither decide by a form nor frame a request (CSRF, clickjacking)",
  () =>
    onPage({}, async ({ page, ...pages }) => {
      const id = await pages.park();
      const target = `${pages.origin}/ui/approvals/${id}`;
      await using evil = Deno.serve(
        { hostname: "127.0.0.1", port: 0, onListen() {} },
        ({ url }) =>
          new Response(
            new URL(url).pathname === "/frame"
              ? `<iframe src="${target}"></iframe>`
              : `<form method="post" action="${target}"><input name="decision" value="approve"></form>`,
            { headers: { "content-type": "text/html" } },
          ),
      );
      // Another site, and another port of the same site.
      for (const host of ["localhost", "127.0.0.1"]) {
        await page.goto(`http://${host}:${evil.addr.port}/`);
        await Promise.all([page.waitForURL(target), page.evaluate("document.forms[0].submit()")]);
        await page.getByText("a decision must be sent from the request page").waitFor();
        await page.goto(`http://${host}:${evil.addr.port}/frame`);
        const [, frame] = page.frames();
        assert.equal(await frame?.locator("form, button").count(), 0);
      }
      assert.equal(pages.controlPlane.registry.pendingCount(), 1);
      const refused = pages.controlPlane.log.entries.filter(({ outcome }) =>
        outcome.startsWith("approval-decision")
      );
      assert.deepEqual(refused, []);
    }),
);

const { request } = approvalOf();
const TARGET = { user: "deploy", addr: "10.0.0.1:22", lifeSeconds: 300 };

for (const [width, colorScheme] of [[390, "dark"], [1280, "light"]] as const) {
  browserTest(
    `axe finds nothing on any page, ${width} pixels wide, ${colorScheme}`,
    () =>
      onPage({ colorScheme, viewport: { width, height: 844 } }, async ({ browser, page, ...pages }) => {
        await using strangers = await browser.session(pages.origin, await identityOf("broker-1"));
        const check = async (path: string, on = page) => {
          await on.goto(path);
          assert.deepEqual(await violationsOf(on), [], path);
        };
        await check("/ui/approvals");
        const shell = await pages.park({
          command: "",
          request: {
            ...request,
            command: "",
            purpose: "session",
            session_mode: "shell",
            session_max_seconds: 1800,
          },
          sudo: true,
          rule: "behavior",
          anomalies: ["new-host:web01"],
          target: TARGET,
        });
        const write = await pages.park({
          command: "cat > '/etc/app.conf'",
          request: {
            ...request,
            command: "cat > '/etc/app.conf'",
            file_transfer: true,
            content_sha256: "ab".repeat(32),
            content_bytes: 3,
            content_head: "a\u202eb",
            reason: "deploy 4711",
          },
          endUser: "alice@example.com",
          rule: "require_approval:^cat ",
          target: TARGET,
        });
        const own = await pages.park({ caller: "approver-1", command: "c\u0430t \x1b[2J" });
        const decided = await pages.park({ command: "uptime" });
        await pages.controlPlane.decide(decided, { approve: true, comment: "fine" });
        await check("/ui/approvals");
        for (const id of [shell, write, own, decided]) await check(`/ui/approvals/${id}`);
        await check("/ui/approvals/0123");
        await check("/ui/approvals", await strangers.newPage());
      }),
  );
}

/** The largest possible manifest, and the largest that axe checks quickly. */
const LARGE = { bytes: 65_536, fields: 500 };
const SMALL = { bytes: 4_096, fields: 40 };
const TEXTS: readonly string[] = HOSTILE.map(({ text }) => text.slice(0, 90)).filter((text) =>
  text.isWellFormed() && !text.includes("\0")
);
const textAt = (index: number) => (TEXTS[index % TEXTS.length] ?? "").slice(0, 60);

/** Hostile keys and values, with the last bytes on a separate line. */
function hostileManifest(bytes: number): string {
  const data = Object.fromEntries(TEXTS.map((text, index) => [`${text}${index}`, text]));
  const manifest = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data, rest: "" };
  const rest = "y".repeat(bytes - new TextEncoder().encode(JSON.stringify(manifest)).length);
  return JSON.stringify({ ...manifest, rest });
}

/** An apply with the largest number of changed fields that a signer reports. */
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

/** Problems of usability and legibility on a page. */
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

/** Shows the page of an approval with hostile content in each size and color scheme. */
async function onHostile(size: typeof LARGE, test: (page: Page) => Promise<void>): Promise<void> {
  for (const [width, colorScheme] of [[390, "dark"], [1280, "light"]] as const) {
    await onPage({ colorScheme, viewport: { width, height: 844 } }, async ({ park, page }) => {
      const id = await park(hostileApply(size));
      const events: string[] = [];
      page.on("dialog", (dialog) => (events.push(dialog.message()), dialog.dismiss()));
      page.on("pageerror", (error) => events.push(error.message));
      await page.goto(`/ui/approvals/${id}`);
      await page.getByText("Manifest", { exact: true }).click();
      await checkLayout(page, width);
      await test(page);
      assert.deepEqual(events, []);
    });
  }
}

browserTest(
  "axe finds nothing on a page with what an apply would change",
  () =>
    onHostile(SMALL, async (page) => {
      assert.deepEqual(await violationsOf(page), []);
    }),
);

browserTest(
  "a manifest of 64 KiB and 500 changed fields stay readable, whatever is in them",
  () =>
    onHostile(LARGE, async (page) => {
      const changes = page.getByRole("region", { name: "Changed fields" });
      assert.equal(await changes.locator("dt").count(), LARGE.fields);
      assert.match(await page.locator("main").innerText(), /\b7 more fields are not shown\./);
      const shown = await page.getByRole("region", { name: "Manifest" }).textContent() ?? "";
      for (const [name, text] of [["manifest", shown], ["changes", await changes.textContent() ?? ""]]) {
        assert.doesNotMatch(text?.replaceAll("\n", "") ?? "", /[\p{C}\p{Zl}\p{Zp}\p{DI}]/u, `${name}`);
      }
      assert.equal(await page.locator("script, img, iframe, form, [onfocus], [autofocus]").count(), 2);
      assert.ok(shown.includes("y".repeat(100)), "to its end");
    }),
);
