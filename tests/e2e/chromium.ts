import { Buffer } from "node:buffer";
import fs from "node:fs";
import axe from "axe-core";
import type { Browser, BrowserContext, BrowserContextOptions, BrowserType, Page } from "playwright-core";
import type { Identity } from "../adapters/mtls_fixture.ts";

const PROGRAM = "/usr/bin/chromium";

/** Only a hanging browser takes this long, even on a busy machine. */
const HANGS_MS = 120_000;

/** Disable all background connections, because a test's browser must contact only the test. */
const FLAGS = [
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-gpu",
  "--disable-quic",
  "--disable-sync",
  "--no-first-run",
];

/** The name for a test that needs a browser. It shows when the test is skipped. */
export function browserTest(name: string, test: () => Promise<void>): void {
  const isMissing = !isInstalled() && !isRequired();
  const shown = isMissing ? `${name} (left out: ${PROGRAM} is not installed)` : name;
  Deno.test({ name: shown, ignore: isMissing, fn: () => sayingWhatWasLost(test) });
}

/** Requests, also to this machine, that Chromium aborted because a network interface changed. */
let lost = 0;

/** A page with a missing module waits forever and displays no reason. */
async function sayingWhatWasLost(test: () => Promise<void>): Promise<void> {
  lost = 0;
  try {
    await test();
  } catch (cause) {
    if (lost === 0) throw cause;
    const what = "the network of this machine changed, as it does when containers start or end";
    throw new Error(`${what}, and Chromium gave up ${lost} requests`, { cause });
  }
}

function isRequired(): boolean {
  return Deno.env.get("REQUIRE_REAL_SERVERS") === "1";
}

function isInstalled(): boolean {
  try {
    return Deno.statSync(PROGRAM).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

let shared: Browser | undefined;

if (isInstalled() || isRequired()) {
  // Starting the browser takes longer than most tests that need it.
  Deno.test.beforeAll(async () => {
    shared = await launch();
  });
  Deno.test.afterAll(async () => {
    await shared?.close();
    shared = undefined;
  });
}

async function launch(): Promise<Browser> {
  const chromium = await loadChromium();
  // As root, Chromium has no sandbox. It loads only our own pages.
  return await chromium.launch({
    executablePath: PROGRAM,
    chromiumSandbox: false,
    args: FLAGS,
    timeout: HANGS_MS,
  });
}

/** Sessions that end with the scope, in a browser without profile. The tests of a file share one browser. */
export class TestBrowser implements AsyncDisposable {
  readonly #browser: Browser;
  readonly #contexts: BrowserContext[] = [];

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  /** @throws {Error} when Chromium is not installed */
  static async start(): Promise<TestBrowser> {
    return new TestBrowser(shared ?? await launch());
  }

  async session(
    origin: string,
    { cert, key }: Identity,
    options: BrowserContextOptions = {},
  ): Promise<BrowserContext> {
    const context = await this.#browser.newContext({
      baseURL: origin,
      // The certificates of tests are from a CA that no browser trusts.
      ignoreHTTPSErrors: true,
      clientCertificates: [{ origin, cert: Buffer.from(cert), key: Buffer.from(key) }],
      ...options,
    });
    return this.#kept(context);
  }

  /** A new session for a server that requests no client certificate. */
  async plainSession(origin: string, options: BrowserContextOptions = {}): Promise<BrowserContext> {
    const context = await this.#browser.newContext({ baseURL: origin, ...options });
    return this.#kept(context);
  }

  #kept(context: BrowserContext): BrowserContext {
    context.setDefaultTimeout(HANGS_MS);
    context.on("requestfailed", (request) => {
      if (request.failure()?.errorText === "net::ERR_NETWORK_CHANGED") lost += 1;
    });
    this.#contexts.push(context);
    return context;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#browser !== shared) return await this.#browser.close();
    await Promise.all(this.#contexts.map((context) => context.close()));
  }
}

/** Shortens the pauses of a page, for example between refreshes, to a tenth. */
export async function hurry(context: BrowserContext): Promise<void> {
  await context.addInitScript(`{
    const { setTimeout } = window;
    window.setTimeout = (act, ms) => setTimeout(act, ms < 1000 ? ms : ms / 10);
  }`);
}

/** Violations reported by axe for a page, with their elements. */
export async function violationsOf(page: Page): Promise<unknown> {
  // Not as a script of the page, because the page's policy allows only its own scripts.
  await page.evaluate(axe.source);
  return await page.evaluate(
    `axe.run(document).then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]))`,
  );
}

/**
 * On loading, playwright checks for Linux on Windows with a file below `/proc`, which Deno makes available
 * only with all permissions. This stub reports the file as missing. The environment variable that skips the
 * check would apply to the whole process, including test files that run at the same time.
 */
async function loadChromium(): Promise<BrowserType> {
  const { existsSync } = fs;
  fs.existsSync = (path) => !String(path).startsWith("/proc/") && existsSync(path);
  try {
    return (await import("playwright-core")).chromium;
  } finally {
    fs.existsSync = existsSync;
  }
}
