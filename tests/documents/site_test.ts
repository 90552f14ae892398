import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { browserTest, TestBrowser } from "../e2e/chromium.ts";
import { isMissing } from "../stage/is_missing.ts";
import { run } from "../stage/run.ts";
import { ROOT } from "./extract.ts";

const VITEPRESS = `${ROOT}docs/.vitepress/node_modules/vitepress/package.json`;
const isUnbuildable = isMissing("VitePress (deno task docs)", [VITEPRESS]);
const WHY = isUnbuildable ? " (left out: VitePress is not installed; deno task docs installs it)" : "";
const ORIGIN = "http://docs.test";
const SITE = await Deno.makeTempDir({ prefix: "site-" });

Deno.test.beforeAll(async () => {
  if (!isUnbuildable) await run(Deno.execPath(), ["task", "--quiet", "docs", "--outDir", SITE]);
});
Deno.test.afterAll(() => Deno.remove(SITE, { recursive: true }));

/** The files of the site by their paths, such as "/guides/policy.html". */
function listSite(directory = "/"): string[] {
  return [...Deno.readDirSync(SITE + directory)].flatMap(({ name, isDirectory }) =>
    isDirectory ? listSite(`${directory}${name}/`) : [`${directory}${name}`]
  );
}

/** Returns the path of a file for the address of a page. */
function fileOf({ pathname }: URL): string {
  return pathname.endsWith("/") ? `${pathname}index.html` : pathname;
}

Deno.test({
  name: `each link of the documentation site leads to a page and a section${WHY}`,
  ignore: isUnbuildable,
  async fn() {
    const files = listSite();
    const pages = new Map(
      await Promise.all(
        files.filter((file) => file.endsWith(".html")).map(async (file) =>
          [file, await Deno.readTextFile(SITE + file)] as const
        ),
      ),
    );
    const broken = [...pages].flatMap(([page, html]) =>
      [...html.matchAll(/<a [^>]*?href="([^"]+)"/g)].map(([, href = ""]) =>
        new URL(href.replaceAll("&amp;", "&"), ORIGIN + page)
      ).filter((url) => url.origin === ORIGIN).filter((url) => {
        const anchor = decodeURIComponent(url.hash.slice(1));
        return !files.includes(fileOf(url)) ||
          (anchor !== "" && pages.get(fileOf(url))?.includes(` id="${anchor}"`) === false);
      }).map(({ pathname, hash }) => `${page}: ${pathname}${hash}`)
    );
    assert.deepEqual(broken, []);
    assert.ok(pages.size > 30, `only ${pages.size} pages`);
  },
});

/** Serves the site to the browser, without a listener. Any other request is a problem. */
async function openSite(browser: TestBrowser, width: number, colorScheme: "light" | "dark") {
  const problems: string[] = [];
  const session = await browser.plainSession(ORIGIN, {
    viewport: { width, height: 900 },
    colorScheme,
  });
  await session.route("**/*", async (route) => {
    const url = new URL(route.request().url());
    if (url.origin === ORIGIN) return await route.fulfill({ path: SITE + fileOf(url) });
    problems.push(`a request to ${url}`);
    await route.abort();
  });
  const page = await session.newPage();
  page.on("pageerror", ({ message }) => problems.push(message));
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(message.text());
  });
  return { page, problems };
}

async function isTooWide(page: Page): Promise<boolean> {
  return await page.evaluate("document.documentElement.scrollWidth > innerWidth");
}

if (!isUnbuildable) {
  browserTest(
    "the documentation site is readable at each width and theme, and uses no other server",
    async () => {
      await using browser = await TestBrowser.start();
      for (const [width, colorScheme] of [[1440, "light"], [390, "dark"]] as const) {
        const { page, problems } = await openSite(browser, width, colorScheme);
        for (const path of ["/", "/architecture.html", "/reference/configuration-signer.html"]) {
          await page.goto(path);
          await page.locator("h1").first().waitFor({ state: "attached" });
          assert.equal(await isTooWide(page), false, `${path} at ${width}`);
          assert.equal(await page.locator("html.dark").count(), colorScheme === "dark" ? 1 : 0);
        }
        await page.keyboard.press("/");
        await page.locator("#localsearch-input").fill("freeze");
        await page.locator(".VPLocalSearchBox .result").first().click();
        await page.locator(".vp-doc h1", { hasText: /./ }).waitFor();
        assert.deepEqual(problems, []);
      }
    },
  );
}
