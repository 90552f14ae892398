import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { browserTest } from "./chromium.ts";
import { onPage } from "./pages_scene.ts";

browserTest(
  "the list shows new requests without being reloaded, and the focus stays where it is",
  () =>
    onPage({}, async ({ park, page }) => {
      const first = await park({ command: "uptime" });
      await page.goto("/ui/approvals");
      await page.locator(`#view-${first}`).focus();
      await page.evaluate("window.isSamePage = true");
      const second = await park({ command: "who" });
      await page.locator(`#view-${second}`).waitFor();
      assert.equal(await page.title(), "(2) Approvals");
      assert.equal(await page.evaluate("document.activeElement.id"), `view-${first}`);
      assert.equal(await page.evaluate("window.isSamePage"), true);
      assert.equal(await page.getByRole("status").textContent(), "2 pending requests");
    }),
);

browserTest(
  "the list is left alone while nothing changes: a selection survives",
  () =>
    onPage({}, async ({ park, page }) => {
      await park({ command: "uptime --pretty" });
      await page.goto("/ui/approvals");
      await page.evaluate("getSelection().selectAllChildren(document.querySelector('code'))");
      for (let rounds = 0; rounds < 2; rounds++) await page.waitForResponse("**/ui/approvals");
      assert.equal(await page.evaluate("String(getSelection())"), "uptime --pretty");
    }),
);

browserTest("the time left runs without being announced", () =>
  onPage({}, async ({ park, page }) => {
    const id = await park();
    await page.goto(`/ui/approvals/${id}`);
    const left = page.locator("[data-until]");
    const before = await left.textContent();
    await poll(async () => await left.textContent() !== before, { what: "the time to run" });
    assert.equal(await page.getByRole("status").textContent(), "");
    assert.equal(await page.locator("[aria-live] [data-until], [role=status] [data-until]").count(), 0);
  }));

browserTest("what is being entered survives the refresh", () =>
  onPage({}, async ({ park, page }) => {
    const id = await park();
    await page.goto(`/ui/approvals/${id}`);
    await page.getByLabel("For").selectOption("custom");
    await page.getByLabel("Number").fill("45");
    for (let rounds = 0; rounds < 2; rounds++) await page.waitForResponse(`**/ui/approvals/${id}`);
    assert.equal(await page.getByLabel("Number").inputValue(), "45");
    assert.equal(await page.evaluate("document.activeElement.name"), "amount");
  }));

browserTest(
  "a page that is open shows the decision of another approver, and takes the buttons away",
  () =>
    onPage({}, async ({ park, page, controlPlane }) => {
      const id = await park();
      await page.goto(`/ui/approvals/${id}`);
      await controlPlane.decide(id, { approve: false }, "approver-2");
      await page.getByText(/^Denied by approver-2 .* ago/).waitFor();
      assert.equal(await page.getByRole("button").count(), 0);
      assert.equal(await page.getByRole("status").textContent(), "Denied by approver-2");
      assert.match(await page.title(), /^Denied: web01/);
    }),
);

browserTest(
  "who has decided gets to the next request by keyboard, without the list",
  () =>
    onPage({}, async ({ park, page }) => {
      const [first, second] = [await park(), await park({ host: "db01" })];
      await page.goto(`/ui/approvals/${first}`);
      await page.getByRole("button", { name: "Deny" }).waitFor();
      assert.equal(await page.getByRole("link", { name: "Next pending request" }).count(), 0);
      await page.getByRole("button", { name: "Deny" }).click();
      await page.getByText(/^Next pending request: systemctl restart nginx on db01, time left: /)
        .waitFor();
      await page.getByRole("link", { name: "Next pending request" }).focus();
      await page.keyboard.press("Enter");
      await page.waitForURL(`**/ui/approvals/${second}`);
      await page.getByRole("button", { name: "Deny" }).click();
      await page.getByText(/^Denied by approver-1 .* ago/).waitFor();
      assert.equal(await page.getByRole("link", { name: "Next pending request" }).count(), 0);
    }),
);

