import { TestBrowser } from "../e2e/chromium.ts";
import { DebateProcess, sceneEnv } from "../e2e/debate_scene.ts";
import { median, type Row, type SectionContext, under } from "./harness.ts";

const EVENTS = 2000;
const TIMES = 3;
const SHOWN_MS = 1000;
const GAP_MS = 500;
const STORED = "ab".repeat(16);
const LIVE = "cd".repeat(16);
const ROLE = { agent_node: "diagnostic_agent", agent_role: "Primary Diagnosis" };
const BEGIN = { type: "run_started", round: 1, topic: "slow", max_rounds: 4, confidence_threshold: 0.8 };
const TEXT = "# Cause\n\nThe **pool** is full\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nls\n```\n".repeat(4);

/** Measures the debate's page in Chromium with many events: of a finished run, and received in one burst. */
export async function benchDebatePage({ dir, say }: SectionContext): Promise<readonly Row[]> {
  await Deno.mkdir(`${dir}/runs`);
  await Deno.mkdir(`${dir}/project`);
  const record = { run_id: STORED, topic: "slow", timestamp: "2026-01-02T03:04:05.000Z", context: "" };
  const events = [BEGIN, ...Array.from({ length: EVENTS }, (_, at) => eventAt(at)), {
    type: "run_finished",
    status: "completed",
  }];
  await Deno.writeTextFile(
    `${dir}/runs/${STORED}.json`,
    JSON.stringify({ ...record, status: "completed", events }),
  );
  await using server = await DebateProcess.start(sceneEnv(dir));
  await using browser = await TestBrowser.start();
  const page = await (await browser.plainSession(server.url)).newPage();
  const has = (what: string) =>
    `(async () => { while (!(${what})) await new Promise(requestAnimationFrame); return performance.now(); })()`;
  const shown: number[] = [];
  const bare: number[] = [];
  for (let time = 0; time < TIMES; time++) {
    await page.goto("about:blank");
    await page.goto(`${server.url}/`);
    bare.push(Number(await page.evaluate(has(`document.querySelector("#roles label")`))));
    await page.goto("about:blank");
    await page.goto(`${server.url}/#/runs/${STORED}`);
    shown.push(Number(await page.evaluate(has(`document.querySelector("#answer .verdict")`))));
  }
  say("  streams to a browser …");
  const frames = [
    BEGIN,
    ...Array.from(
      { length: EVENTS },
      (_, at) => at % 4 === 1 ? { type: "agent_delta", ...ROLE, delta: "some **words**\n\n" } : eventAt(at),
    ),
  ]
    .map((event, at) => `id: ${at + 1}\nevent: message\ndata: ${JSON.stringify(event)}\n\n`).join("");
  const body = `retry: 1000000\n\n${frames}`;
  await page.route(
    `**/api/runs/${LIVE}/events`,
    (route) => route.fulfill({ contentType: "text/event-stream", body }),
  );
  const live = { ...record, run_id: LIVE, status: "running", events: [] };
  await page.route(`**/api/runs/${LIVE}`, (route) => route.fulfill({ json: live }));
  await page.addInitScript(
    "globalThis.gaps = []; let last = performance.now();" +
      "(function frame() { const now = performance.now(); gaps.push(now - last); last = now; requestAnimationFrame(frame); })()",
  );
  await page.goto("about:blank");
  await page.goto(`${server.url}/#/runs/${LIVE}`);
  await page.evaluate(has(`document.querySelectorAll("#thread li.card").length >= ${EVENTS / 2}`));
  const gap = Number(await page.evaluate("Math.max(...gaps)"));
  const [first, start] = [median(shown), median(bare)];
  return [
    under(`debate's page, answer of a finished run of ${EVENTS} events`, first, SHOWN_MS, {
      baseline: `${start.toFixed(0)} ms, the form of the start page`,
    }),
    under(`debate's page, longest time without a frame while ${EVENTS} events come at once`, gap, GAP_MS),
  ];
}

function eventAt(at: number): object {
  if (at % 4 === 0) {
    return { type: "agent_completed", node: "diagnostic_agent", role: ROLE.agent_role, content: TEXT };
  }
  return {
    type: "tool_call",
    ...ROLE,
    call_id: `c${at}`,
    number: at,
    tool_name: "http_get",
    args: { url: "http://a.example" },
    result: "200 OK since noon\n".repeat(20),
    error: false,
    approval: "auto",
    cached: false,
    duration_ms: 3,
  };
}
