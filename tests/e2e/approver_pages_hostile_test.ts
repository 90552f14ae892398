import assert from "node:assert/strict";
import { HOSTILE } from "../../control_plane/testing/sample_record.ts";
import { browserTest, TestBrowser } from "./chromium.ts";
import { identityOf, startPages } from "./pages_scene.ts";

/** What a database takes; the rest never becomes an approval. */
const STORABLE = HOSTILE.filter(({ text }) => text.isWellFormed() && !text.includes("\0"));

browserTest(
  "hostile text stays text in every field: nothing runs, nothing is added, nothing is hidden",
  async () => {
    await using pages = await startPages();
    await using browser = await TestBrowser.start();
    await using session = await browser.session(pages.origin, await identityOf("approver-1"));
    const page = await session.newPage();
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
      assert.equal(await page.locator("script, img, iframe, form, [onfocus], [autofocus]").count(), 2, name);
      const shown = await page.locator(".command").textContent() ?? "";
      assert.doesNotMatch(shown.replaceAll("\n", ""), /[\p{C}\p{Zl}\p{Zp}\p{DI}]/u, name);
      assert.ok(!(await page.title()).match(/[\p{C}\p{Zl}\p{Zp}]/u), name);
    }
    await page.goto("/ui/approvals");
    assert.equal(await page.getByRole("row").count(), STORABLE.length + 1);
    assert.equal(await page.locator("script, img, iframe, form").count(), 1);
    assert.deepEqual(events, []);
  },
);

browserTest("right to left text stands in the order of its characters", async () => {
  await using pages = await startPages();
  await using browser = await TestBrowser.start();
  await using session = await browser.session(pages.origin, await identityOf("approver-1"));
  const page = await session.newPage();
  const id = await pages.park({ command: "rm \u05d0\u05d1\u05d2/x" });
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
});

browserTest("the pages run no script but their own, and load nothing from elsewhere", async () => {
  await using pages = await startPages();
  await using browser = await TestBrowser.start();
  await using session = await browser.session(pages.origin, await identityOf("approver-1"));
  const page = await session.newPage();
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
  assert.deepEqual(violations, ["base-uri", "connect-src", "img-src", "script-src-elem", "style-src-elem"]);
  assert.equal(await page.evaluate("window.isHacked"), undefined);
});

browserTest(
  "pages of other sites can neither decide by a form nor frame a request (CSRF, clickjacking)",
  async () => {
    await using pages = await startPages();
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
    await using browser = await TestBrowser.start();
    await using session = await browser.session(pages.origin, await identityOf("approver-1"));
    const page = await session.newPage();
    // Another site, and another port of the same one.
    for (const host of ["localhost", "127.0.0.1"]) {
      await page.goto(`http://${host}:${evil.addr.port}/`);
      await Promise.all([page.waitForURL(target), page.evaluate("document.forms[0].submit()")]);
      await page.getByText("decisions have to be sent from the page of the request").waitFor();
      await page.goto(`http://${host}:${evil.addr.port}/frame`);
      const [, frame] = page.frames();
      assert.equal(await frame?.locator("form, button").count(), 0);
    }
    assert.equal(pages.controlPlane.registry.pendingCount(), 1);
    const refused = pages.controlPlane.log.entries.filter(({ outcome }) =>
      outcome.startsWith("approval-decision")
    );
    assert.deepEqual(refused, []);
  },
);
