import { ROOT } from "../stage/service_command.ts";
import type { AppendRates } from "./audit_append.ts";
import type { Verification } from "./audit_verify.ts";
import type { Row } from "./row.ts";
import type { SectionContext } from "./section.ts";
import { median } from "./statistics.ts";

const MEBIBYTE = 1 << 20;
/** Records of the usual size, for the speed. */
const USUAL_BYTES = 96 * MEBIBYTE;
/** Long records, so that a log of this size is made in seconds; memory is what is looked at. */
const LARGE_BYTES = 1024 * MEBIBYTE;
const LARGE_COMMAND_BYTES = 8192;
const SMALL_BYTES = 256 * MEBIBYTE;
/** What a collector may leave lying about. */
const MAX_GROWTH_BYTES = 32e6;

/** The audit log: durable appends, and verification of what was written. */
export async function benchAudit({ dir, say }: SectionContext): Promise<readonly Row[]> {
  const seed = `${dir}/seed`;
  await Deno.writeFile(seed, new Uint8Array(32).fill(7));
  say("  appends …");
  await Deno.mkdir(`${dir}/append`);
  const append: AppendRates = await child(dir, "audit_append.ts", [`${dir}/append`]);
  const verify = async (bytes: number, commandBytes: number): Promise<Verification> => {
    const path = `${dir}/made.log`;
    say(`  a log of ${bytes / MEBIBYTE} MiB …`);
    await child(dir, "audit_make.ts", [path, seed, String(bytes), String(commandBytes)]);
    say("  its verification …");
    const result: Verification = await child(dir, "audit_verify.ts", [path, seed]);
    await Deno.remove(path);
    if (result.problems > 0) throw new Error(`${result.problems} problems in a good log`);
    return result;
  };
  const usual = await verify(USUAL_BYTES, 0);
  const small = await verify(SMALL_BYTES, LARGE_COMMAND_BYTES);
  const large = await verify(LARGE_BYTES, LARGE_COMMAND_BYTES);
  return [appendRow(append), speedRow(usual), memoryRow(large, small)];
}

/** Runs one of the programs beside this file, which may touch nothing but the folder. */
async function child<T>(dir: string, program: string, args: readonly string[]): Promise<T> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...[
        "run",
        "--no-prompt",
        "--cached-only",
        "--ignore-env",
        `--allow-read=${dir}`,
        `--allow-write=${dir}`,
      ],
      `${ROOT}tests/bench/${program}`,
      ...args,
    ],
    stdin: "null",
    env: { NO_COLOR: "1" },
  }).output();
  if (!success) throw new Error(`${program} failed:\n${new TextDecoder().decode(stderr)}`);
  const text = new TextDecoder().decode(stdout);
  return JSON.parse(text === "" ? "null" : text);
}

function appendRow({ appended, bare, lineBytes }: AppendRates): Row {
  const rate = median(appended);
  const ratio = median(appended.map((value, round) => value / (bare[round] ?? NaN)));
  return {
    what: "audit, durable records, 16 appenders",
    measured: `${rate.toFixed(0)}/s`,
    baseline: `${median(bare).toFixed(0)}/s bare write and fdatasync of 16 lines of ${lineBytes} bytes`,
    ratio: ratio.toFixed(2),
    target: "at least 2000/s or 0.5",
    met: rate >= 2000 || ratio >= 0.5,
  };
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
  return {
    what: `audit verify of 1 GiB, ${
      (LARGE_BYTES / large.entries / 1024).toFixed(1)
    } KiB a record, most memory`,
    measured: `${mb(large.most)} (${(LARGE_BYTES / 1e6 / large.seconds).toFixed(0)} MB/s)`,
    baseline: `${mb(small.most)} for 256 MiB, ${mb(large.before)} before`,
    ratio: (large.most / small.most).toFixed(2),
    target: `constant (within ${mb(MAX_GROWTH_BYTES)})`,
    met: large.most - small.most < MAX_GROWTH_BYTES,
  };
}
