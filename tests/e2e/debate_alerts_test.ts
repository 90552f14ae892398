import assert from "node:assert/strict";
import { startScenario } from "../debate/scenario_fixture.ts";
import { poll } from "../stage/poll.ts";
import { ALERTMANAGER, pagerDuty } from "../../debate/alerts/testing/payloads.ts";
import { browserTest, violationsOf } from "./chromium.ts";
import { DebateProcess, sceneEnv, withHome } from "./debate_scene.ts";
import { onDebatePage } from "./debate_screens.ts";

const SECRET = "a-secret-of-alertmanager";
const HOOK = "/services/T000/B000/hidden-part";

/** A chat that stores the texts that it receives. */
function startChat() {
  const received: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    assert.equal(new URL(request.url).pathname, HOOK);
    received.push((await request.json()).text);
    return new Response("ok");
  });
  return {
    received,
    url: `http://127.0.0.1:${server.addr.port}${HOOK}`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Posts an alert as a person would, and returns status and body. */
async function curl(url: string, body: object) {
  const { stdout } = await new Deno.Command("curl", {
    args: [
      "-sS",
      "-w",
      "\n%{http_code}",
      "-H",
      "Content-Type: application/json",
      "-H",
      `X-Alert-Secret: ${SECRET}`,
    ]
      .concat("-d", JSON.stringify(body), `${url}/api/alerts`),
  }).output();
  const [answer = "", code] = new TextDecoder().decode(stdout).split("\n");
  return { code, ...JSON.parse(answer) };
}

Deno.test("an alert ends as an answer in the chat, also after kill -9 between alert and answer", () =>
  withHome(async (home) => {
    await using chat = startChat();
    await using world = await startScenario("memory_leak", `${home}/project`);
    const env = sceneEnv(home, { ...world.settings, ALERT_SECRET: SECRET, ALERT_ANSWER_URL: chat.url });
    const { repository: Repository, files: Files, service: Service } = world.variables;
    let log = "";
    for (const killed of ["after 202", "during the run"]) {
      await using server = await DebateProcess.start(env);
      if (killed === "after 202") {
        const alert = { ...ALERTMANAGER.alerts[0], annotations: { Repository, Files, Service } };
        const { code, status } = await curl(server.url, { ...ALERTMANAGER, alerts: [alert] });
        assert.deepEqual([code, status], ["202", "accepted"]);
      } else {
        let runId = "";
        await poll(async () => (runId = (await server.json("/api/alerts")).alerts[0].run_id ?? "") !== "", {
          what: "the run of the alert",
        });
        await server.event(runId, "tool_call");
      }
      await server.stop("SIGKILL");
      assert.equal(chat.received.length, 0);
      log += server.log;
    }
    await using server = await DebateProcess.start(env);
    await poll(() => chat.received.length > 0, { what: "the answer in the chat" });
    const { alerts: [{ run_id }] } = await server.json("/api/alerts");
    const lines = chat.received[0]?.split("\n") ?? [];
    assert.match(
      lines[0] ?? "",
      /^CheckoutMemory: .* \(critical\)\. Best candidate: The price cache that 4\.12\.0/,
    );
    assert.match(lines[1] ?? "", /^No confident cause \(\d+ %\)$/);
    assert.match(lines[2] ?? "", /^Evidence: 2 of 3 lines count, from 2 results$/);
    assert.match(lines[3] ?? "", /^Next: Unproved: Set PRICE_CACHE=off/);
    assert.match(lines[4] ?? "", new RegExp(`^http://127\\.0\\.0\\.1:\\d+/#/runs/${run_id}$`));
    assert.equal(lines.length, 5);
    const { events } = await server.json(`/api/runs/${run_id}`);
    const used = events.filter(({ type }: { type: string }) => type === "tool_call_started")
      .map(({ tool_name }: { tool_name: string }) => tool_name);
    assert.deepEqual(new Set(used), new Set(["git_recent_changes", "http_get"]));
    assert.equal((await server.stop()).code, 0);
    assert.equal(chat.received.length, 1);
    assert.doesNotMatch(log + server.log, new RegExp(`${SECRET}|hidden-part`));
  }));

/** Decides on each request of the chat as the page does, until the answer arrives. Returns the messages. */
async function decideAll(
  server: DebateProcess,
  { received }: { readonly received: string[] },
  approved: boolean,
) {
  const done = new Set<string>();
  let next = 0;
  const text = () => received.slice(next).find((text) => /^Approval needed|Evidence: /m.test(text));
  for (;;) {
    await poll(() => text() !== undefined, { what: "a message in the chat" });
    const message = text() ?? "";
    next = received.indexOf(message, next) + 1;
    if (!message.startsWith("Approval needed")) return received.splice(0);
    const runId = message.split("/#/runs/")[1] ?? "";
    const { events } = await server.json(`/api/runs/${runId}`);
    const asked = events.findLast(({ type }: { type: string }) => type === "tool_approval_request");
    assert.ok(!done.has(asked.call_id), "each request is sent once");
    done.add(asked.call_id);
    const headers = {
      "content-type": "application/json",
      origin: server.url,
      "sec-fetch-site": "same-origin",
    };
    const body = JSON.stringify({ call_id: asked.call_id, approved });
    const path = `/api/runs/${runId}/approval`;
    assert.deepEqual(await server.json(path, { method: "POST", headers, body }), { status: "ok" });
  }
}

Deno.test("calls of an alert's run run after an approval, and not after a rejection, also after kill -9", () =>
  withHome(async (home) => {
    await using chat = startChat();
    await using world = await startScenario("memory_leak", `${home}/project`);
    const more = { ALERT_SECRET: SECRET, ALERT_ANSWER_URL: chat.url, ALERT_APPROVALS: "true" };
    const env = sceneEnv(home, { ...world.settings, ...more });
    const { repository: Repository, files: Files, service: Service } = world.variables;
    const post = (url: string, groupKey: string) => {
      const alert = { ...ALERTMANAGER.alerts[0], annotations: { Repository, Files, Service } };
      return curl(url, { ...ALERTMANAGER, groupKey, alerts: [alert] });
    };
    {
      await using server = await DebateProcess.start(env);
      assert.equal((await post(server.url, "first")).code, "202");
      await poll(() => chat.received.length > 0, { what: "the request in the chat" });
      await server.stop("SIGKILL");
    }
    const [lost = ""] = chat.received.splice(0);
    await using server = await DebateProcess.start(env);
    const approved = await decideAll(server, chat, true);
    const [first = "", last = ""] = [approved[0], approved.at(-1)];
    assert.deepEqual(first.split("\n").slice(0, 3), [
      "Approval needed: CheckoutMemory: checkout-api runs out of memory (critical)",
      `$ cat ${Files}/traffic.csv`,
      "Reason: H-3 can be tested immediately: if traffic explains the memory, both rise together.",
    ]);
    assert.notEqual(first.split("/#/runs/")[1], lost.split("/#/runs/")[1]);
    assert.equal(approved.filter((text) => text.startsWith("Approval needed")).length, 4);
    assert.match(approved[1] ?? "", /^Approved: \$ cat /);
    assert.match(last, /\. Cause: .*\nConfidence: 93 %\nEvidence: 3 of 3 lines count, from 3 results\n/);
    assert.equal((await post(server.url, "second")).code, "202");
    const rejected = await decideAll(server, chat, false);
    assert.match(rejected.at(-1) ?? "", /\. Best candidate: .*\nNo confident cause/);
    const { alerts } = await server.json("/api/alerts");
    const results = await Promise.all(alerts.map(async ({ run_id }: { run_id: string }) => {
      const { events } = await server.json(`/api/runs/${run_id}`);
      const calls = events.filter(({ type, tool_name }: { type: string; tool_name: string }) =>
        type === "tool_call" && tool_name === "run_local_command"
      );
      return calls.map(({ approval, result }: { approval: string; result: string }) =>
        `${approval} ${result.includes("exit code 0")}`
      );
    }));
    assert.deepEqual(results, [Array(4).fill("rejected false"), Array(4).fill("approved true")]);
    assert.equal((await server.stop()).code, 0);
  }));

browserTest(
  "the start page shows open alerts first, in every width and theme",
  () =>
    onDebatePage({ env: { ALERT_SECRET: SECRET } }, async ({ server, page }) => {
      await curl(server.url, ALERTMANAGER);
      await curl(server.url, pagerDuty({ title: `<img src=x onerror=alert(1)> ${"long ".repeat(40)}` }));
      for (
        const [width, colorScheme] of [[1440, "light"], [1440, "dark"], [390, "light"], [
          390,
          "dark",
        ]] as const
      ) {
        await page.setViewportSize({ width, height: 844 });
        await page.emulateMedia({ colorScheme });
        await page.goto("/");
        const alerts = page.getByRole("region", { name: "Open alerts" });
        await alerts.getByText("No confident cause").nth(1).waitFor();
        assert.match(
          await alerts.innerText(),
          /^Open alerts\s+<img src=x [^]*P1\s+No confident cause\s+\d+ days ago\s+CheckoutMemory[^]*critical/,
        );
        const form = await page.getByRole("textbox", { name: "Incident" }).boundingBox();
        assert.ok(((await alerts.boundingBox())?.y ?? Infinity) < (form?.y ?? 0), "above the form");
        assert.equal(await page.evaluate("document.documentElement.scrollWidth > innerWidth"), false);
        assert.deepEqual(await violationsOf(page), []);
        const folder = Deno.env.get("SCREENS");
        if (folder !== undefined) {
          await page.screenshot({ path: `${folder}/alerts-${width}-${colorScheme}.png` });
        }
      }
      const groups = Array.from(
        { length: 4 },
        (_, group) => ({ ...ALERTMANAGER, groupKey: `group ${group}` }),
      );
      for (const group of groups) await curl(server.url, group);
      await page.reload();
      const names = page.getByRole("region", { name: "Open alerts" }).locator(".name:visible");
      await page.getByText("Show all 6").waitFor();
      assert.equal(await names.count(), 5);
      await page.getByText("Show all 6").click();
      assert.match(
        (await names.allInnerTexts()).join(),
        /CheckoutMemory(?:[^,]*,){4}<img[^,]*,CheckoutMemory/,
      );
      await page.getByRole("link", { name: /CheckoutMemory/ }).first().click();
      await page.getByRole("heading", { level: 1, name: "CheckoutMemory" }).waitFor();
    }),
);
