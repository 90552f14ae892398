/**
 * One step of `audit_bench.ts` in its own process. The first argument selects the step:
 * `append DIR` runs 16 concurrent appenders to an audit log, in turns with a bare loop that writes and syncs groups of
 * 16 lines of the same size. It prints the records a second of each turn.
 * `make FILE SEED BYTES COMMAND_BYTES` creates an audit log without syncs.
 * `verify FILE SEED` verifies an audit log as `broker-ctl audit verify` does, and prints duration and memory.
 *
 * @module
 */
import {
  type AuditEntry,
  createAuditKey,
  encodeRecord,
  formatTime,
  GENESIS,
  seal,
  verifyFile,
} from "@gateway/shared/audit";
import { systemClock } from "@gateway/shared/clock";
import { createRedactor } from "@gateway/shared/redact";
import { openFileAuditLog } from "../../shared/audit/log.ts";

const APPENDERS = 16;
const ROUNDS = 5;
const MS = 1000;
const WRITE_BYTES = 1 << 20;
const SAMPLE_MS = 50;

/** Returns the record of an issued certificate, with a command of at least the given number of bytes. */
function sampleEntry(n: number, commandBytes = 0): AuditEntry {
  return {
    caller: "broker-local",
    host: "10.0.0.1:22",
    user: "deploy",
    principal: "host:web01",
    command: "role=target purpose=oneshot user=bench",
    command_line: "uptime".padEnd(commandBytes, " x"),
    request_id: "0b9b35a2-3cd5-4b7e-9a2f-6f0a3c1d2e4f",
    host_name: "web01",
    addr: "10.0.0.1:22",
    serial: 0x8000_0000_0000_0000n + BigInt(n),
    outcome: "issued",
    policy_rule: "allow:^uptime$",
  };
}

/** Records a second in each turn. */
export interface AppendRates {
  readonly appended: readonly number[];
  readonly bare: readonly number[];
  readonly lineBytes: number;
}

async function append(dir: string): Promise<AppendRates> {
  const path = `${dir}/audit.log`;
  const redact = createRedactor(undefined);
  const log = await openFileAuditLog({ path, seed: new Uint8Array(32).fill(7), clock: systemClock, redact });
  using file = await Deno.open(`${dir}/bare`, { append: true, create: true });
  await log.append(sampleEntry(0));
  const lineBytes = (await Deno.stat(path)).size;
  const group = new Uint8Array(lineBytes * APPENDERS).fill(0x78);
  /** Runs an action repeatedly until the turn is over, in several concurrent loops. */
  const rate = async (places: number, recordsEach: number, act: (n: number) => Promise<unknown>) => {
    let records = 0;
    const start = performance.now();
    await Promise.all(Array.from({ length: places }, async () => {
      while (performance.now() - start < MS) {
        await act(records);
        records += recordsEach;
      }
    }));
    return records / (performance.now() - start) * 1000;
  };
  const appended = () => rate(APPENDERS, 1, (n) => log.append(sampleEntry(n)));
  const bare = () =>
    rate(1, APPENDERS, async () => {
      await file.write(group);
      await file.syncData();
    });
  await appended();
  const rates = { appended: [] as number[], bare: [] as number[], lineBytes };
  for (let round = 0; round < ROUNDS; round++) {
    rates.bare.push(await bare());
    rates.appended.push(await appended());
  }
  await log.close();
  return rates;
}

async function make(path: string, seedPath: string, bytes: number, commandBytes: number): Promise<null> {
  const key = createAuditKey(await Deno.readFile(seedPath));
  const time = formatTime(1_700_000_000_000);
  using file = await Deno.open(path, { write: true, createNew: true });
  let head = GENESIS;
  for (let written = 0; written < bytes;) {
    let text = "";
    while (text.length < WRITE_BYTES) {
      const { line, next } = seal(encodeRecord(sampleEntry(head.seq, commandBytes), { time }), head, key);
      head = next;
      text += `${line}\n`;
    }
    let rest = new TextEncoder().encode(text);
    written += rest.length;
    while (rest.length > 0) rest = rest.subarray(await file.write(rest));
  }
  return null;
}

export interface Verification {
  readonly entries: number;
  readonly problems: number;
  readonly seconds: number;
  /** Resident memory before the verification, and its maximum. */
  readonly before: number;
  readonly most: number;
}

async function verify(path: string, seedPath: string): Promise<Verification> {
  const { publicKey } = createAuditKey(await Deno.readFile(seedPath));
  const before = Deno.memoryUsage().rss;
  let most = before;
  const sample = () => most = Math.max(most, Deno.memoryUsage().rss);
  const timer = setInterval(sample, SAMPLE_MS);
  const from = performance.now();
  const { entries, problems } = await verifyFile({ path, publicKey, onProblem: () => {} });
  const seconds = (performance.now() - from) / 1000;
  clearInterval(timer);
  sample();
  return { entries, problems, seconds, before, most };
}

if (import.meta.main) {
  const [step = "", path = "", seed = "", ...sizes] = Deno.args;
  const [bytes = 0, commandBytes = 0] = sizes.map(Number);
  const result = step === "append"
    ? await append(path)
    : step === "make"
    ? await make(path, seed, bytes, commandBytes)
    : await verify(path, seed);
  Deno.stdout.writeSync(new TextEncoder().encode(JSON.stringify(result)));
}
