import assert from "node:assert/strict";
import type { AuditLine } from "../../debate/engine/ports.ts";
import { createToolAuditLog } from "../../debate/tools/audit_log.ts";
import { temporaryFolder } from "./debate_tools_fixture.ts";

const LINE: AuditLine = {
  timestamp: "2026-01-02T03:04:05.000Z",
  run_id: "r1",
  agent: "diagnostic_agent",
  tool: "http_get",
  args: { url: "http://h/?k=hunter2", deep: [{ hunter2: 1 }], none: null },
  result: "ok\nline",
  error: false,
  approval: "auto",
};
const redact = (text: string) => text.replaceAll("hunter2", "[REDACTED]");

async function lines(path: string): Promise<readonly unknown[]> {
  return (await Deno.readTextFile(path)).trimEnd().split("\n").map((line) => JSON.parse(line));
}

Deno.test("createToolAuditLog() redacts what was asked for as well, where the operator changed it", async () => {
  await using folder = await temporaryFolder();
  const path = `${folder.path}/audit.jsonl`;
  await createToolAuditLog(path, redact).append({
    ...LINE,
    args: {},
    proposed_args: { url: "http://hunter2" },
  });
  assert.deepEqual(await lines(path), [{ ...LINE, args: {}, proposed_args: { url: "http://[REDACTED]" } }]);
});

Deno.test("createToolAuditLog() writes one line for each call, for the owner only, with arguments redacted", async () => {
  await using folder = await temporaryFolder();
  const path = `${folder.path}/audit.jsonl`;
  const log = createToolAuditLog(path, redact);
  await log.append(LINE);
  await log.append({ ...LINE, error: true });
  assert.deepEqual(await lines(path), [
    { ...LINE, args: { url: "http://h/?k=[REDACTED]", deep: [{ "[REDACTED]": 1 }], none: null } },
    {
      ...LINE,
      args: { url: "http://h/?k=[REDACTED]", deep: [{ "[REDACTED]": 1 }], none: null },
      error: true,
    },
  ]);
  assert.deepEqual(Object.keys((await lines(path))[0] as object), [
    "timestamp",
    "run_id",
    "agent",
    "tool",
    "args",
    "result",
    "error",
    "approval",
  ]);
  assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
});

Deno.test("createToolAuditLog() keeps order and whole lines when many write at once", async () => {
  await using folder = await temporaryFolder();
  const path = `${folder.path}/audit.jsonl`;
  const logs = [createToolAuditLog(path, redact), createToolAuditLog(path, redact)];
  await Promise.all(
    Array.from(
      { length: 60 },
      (_, at) => logs[at % 2]!.append({ ...LINE, run_id: String(at), result: "x".repeat(20_000) }),
    ),
  );
  await Promise.all(logs.map((log) => log.close()));
  const ids = (await lines(path)).map((line) => Number((line as AuditLine).run_id));
  assert.equal(ids.length, 60);
  for (const rest of [0, 1]) {
    const own = ids.filter((id) => id % 2 === rest);
    assert.deepEqual(own, own.toSorted((a, b) => a - b));
  }
});

Deno.test("createToolAuditLog() does not let a line that a crash has cut take the next one along", async () => {
  await using folder = await temporaryFolder();
  const path = `${folder.path}/audit.jsonl`;
  await Deno.writeTextFile(path, '{"timestamp":"2026');
  await createToolAuditLog(path, redact).append(LINE);
  const [torn, whole] = (await Deno.readTextFile(path)).split("\n");
  assert.equal(torn, '{"timestamp":"2026');
  assert.equal(JSON.parse(whole ?? "").run_id, "r1");
});

Deno.test("createToolAuditLog() fails when it cannot write, and works again when it can", async () => {
  await using folder = await temporaryFolder();
  const path = `${folder.path}/later/audit.jsonl`;
  const log = createToolAuditLog(path, redact);
  await assert.rejects(log.append(LINE), { code: "audit_unavailable", message: "audit unavailable" });
  await Deno.mkdir(`${folder.path}/later`);
  await log.append(LINE);
  assert.equal((await lines(path)).length, 1);
});
