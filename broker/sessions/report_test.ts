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

Deno.test("a broker reports its sessions until it has reported that none is open", () =>
  reporting([], async ({ broker, reports }) => {
    await broker.clock.advance(60_000);
    assert.equal(reports.length, 0, "without sessions there is nothing to report");
    const opened_at = new Date(broker.clock.now()).toISOString().replace(".000", "");
    const id = await broker.open();
    await broker.exec(id, { command: `mysql -phunter2x ${"x".repeat(999)}` });
    await broker.clock.advance(10_000);
    await broker.close(id);
    await broker.clock.advance(60_000);
    const [first, second, ...last] = reports;
    assert.deepEqual(first, second);
    const [session] = first?.sessions ?? [];
    const { last_command: command = "", ...facts } = session ?? {};
    assert.match(command, /^mysql -p\[REDACTED:mysql-p-attached\] x+…$/);
    assert.equal(command.length, 201);
    const listed = { id, end_user: "alice", host: "web01", mode: "exec", opened_at, recorded: false };
    assert.deepEqual(facts, listed);
    assert.deepEqual(last, [{ instance: "07".repeat(8), sessions: [] }]);
  }));

Deno.test("a broker truncates long names, because one of them must not make the signer reject the report", () =>
  reporting([], async ({ broker, reports }) => {
    await broker.open({ caller: "x".repeat(999) });
    await broker.clock.advance(5000);
    assert.equal(reports[0]?.sessions[0]?.end_user.length, 256);
  }));

Deno.test.each([0, 403, 404, 429, 502])(
  "after status %s a broker warns once, reports again after 30 s, and its sessions continue",
  (status) =>
    reporting([status, status], async ({ broker, reports, warnings }) => {
      const id = await broker.open();
      await broker.clock.advance(34_999);
      assert.equal(reports.length, 1);
      await broker.clock.advance(1);
      assert.equal(reports.length, 2);
      await broker.exec(id);
      await broker.clock.advance(35_000);
      assert.deepEqual([reports.length, warnings.length], [4, 1]);
    }),
);
