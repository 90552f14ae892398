import { systemClock } from "@gateway/shared/clock";
import assert from "node:assert/strict";
import { NO_INPUT } from "../../debate/engine/graph/hypotheses.ts";
import type { AuditLine, DebateOutcome } from "../../debate/engine/ports.ts";
import { conductDebate } from "../../debate/engine/agents/conduct_debate.ts";
import { loadSettings } from "../../debate/settings/config.ts";
import type { RunEvent } from "../../debate/engine/events.ts";
import { openProviders } from "../../debate/models/providers.ts";
import { createToolPorts, createTools } from "../../debate/tools/catalogue.ts";
import { SHIPPED_SCENARIOS, type ShippedScenario, startScenario } from "../debate/scenario_fixture.ts";
import { createFolder } from "../stage/folder.ts";

interface Played {
  readonly outcome: DebateOutcome;
  readonly events: readonly RunEvent[];
  readonly audit: readonly AuditLine[];
}

/** Runs a scenario in its environment, with the tools of a real run. */
async function play(scenario: ShippedScenario, isBroken = false): Promise<Played> {
  await using folder = await createFolder();
  await using world = await startScenario(scenario, folder.path);
  const settings = loadSettings({
    env: { HOME: folder.path, ...world.settings },
    workingFolder: folder.path,
  });
  let ids = 0;
  const newId = () => `id-${++ids}`;
  const clock = systemClock;
  const redact = (text: string) => text;
  const providers = openProviders(settings, { fetch, clock, random: () => 0, newId, warn: () => {} });
  const model = () => providers.model(`replay/${scenario}`);
  const events: RunEvent[] = [];
  const audit: AuditLine[] = [];
  const outcome = await conductDebate({
    runId: "run-1",
    topic: "Find the cause",
    context: world.incident,
    models: {
      diagnostic: await model(),
      skeptic: await model(),
      moderator: await model(),
      summary: await model(),
    },
    efforts: { diagnostic: "none", skeptic: "none", moderator: "none" },
    maxRounds: settings.MAX_ROUNDS,
    confidenceThreshold: settings.CONFIDENCE_THRESHOLD,
    earlyOut: { enabled: settings.EARLY_OUT_ENABLED, threshold: settings.EARLY_OUT_THRESHOLD },
    compressHistory: settings.COMPRESS_HISTORY,
    template: {
      name: "plain",
      language: "en",
      version: 1,
      description: "",
      source: "custom",
      diagnosticSystem: "Diagnose.",
      skepticSystem: "Doubt.",
      moderatorSystem: "Decide.",
    },
    language: "en",
    toolBudget: settings.MAX_TOOL_CALLS_PER_AGENT,
    maxConsecutiveErrors: settings.MAX_CONSECUTIVE_ERRORS,
  }, {
    emit: (event) => void events.push(event),
    tools: createTools(settings, await createToolPorts({ settings, clock, redact, env: {} })).map((tool) =>
      isBroken
        ? { ...tool, run: () => Promise.resolve({ ok: false, text: `${tool.name} failed: no route` }) }
        : tool
    ),
    approve: () => Promise.resolve("auto"),
    isPaused: () => false,
    waitForComment: () => Promise.resolve(NO_INPUT),
    audit: (line) => void audit.push(line),
    clock,
    newId,
    signal: new AbortController().signal,
  });
  return { outcome, events, audit };
}

Deno.test.each(
  [
    {
      scenario: "memory_leak",
      rounds: 2,
      states: { "H-1": "confirmed", "H-2": "rejected", "H-3": "rejected" },
      status: "final_diagnosis",
      skipped: 0,
      seen: [/"mb": 1498/, /pricing: cache rules per cart/, /17:00,1225,399/, /priceCache\.set\(cart\.id/],
    },
    {
      scenario: "slow_query",
      rounds: 2,
      states: { "H-1": "confirmed", "H-2": "rejected", "H-3": "rejected" },
      status: "propose_fix",
      skipped: 1,
      seen: [
        /migration 0042/,
        /nvme0n1/,
        /Index Scan Backward/,
        /\(customer_ref\)::bigint = 881204/,
        /automatic analyze/,
      ],
    },
    {
      scenario: "certificate_expired",
      rounds: 3,
      states: { "H-1": "rejected", "H-2": "active", "H-3": "rejected", "H-4": "confirmed" },
      status: "propose_fix",
      skipped: 0,
      seen: [
        /tls alert certificate expired/,
        /operational/,
        /2026-08-31T23:59:59Z/,
        /no deploy hook/,
        /systemd timer/,
      ],
    },
  ] as const,
)("the scenario $scenario completes, and its tools return the expected evidence", async (row) => {
  const { outcome, events, audit } = await play(row.scenario);
  assert.equal(outcome.error, undefined);
  assert.equal(outcome.status, "completed");
  assert.equal(outcome.roundLog.length, row.rounds);
  assert.equal(outcome.decision?.status, row.status);
  assert.deepEqual(Object.fromEntries(outcome.hypotheses.map(({ id, state }) => [id, state])), row.states);
  const lines = outcome.hypotheses.flatMap((
    { evidence, reviews },
  ) => [evidence, ...reviews.map((each) => each.evidence)]);
  assert.deepEqual(
    lines.flat().filter(({ status }) => status !== "grounded"),
    [],
    "every line of evidence counts",
  );
  assert.deepEqual([outcome.decision?.grounding?.level, outcome.decision?.grounding?.outcome], [
    "full",
    "cause",
  ]);

  const calls = events.filter((event) => event.type === "tool_call");
  assert.deepEqual(calls.filter(({ error }) => error), [], "every tool call succeeds");
  const results = calls.map(({ result }) => result).join("\n");
  for (const evidence of row.seen) assert.match(results, evidence);
  assert.equal(audit.length, calls.length);

  assert.equal(events.filter(({ type }) => type === "agent_skipped").length, row.skipped);
  const summaries = events.filter(({ type }) => type === "history_compressed");
  assert.equal(summaries.length, row.rounds > 2 ? 1 : 0);
  assert.ok(outcome.usage.total.total_tokens > 10_000);
});

for (const scenario of SHIPPED_SCENARIOS) {
  Deno.test(`the scenario ${scenario} ends without a confident cause if its tools fail`, async () => {
    const { outcome } = await play(scenario, true);
    assert.equal(outcome.status, "completed");
    assert.ok((outcome.decision?.confidence ?? 1) <= 0.6, `confidence is ${outcome.decision?.confidence}`);
    assert.equal(outcome.decision?.grounding?.outcome, "no_confident_cause");
    assert.deepEqual(outcome.hypotheses.filter(({ state }) => state === "confirmed"), []);
    assert.match(outcome.finalText, /Outcome: No confident cause/);
  });
}
