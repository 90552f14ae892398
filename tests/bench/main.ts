/**
 * `deno task bench`: speed and memory of whole services, as ratios against baselines measured in the same run.
 * Exit code 1 when a target is missed.
 *
 * @module
 */
import { editConfig, Stage } from "../stage/stage.ts";
import { benchFootprint } from "./footprint_bench.ts";
import { benchPolicy } from "./policy_bench.ts";
import { formatTable, type Row } from "./row.ts";
import { benchSign } from "./sign_bench.ts";
import { benchSshRun } from "./ssh_run_bench.ts";

function say(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(`${text}\n`));
}

async function measure(dir: string): Promise<readonly Row[]> {
  await using stage = await Stage.create({ dir });
  // A limit would be what is measured.
  await editConfig(stage.init.signer_config, [{ path: ["sign_rate_limit_per_min"] }]);
  say("start-up and idle memory …");
  const footprint = await benchFootprint(stage);
  const signer = await stage.startSigner();
  say("sign …");
  const sign = await benchSign(stage);
  await stage.startBroker();
  say("ssh_run …");
  const sshRun = await benchSshRun(stage);
  say("policy …");
  const policy = benchPolicy();
  const loaded = (await signer.residentBytes()) / 1e6;
  say(`(signer after the load: ${loaded.toFixed(0)} MB)`);
  return [...sign, ...sshRun, ...policy, ...footprint];
}

const dir = await Deno.makeTempDir({ prefix: "gateway-bench-" });
try {
  const rows = await measure(dir);
  Deno.stdout.writeSync(new TextEncoder().encode(`${formatTable(rows)}\n`));
  Deno.exitCode = rows.every((row) => row.met) ? 0 : 1;
} finally {
  await Deno.remove(dir, { recursive: true });
}
Deno.exit();
