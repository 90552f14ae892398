import assert from "node:assert/strict";
import { FixedRandom } from "@gateway/shared/testing";
import { type SessionReport, sessionReport } from "@gateway/shared/wire";
import { SessionFixture } from "../testing/session_fixture.ts";
import { reportSessions } from "./report.ts";

/** A broker whose signer answers its reports with these statuses; 0: it cannot be reached. */
async function reporting(
  statuses: readonly number[],
  test: (scene: { broker: SessionFixture; reports: SessionReport[]; warnings: string[] }) => Promise<void>,
) {
  const broker = new SessionFixture();
  const reports: SessionReport[] = [];
  const warnings: string[] = [];
  const stop = new AbortController();
  const running = reportSessions({
    signer: {
      request({ path, body }) {
        assert.equal(path, "/v1/sessions");
        const status = statuses[reports.push(sessionReport.parse(body)) - 1] ?? 200;
        return status === 0
          ? Promise.reject(new Error("down"))
          : Promise.resolve({ status, body: {}, text: "" });
      },
    },
    ...{ registry: broker.registry, clock: broker.clock, random: new FixedRandom([7]) },
    logger: { warn: (text) => void warnings.push(text) },
  }, stop.signal);
  await test({ broker, reports, warnings });
  stop.abort();
  await running;
}

Deno.test("a broker reports a session within a second of its opening and closing, and renews the report", () =>
  reporting([], async ({ broker, reports }) => {
    await broker.clock.advance(60_000);
    assert.equal(reports.length, 0, "without sessions there is nothing to report");
    const opened_at = new Date(broker.clock.now()).toISOString().replace(".000", "");
    const id = await broker.open();
    await broker.exec(id, { command: `mysql -phunter2x ${"x".repeat(999)}` });
    await broker.clock.advance(1000);
    await broker.clock.advance(14_000);
    assert.equal(reports.length, 1);
    await broker.clock.advance(1000);
    assert.equal(reports.length, 2);
    await broker.close(id);
    await broker.clock.advance(60_000);
    const [first, , ...last] = reports;
    const [session] = first?.sessions ?? [];
    const { last_command: command = "", ...facts } = session ?? {};
    assert.match(command, /^mysql -p\[REDACTED:mysql-p-attached\] x+…$/);
    assert.equal(command.length, 256);
    assert.deepEqual(facts, {
      ...{ id, end_user: "alice", host: "web01", mode: "exec", recorded: false },
      opened_at,
    });
    assert.deepEqual(last, [{ instance: "07".repeat(8), sessions: [] }]);
  }));

Deno.test.each<[answer: string, status: number, later: number]>([
  ["is unreachable", 0, 15],
  ["limits the rate", 429, 15],
  ["fails", 502, 15],
  ["has no such route", 404, 600],
  ["rejects the broker", 403, 600],
])(
  "a broker whose signer %s (status %s) reports again after %s s and warns once",
  (_name, status, later) =>
    reporting([status, status], async ({ broker, reports, warnings }) => {
      await broker.open();
      await broker.clock.advance(1000);
      await broker.open();
      await broker.clock.advance((later - 1) * 1000);
      assert.equal(reports.length, 1);
      await broker.clock.advance(1000);
      assert.equal(reports.length, 2);
      await broker.clock.advance(later * 1000);
      assert.deepEqual(reports[2]?.sessions.length, 2);
      assert.equal(warnings.length, 1);
    }),
);
