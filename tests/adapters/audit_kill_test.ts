import assert from "node:assert/strict";
import { LogFolder } from "./audit_fixture.ts";
import { runUntilKilled } from "./killed_writer.ts";

const MODULE = new URL("audit_writer.ts", import.meta.url).href;

Deno.test("kill -9 loses no acknowledged record, and the chain continues", async () => {
  await using folder = new LogFolder();
  const acknowledged: string[] = [];
  for (const [round, count] of [1, 40, 333, 1000, 77, 512].entries()) {
    const args = [folder.path, String((round + 1) * 1_000_000), "1000000"];
    acknowledged.push(...await runUntilKilled({ module: MODULE, path: folder.folder, args }, count));
  }
  await folder.write("the last");
  assert.deepEqual(await folder.problems(), []);
  const logs = folder.names().filter((name) => !name.includes(".corrupt-"));
  assert.ok(logs.length > 1, "the writers have rotated the log");
  const kept = new Set(logs.flatMap((name) => folder.records(name)).map(({ serial }) => String(serial)));
  assert.ok(acknowledged.length > 1900);
  assert.deepEqual(acknowledged.filter((serial) => !kept.has(serial)), []);
});
