import assert from "node:assert/strict";
import type { BrowserContextOptions, Page } from "playwright-core";
import { startScenario } from "../debate/scenario_fixture.ts";
import { poll } from "../stage/poll.ts";
import { hurry, TestBrowser } from "./chromium.ts";
import { DebateProcess, sceneEnv, withHome } from "./debate_scene.ts";

/** A server on a directory, and one of its pages in a separate browser session. */
export interface DebatePage {
  readonly home: string;
  readonly server: DebateProcess;
  readonly browser: TestBrowser;
  readonly page: Page;
  /** Errors of the page. At the end there must be none. */
  readonly problems: string[];
}

/** Options of {@linkcode onDebatePage}. The other options are for the browser session. */
interface DebatePageOptions extends BrowserContextOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Runs that are stored when the server starts. */
  readonly records?: readonly { readonly run_id: string }[];
  /** False if the test causes errors in the console. */
  readonly isQuiet?: boolean;
  readonly isHurried?: boolean;
}

/** Opens the page of a server for a test, and fails if the page has errors. */
export async function onDebatePage(
  { env = {}, records = [], isQuiet = true, isHurried = false, ...session }: DebatePageOptions,
  test: (scene: DebatePage) => Promise<void>,
): Promise<void> {
  await withHome(async (home) => {
    if (records.length > 0) await Deno.mkdir(`${home}/runs`);
    for (const record of records) {
      await Deno.writeTextFile(`${home}/runs/${record.run_id}.json`, JSON.stringify(record));
    }
    await using server = await DebateProcess.start(sceneEnv(home, env));
    await using browser = await TestBrowser.start();
    const context = await browser.plainSession(server.url, session);
    if (isHurried) await hurry(context);
    const page = await context.newPage();
    const problems: string[] = [];
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("console", (message) => {
      if (isQuiet && message.type() === "error") problems.push(message.text());
    });
    await test({ home, server, browser, page, problems });
    assert.deepEqual(problems, []);
  });
}

/** The widths and themes in which every state is checked. */
export const VIEWS = [1280, 390].flatMap((width) =>
  (["light", "dark"] as const).map((colorScheme) => ({
    width,
    height: width === 390 ? 844 : 800,
    colorScheme,
  }))
);

export interface Screen {
  readonly name: "found" | "unsure" | "waiting" | "paused" | "stopped" | "old";
  readonly path: string;
}

const OLD_ID = "ab".repeat(16);
const OLD_RECORD = {
  run_id: OLD_ID,
  topic: "slow checkout",
  timestamp: "2026-01-02T03:04:05.000Z",
  status: "completed",
  context: "",
  events: [
    { type: "run_started", round: 1, topic: "slow checkout", max_rounds: 1, confidence_threshold: 0.8 },
    {
      type: "moderator_decision",
      round: 1,
      decision: {
        status: "final_diagnosis",
        confidence: 0.9,
        leading_hypothesis: "H-1: the pool",
        risk_level: "low",
      },
    },
    { type: "run_finished", status: "completed" },
  ],
};

/** Runs debates of every state on one server and opens each in a browser. */
export async function lookAtScreens(look: (screen: Screen, open: OpenPage) => Promise<void>): Promise<void> {
  await withHome(async (home) => {
    await using world = await startScenario("memory_leak", `${home}/project`);
    await Deno.mkdir(`${home}/runs`);
    await Deno.writeTextFile(`${home}/runs/${OLD_ID}.json`, JSON.stringify(OLD_RECORD));
    await using server = await DebateProcess.start(sceneEnv(home, world.settings));
    await using browser = await TestBrowser.start();
    const ended = (id: string) =>
      poll(async () => (await server.json(`/api/runs/${id}`)).status !== "running", {
        what: "the run to end",
        timeoutMs: 60_000,
      });
    const found = await server.run({ topic: world.incident, require_approval: "false" });
    const unsure = await server.run({ topic: "checkout-api runs out of memory", require_approval: "false" });
    const waiting = await server.run({ topic: world.incident, require_approval: "true" });
    const paused = await server.run({
      topic: world.incident,
      require_approval: "false",
      pause_between_rounds: "true",
    });
    const stopped = await server.run({ topic: world.incident, require_approval: "true" });
    await Promise.all([ended(found), ended(unsure), server.event(waiting, "tool_approval_request")]);
    await server.event(paused, "awaiting_user_input");
    await server.event(stopped, "tool_approval_request");
    await (await fetch(`${server.url}/api/runs/${stopped}`, { method: "DELETE" })).body?.cancel();
    await ended(stopped);
    const states = { found, unsure, waiting, paused, stopped, old: OLD_ID };
    const open: OpenPage = async (path, options) => {
      const page = await (await browser.plainSession(server.url, options)).newPage();
      await page.goto(path);
      return page;
    };
    for (const [name, id] of Object.entries(states)) {
      await look({ name: name as Screen["name"], path: `/#/runs/${id}` }, open);
    }
  });
}

export type OpenPage = (path: string, options: BrowserContextOptions) => Promise<Page>;

const SAID: Readonly<Record<Screen["name"], readonly RegExp[]>> = {
  found: [
    /Cause found/,
    /Cause found The price cache/,
    /93% confidence low risk/,
    /Next step Set PRICE_CACHE/,
    /Recommended fix Key the cache/,
    /47,185 tokens/,
  ],
  unsure: [
    /No confident cause/,
    /Best candidate The price cache/,
    /60% confidence/,
    /The moderator stated 93%; limited to 60% because no evidence for H-1 counts: 3 of 3 cited tool calls failed/,
    /accepted, agreement without new evidence/,
    /low risk, unproved .* Next step Unproved: Set PRICE_CACHE=off .* this is the cause Unproved: Key the cache/,
  ],
  waiting: [/No cause yet/, /Leading so far The price cache/],
  paused: [/Undecided so far/, /Leading so far The price cache/, /round 2 of 4/],
  stopped: [/The run was stopped/, /Best candidate The price cache/],
  old: [/the evidence was not checked/, /90% confidence/],
};

export async function drawn(page: Page, name: Screen["name"]): Promise<void> {
  let text = "";
  await poll(async () => {
    text = (await page.locator("#answer").innerText()).replace(/\s+/g, " ");
    return SAID[name].every((said) => said.test(text));
  }, { what: `the answer of "${name}"` }).catch((error) => {
    throw new Error(`the answer of "${name}" is: ${text}`, { cause: error });
  });
}

if (import.meta.main) {
  const [folder = "."] = Deno.args;
  await lookAtScreens(async ({ name, path }, open) => {
    for (const { width, height, colorScheme } of VIEWS) {
      const page = await open(path, { viewport: { width, height }, colorScheme });
      await drawn(page, name);
      await page.screenshot({ path: `${folder}/${name}-${width}-${colorScheme}.png` });
      if (colorScheme === "light") {
        await page.screenshot({ path: `${folder}/${name}-${width}-full.png`, fullPage: true });
      }
      await page.context().close();
    }
  });
}
