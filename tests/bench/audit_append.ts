/**
 * A process that appends to an audit log from 16 places at once, in turns with a bare loop that writes and syncs
 * groups of as many lines of the same size. Arguments: an empty folder. Prints records a second of each turn.
 *
 * @module
 */
import { openFileAuditLog } from "../../shared/audit/log.ts";
import { systemClock } from "@gateway/shared/clock";
import { createRedactor } from "@gateway/shared/redact";
import { sampleEntry } from "./audit_entry.ts";

const APPENDERS = 16;
const ROUNDS = 5;
const MS = 1000;

/** Records a second, by turn. */
export interface AppendRates {
  readonly appended: readonly number[];
  readonly bare: readonly number[];
  readonly lineBytes: number;
}

async function appended(log: Awaited<ReturnType<typeof openFileAuditLog>>): Promise<number> {
  let records = 0;
  const start = performance.now();
  await Promise.all(Array.from({ length: APPENDERS }, async () => {
    while (performance.now() - start < MS) {
      await log.append(sampleEntry(records));
      records += 1;
    }
  }));
  return records / (performance.now() - start) * 1000;
}

async function bare(file: Deno.FsFile, lineBytes: number): Promise<number> {
  const group = new Uint8Array(lineBytes * APPENDERS).fill(0x78);
  let records = 0;
  const start = performance.now();
  while (performance.now() - start < MS) {
    await file.write(group);
    await file.syncData();
    records += APPENDERS;
  }
  return records / (performance.now() - start) * 1000;
}

if (import.meta.main) {
  const [folder = ""] = Deno.args;
  const path = `${folder}/audit.log`;
  const redact = createRedactor(undefined);
  const log = await openFileAuditLog({ path, seed: new Uint8Array(32).fill(7), clock: systemClock, redact });
  using file = await Deno.open(`${folder}/bare`, { append: true, create: true });
  await log.append(sampleEntry(0));
  const lineBytes = (await Deno.stat(path)).size;
  await appended(log);
  const rates = { appended: [] as number[], bare: [] as number[], lineBytes };
  for (let round = 0; round < ROUNDS; round++) {
    rates.bare.push(await bare(file, lineBytes));
    rates.appended.push(await appended(log));
  }
  await log.close();
  Deno.stdout.writeSync(new TextEncoder().encode(JSON.stringify(rates)));
}
