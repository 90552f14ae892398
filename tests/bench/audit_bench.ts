import type { AppendRates, Verification } from "./audit_process.ts";
import { compared, median, type Row, type SectionContext, startProgram } from "./harness.ts";

const MEBIBYTE = 1 << 20;
/** Size of the log with records of the usual size, which measures the speed. */
const USUAL_BYTES = 96 * MEBIBYTE;
/** Size of long records, which measure the memory. A log of this size is created in seconds. */
const LARGE_BYTES = 1024 * MEBIBYTE;
const LARGE_COMMAND_BYTES = 8192;
const SMALL_BYTES = 256 * MEBIBYTE;
/** Allowance for garbage that is not yet collected. */
const MAX_GROWTH_BYTES = 32e6;

/** Measures durable appends to an audit log, and its verification. */
export async function benchAudit({ dir, say }: SectionContext): Promise<readonly Row[]> {
  const seed = `${dir}/seed`;
  await Deno.writeFile(seed, new Uint8Array(32).fill(7));
  say("  appends …");
  await Deno.mkdir(`${dir}/append`);
  const append: AppendRates = await step(dir, "append", `${dir}/append`);
  const verify = async (bytes: number, commandBytes: number): Promise<Verification> => {
    const path = `${dir}/made.log`;
    say(`  a log of ${bytes / MEBIBYTE} MiB …`);
    await step(dir, "make", path, seed, String(bytes), String(commandBytes));
    say("  its verification …");
    const result: Verification = await step(dir, "verify", path, seed);
    await Deno.remove(path);
    if (result.problems > 0) throw new Error(`${result.problems} problems in a good log`);
    return result;
  };
  const usual = await verify(USUAL_BYTES, 0);
  const small = await verify(SMALL_BYTES, LARGE_COMMAND_BYTES);
  const large = await verify(LARGE_BYTES, LARGE_COMMAND_BYTES);
  return [appendRow(append), speedRow(usual), memoryRow(large, small)];
}

async function step<T>(dir: string, ...args: readonly string[]): Promise<T> {
  const allow = [`--allow-read=${dir}`, `--allow-write=${dir}`];
  const { success, stdout, stderr } = await startProgram("audit_process.ts", args, allow).output();
  if (!success) throw new Error(`audit_process.ts ${args[0]} failed:\n${new TextDecoder().decode(stderr)}`);
  return JSON.parse(new TextDecoder().decode(stdout));
}

function appendRow({ appended, bare, lineBytes }: AppendRates): Row {
  const rate = median(appended);
  const ratio = median(appended.map((value, round) => value / (bare[round] ?? NaN)));
  const row = compared(
    {
      what: "audit, durable records, 16 appenders",
      measured: `${rate.toFixed(0)}/s`,
      baseline: `${median(bare).toFixed(0)}/s bare write and fdatasync of 16 lines of ${lineBytes} bytes`,
    },
    ratio,
    { atLeast: 0.5 },
  );
  return { ...row, target: "at least 2000/s or 0.5", met: rate >= 2000 || row.met };
}

function speedRow({ entries, seconds }: Verification): Row {
  const rate = entries / seconds;
  return {
    what: `audit verify with key, ${entries} records of ${(USUAL_BYTES / entries).toFixed(0)} bytes`,
    measured: `${rate.toFixed(0)}/s`,
    baseline: "",
    ratio: "",
    target: "at least 12000/s",
    met: rate >= 12_000,
  };
}

function memoryRow(large: Verification, small: Verification): Row {
  const mb = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;
  const recordKib = (LARGE_BYTES / large.entries / 1024).toFixed(1);
  return {
    what: `audit verify of 1 GiB, ${recordKib} KiB a record, most memory`,
    measured: `${mb(large.most)} (${(LARGE_BYTES / 1e6 / large.seconds).toFixed(0)} MB/s)`,
    baseline: `${mb(small.most)} for 256 MiB, ${mb(large.before)} before`,
    ratio: (large.most / small.most).toFixed(2),
    target: `constant (within ${mb(MAX_GROWTH_BYTES)})`,
    met: large.most - small.most < MAX_GROWTH_BYTES,
  };
}
