import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { inRequest } from "../service/request_context.ts";
import { MemoryAuditLog } from "../testing/memory_audit_log.ts";
import { AuditGate } from "./gate.ts";

function setUp(failMode?: "closed" | "open" | "") {
  const log = new MemoryAuditLog();
  const seen = { failures: 0, blocked: 0, errors: [] as unknown[], infos: [] as string[] };
  const gate = new AuditGate({
    log,
    failMode,
    logger: {
      info: (message) => seen.infos.push(message),
      error: (message, fields) => seen.errors.push([message, fields]),
    },
    onAppendFailure: () => seen.failures++,
    onBlocked: () => seen.blocked++,
  });
  return { log, gate, seen };
}

Deno.test.each(
  [
    { name: "closed", failMode: "closed" },
    { name: "empty, which means closed", failMode: "" },
    { name: "absent, which means closed", failMode: undefined },
    // deno-lint-ignore no-explicit-any -- what a config that was not checked could hold
    { name: "unknown, which means closed", failMode: "opne" as any },
  ] as const,
)("AuditGate.require() withholds the action when the mode is $name (L11)", async ({ failMode }) => {
  const { log, gate, seen } = setUp(failMode);
  log.failing = true;
  await assert.rejects(gate.require({ outcome: "issued" }), (error: unknown) => {
    assert.ok(error instanceof AppError);
    assert.equal(error.code, "audit_unavailable");
    assert.equal(error.message, "audit unavailable");
    return true;
  });
  assert.deepEqual([seen.failures, seen.blocked, seen.errors.length], [1, 1, 1]);
});

Deno.test("AuditGate.require() lets the action proceed in the open mode, counted and logged", async () => {
  const { log, gate, seen } = setUp("open");
  log.failing = true;
  await gate.require({ outcome: "issued", caller: "broker-1" });
  assert.deepEqual([seen.failures, seen.blocked], [1, 0]);
  assert.deepEqual(seen.errors, [["Cannot append audit record", {
    outcome: "issued",
    caller: "broker-1",
    consequence: "action proceeds",
    cause: "audit unavailable: no space left",
  }]]);
});

Deno.test.each([{ failMode: "closed" }, { failMode: "open" }] as const)(
  "AuditGate.bestEffort() never fails in the mode $failMode",
  async ({ failMode }) => {
    const { log, gate, seen } = setUp(failMode);
    log.failing = true;
    await gate.bestEffort({ outcome: "denied" });
    assert.deepEqual([seen.failures, seen.blocked, seen.errors.length], [1, 0, 1]);
  },
);

Deno.test("AuditGate.require() works again when the log does", async () => {
  const { log, gate, seen } = setUp("closed");
  log.failing = true;
  await assert.rejects(gate.require({ outcome: "first" }));
  log.failing = false;
  await gate.require({ outcome: "second" });
  assert.deepEqual(log.entries, [{ outcome: "second" }]);
  assert.equal(seen.failures, 1);
});

Deno.test("AuditGate.close() closes the log (L22)", async () => {
  const { log, gate } = setUp();
  await gate.close();
  assert.equal(log.closed, true);
});

Deno.test.each(
  [
    { failMode: "closed", isOpen: false },
    { failMode: "open", isOpen: true },
  ] as const,
)(
  "AuditGate.check() says once that the log was changed, and once that it is back ($failMode)",
  ({ failMode, isOpen }) => {
    const { log, gate, seen } = setUp(failMode);
    gate.check();
    assert.deepEqual([gate.isOpen, seen.errors.length], [true, 0]);
    log.failing = true;
    for (let time = 0; time < 3; time++) gate.check();
    assert.deepEqual([gate.isOpen, seen.errors.length, seen.infos.length], [isOpen, 1, 0]);
    log.failing = false;
    for (let time = 0; time < 3; time++) gate.check();
    assert.deepEqual([gate.isOpen, seen.errors.length, seen.infos.length], [true, 1, 1]);
  },
);

Deno.test("AuditGate names the request in its records, and in the log where there is one that it could not keep", async () => {
  const { log, gate, seen } = setUp();
  await inRequest({ name: "POST", id: "r-1" }, async () => {
    await gate.require({ outcome: "a" });
    await gate.bestEffort({ outcome: "b", request_id: "r-0" });
    log.failing = true;
    await gate.bestEffort({ outcome: "c" });
  });
  log.failing = false;
  await gate.bestEffort({ outcome: "d" });
  assert.deepEqual(log.entries, [
    { outcome: "a", request_id: "r-1" },
    { outcome: "b", request_id: "r-0" },
    { outcome: "d" },
  ]);
  assert.match(JSON.stringify(seen.errors), /"request_id":"r-1"/);
});
