import { systemClock } from "../clock.ts";
import { openFileAuditLog } from "./log.ts";

// Needs a disk: `deno bench --allow-read=<folder> --allow-write=<folder>` with TMPDIR set to that folder.
const folder = Deno.makeTempDirSync({ prefix: "audit-bench-" });
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));

const log = await openFileAuditLog({
  path: `${folder}/audit.log`,
  seed: new Uint8Array(32),
  clock: systemClock,
  redact: (text) => text,
});

/** As many records as a bench iteration appends, for the same work in each. */
const RECORDS = 256;

async function appendAll(appenders: number): Promise<void> {
  let left = RECORDS;
  await Promise.all(Array.from({ length: appenders }, async () => {
    while (left-- > 0) {
      await log.append({
        caller: "broker-1",
        host: "10.0.0.1:22",
        command: "role=target",
        outcome: "issued",
      });
    }
  }));
}

// What the disk gives: the writes and syncs of 16 appenders, without records to make.
const bare = await Deno.open(`${folder}/bare`, { append: true, create: true });
const bytes = new Uint8Array(16 * 420);

Deno.bench(`bare loop, ${RECORDS} records in groups of 16`, { group: "append", baseline: true }, async () => {
  for (let written = 0; written < RECORDS; written += 16) {
    await bare.write(bytes);
    await bare.syncData();
  }
});

for (const appenders of [1, 16, 64]) {
  Deno.bench(`append(), ${RECORDS} records, ${appenders} at once`, { group: "append" }, async () => {
    await appendAll(appenders);
  });
}
