import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { poll } from "../stage/poll.ts";
import { browserTest, violationsOf } from "./chromium.ts";
import { drawn, lookAtScreens, type Screen, VIEWS } from "./debate_screens.ts";

const ANSWER = ["#answer .verdict", "#answer .cause"];
const PROVED = [...ANSWER, "#answer .figure", "#answer .because"];
/** These elements must be visible without scrolling at every width. A request to the operator is above the answer. */
const IN_SIGHT: Readonly<Record<Screen["name"], readonly string[]>> = {
  found: PROVED,
  unsure: PROVED,
  old: PROVED,
  stopped: ANSWER,
  waiting: ["#waiting .code", "#waiting .approve"],
  paused: ["#comment-form textarea", "#comment-form .primary"],
};

browserTest("the page of a run shows the answer first, in every state, width and theme", async () => {
  await lookAtScreens(async ({ name, path }, open) => {
    for (const { width, height, colorScheme } of VIEWS) {
      // Each width uses another theme; together they show each state in both themes.
      if ((width === 390) !== (colorScheme === "dark")) continue;
      const what = `${name}, ${width} pixels wide, ${colorScheme}`;
      const page = await open(path, { viewport: { width, height }, colorScheme });
      await drawn(page, name);
      for (const selector of ["#run-status", ...IN_SIGHT[name]]) {
        await poll(async () => {
          const box = await page.locator(selector).first().boundingBox();
          return box !== null && box.y >= 0 && box.y + box.height <= height;
        }, { what: `${selector} to be in sight: ${what}` });
      }
      assert.equal(await page.evaluate("document.documentElement.scrollWidth > innerWidth"), false, what);
      const root = await page.evaluate("getComputedStyle(document.documentElement).fontSize");
      assert.equal(root, "16px", "1rem is the size that the user chose");
      if (name === "found" || name === "unsure") {
        const sizeOf = (selector: string) =>
          page.evaluate<number>(
            `parseFloat(getComputedStyle(document.querySelector("${selector}")).fontSize)`,
          );
        const [figure, verdict] = await Promise.all(["#answer .figure", "#answer .verdict"].map(sizeOf));
        assert.equal(Number(figure) > Number(verdict), name === "found", "a guess is not the largest text");
      }
      if (name === "waiting") {
        assert.match(
          await page.locator("#run-asked").innerText(),
          /^Decide on run_local_command\s[1-5]:\d\d left$/,
        );
        assert.match(await page.title(), /^Waiting for you: /);
        assert.ok(await page.getByRole("button", { name: "Approve once" }).isVisible());
        const request = (await page.locator("#waiting").innerText()).replace(/\s+/g, " ");
        assert.match(
          request,
          /Skeptical Reviewer wants to run a command run_local_command \$ cat \S+traffic\.csv/,
        );
        assert.match(request, /The agent wrote before this call: H-3 can be tested immediately/);
        assert.match(request, /Approve once [1-5]:\d\d left Reject Allow for this run/);
      }
      if (name === "paused") await page.getByText("Pin, drop or add hypotheses").click();
      assert.deepEqual(await violationsOf(page), [], what);
      if (name === "found") {
        await page.locator("#map > summary").click();
        await page.locator("#map [data-key]").last().click();
        await page.locator("#map").scrollIntoViewIfNeeded();
        assert.deepEqual(await violationsOf(page), [], `the map, ${what}`);
        await followEvidence(page);
      }
      await page.context().close();
    }
  });
});

/** Evidence leads to the tool call that it cites, and the bar stays in view. */
async function followEvidence(page: Page): Promise<void> {
  await page.locator("#answer").getByRole("button", { name: "http_get #2" }).click();
  const call = page.locator("#conversation .call", { hasText: "#2" }).first();
  await call.getByText('"entries": 15212').first().waitFor();
  assert.deepEqual(await call.locator("mark").allInnerTexts(), [
    'src/pricing/price_cache.ts priceCache", "entries": 15212, "mb": 1498',
  ]);
  const box = await page.locator("#run-bar").boundingBox();
  assert.ok(box !== null && box.y >= -1 && box.y < 5, `the bar is at ${box?.y}`);
}
