import { fileURLToPath } from "node:url";
import { SAMPLE_HOST_KEY } from "../../shared/testing/sample_policy.ts";
import { addLargePolicy } from "./large_stage.ts";
import { childrenSeconds } from "./processor_times.ts";
import type { Row } from "./row.ts";
import { createStage, type SectionContext } from "./section.ts";
import { median } from "./statistics.ts";
import { timed } from "./timed.ts";

const RUNS = 5;
const BROKER_CTL = fileURLToPath(new URL("../../ctl/main.ts", import.meta.url));

/** The operator's tool where there are 10,000 hosts, from its start to its end. */
export async function benchOperator({ dir }: SectionContext): Promise<readonly Row[]> {
  await using stage = await createStage(dir);
  const config = stage.init.signer_config;
  await addLargePolicy(config);
  const ctl = async (...args: readonly string[]): Promise<string> => {
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--quiet", "--no-prompt", "--cached-only", "--no-check", "-P=broker-ctl", BROKER_CTL],
        ...[...args, "--config", config],
      ],
      stderr: "null",
    }).output();
    return new TextDecoder().decode(stdout);
  };
  const row = async (what: string, targetMs: number, run: (round: number) => Promise<void>): Promise<Row> => {
    const times: number[] = [];
    const before = await childrenSeconds();
    for (let round = 0; round < RUNS; round++) times.push(await timed(() => run(round)));
    const busy = (await childrenSeconds() - before) * 1000 / RUNS;
    const most = Math.max(...times);
    return {
      what: `10,000 hosts, broker-ctl ${what}, longest of ${RUNS}`,
      measured: `${most.toFixed(0)} ms, median ${median(times).toFixed(0)}, processor ${busy.toFixed(0)}`,
      baseline: "",
      ratio: "",
      target: `under ${targetMs} ms`,
      met: most < targetMs,
    };
  };
  const mustSay = (text: string, said: string) => {
    if (!said.includes(text)) throw new Error(`broker-ctl said ${JSON.stringify(said)}`);
  };
  return [
    await row("host add", 1000, async (round) => {
      const host = [
        "--name",
        `new${round}`,
        "--addr",
        "10.200.0.1:22",
        "--user",
        "deploy",
        "--groups",
        "all",
      ];
      mustSay(`"new${round}" added`, await ctl("host", "add", ...host, "--host-key", SAMPLE_HOST_KEY));
    }),
    await row("host remove", 1000, async (round) => {
      mustSay("removed", await ctl("host", "remove", `new${round}`));
    }),
    await row("doctor, offline", 3000, async () => mustSay(" FAIL\n", await ctl("doctor"))),
  ];
}