browserTest(
  "a decision that comes too late says so, and shows what was decided",
  () =>
    onPage({}, async ({ park, page, controlPlane }) => {
      const id = await park();
      await page.goto(`/ui/approvals/${id}`);
      // Happens between the last refresh and the click.
      await page.route(`**/ui/approvals/${id}`, async (route) => {
        if (route.request().method() === "POST") {
          await controlPlane.decide(id, { approve: false }, "approver-2");
        }
        await route.continue();
      });
      await page.getByRole("button", { name: "Approve once" }).click();
      const alert = page.getByRole("alert");
      await alert.waitFor();
      assert.match(
        await alert.textContent() ?? "",
        /^Decision failed: approval .* is not pending: it is denied\.$/,
      );
      assert.equal(await page.evaluate("document.activeElement.id"), "problem");
      await page.getByText(/^Denied by approver-2 .* ago/).waitFor();
    }),
);

browserTest(
  "a decision that is refused leaves the form as it was, to be sent again",
  () =>
    onPage({}, async ({ park, page }) => {
      const id = await park();
      await page.goto(`/ui/approvals/${id}`);
      await page.getByLabel("For").selectOption("custom");
      await page.getByLabel("Number").fill("");
      await page.getByRole("button", { name: "Approve and learn" }).click();
      await page.getByRole("alert").waitFor();
      assert.match(await page.getByRole("alert").textContent() ?? "", /ttl_seconds/);
      await page.getByLabel("Number").fill("2");
      await page.getByRole("button", { name: "Approve and learn" }).click();
      await page.getByText("After the collection, identical requests need no approval for 2 h.").waitFor();
      assert.equal(await page.getByRole("alert").count(), 0);
      assert.equal(await page.evaluate("document.activeElement.tagName"), "H1");
    }),
);

browserTest(
  "a page that loses the control plane says that it is not up to date, until it is again",
  () =>
    onPage({}, async ({ park, page, session }) => {
      const id = await park();
      await page.goto(`/ui/approvals/${id}`);
      await session.route("**/*", (route) => route.abort());
      await page.getByText("Out of date").waitFor();
      await page.getByRole("button", { name: "Deny" }).click();
      assert.match(await page.getByRole("alert").textContent() ?? "", /^No answer\./);
      await session.unroute("**/*");
      await page.getByText(/^As of /).waitFor();
    }),
);

for (const scripts of [true, false]) {
  browserTest(
    `Enter in a field decides nothing, ${scripts ? "with" : "without"} scripts`,
    () =>
      onPage({ javaScriptEnabled: scripts }, async ({ page, park, controlPlane }) => {
        const sent: string[] = [];
        page.on("request", (request) => sent.push(request.method()));
        const id = await park();
        await page.goto(`/ui/approvals/${id}`);
        await page.getByLabel("For").press("Enter");
        await page.keyboard.press("Escape");
        await page.getByLabel("For").selectOption("custom");
        await page.getByLabel("Number").press("Enter");
        await page.getByLabel("Unit").press("Enter");
        await page.getByLabel("Comment").fill("x");
        await page.getByLabel("Comment").press("Enter");
        await page.keyboard.press("Escape");
        // A request caused by those keys would have arrived before this one.
        await page.goto("/ui/approvals");
        assert.ok(sent.every((method) => method === "GET"), sent.join(" "));
        assert.equal(controlPlane.registry.pendingCount(), 1);
      }),
  );
}

const ELSEWHERE = "https://elsewhere.example/ui/approvals/{id}";

browserTest(
  `a page that is not at its configured address (${ELSEWHERE}) says so, and still decides`,
  () =>
    onPage({ template: ELSEWHERE }, async ({ page, park, controlPlane }) => {
      await page.goto(`/ui/approvals/${await park()}`);
      await page.getByText("The address of this page differs from approval.approval_url_template").waitFor();
      await page.getByLabel("Comment").fill("looks fine");
      await page.getByRole("button", { name: "Approve once" }).click();
      await page.getByText(/^Approved by approver-1 .* ago/).waitFor();
      await page.getByText("looks fine").waitFor();
      assert.equal(controlPlane.registry.pendingCount(), 0);
    }),
);
