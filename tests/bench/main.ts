/**
 * `deno task bench [section …]`: measures speed and memory of services, as ratios to baselines of the same run. Without
 * arguments all sections run. The exit code is 1 if a target is missed, and 2 for an unknown section.
 *
 * @module
 */
import { benchApprovals } from "./approval_bench.ts";
import { benchAudit } from "./audit_bench.ts";
import { benchDebateCapacity } from "./debate_capacity_bench.ts";
import { benchDebateEngine } from "./debate_engine_bench.ts";
import { benchDebatePage } from "./debate_page_bench.ts";
import { benchFootprint } from "./footprint_bench.ts";
import { createInstalledStage, createStage, formatTable, type Row, type Section } from "./harness.ts";
import { benchKrl } from "./krl_bench.ts";
import { benchKubernetes } from "./kubernetes_bench.ts";
import { benchSessions } from "./session_bench.ts";
import { benchSign } from "./sign_bench.ts";
import { benchReload, benchSignPressure } from "./sign_pressure_bench.ts";
import { benchSshRun } from "./ssh_run_bench.ts";

const SECTIONS: Readonly<Record<string, Section>> = {
  async footprint({ dir }) {
    await using stage = await createInstalledStage(dir, ["signer", "broker"]);
    return await benchFootprint(stage);
  },
  async sign({ dir, say }) {
    await using stage = await createInstalledStage(dir, ["signer"]);
    const signer = await stage.startSigner();
    const rows = [...await benchSign(stage)];
    say("  more connections, grants, memory …");
    rows.push(...await benchSignPressure(stage, signer));
    await signer.stop();
    say("  reloads …");
    return [...rows, ...await benchReload(stage)];
  },
  krl: benchKrl,
  kubernetes: benchKubernetes,
  ssh_run: benchSshRun,
  async sessions({ dir }) {
    await using stage = await createStage(dir, { signer: [{ path: ["group_command_policies"], value: {} }] });
    await stage.startSigner();
    return await benchSessions(stage);
  },
  audit: benchAudit,
  approvals: benchApprovals,
  debate_capacity: benchDebateCapacity,
  debate_engine: () => benchDebateEngine(),
  debate_page: benchDebatePage,
};

function say(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(`${text}\n`));
}

async function run(name: string, section: Section): Promise<readonly Row[]> {
  const dir = await Deno.makeTempDir({ prefix: "gateway-bench-" });
  say(`${name} …`);
  const from = performance.now();
  try {
    return await section({ dir, say });
  } finally {
    await Deno.remove(dir, { recursive: true });
    say(`${name}: ${((performance.now() - from) / 1000).toFixed(0)} s`);
  }
}

const known = Object.keys(SECTIONS).join(", ");
if (Deno.args.includes("--help") || Deno.args.includes("-h")) {
  const help = `Usage: deno task bench [section …]\n\nSections (default: all): ${known}\n`;
  Deno.stdout.writeSync(new TextEncoder().encode(help));
  Deno.exit(0);
}
const names = Deno.args.length === 0 ? Object.keys(SECTIONS) : Deno.args;
const unknown = names.filter((name) => !Object.hasOwn(SECTIONS, name));
if (unknown.length > 0) {
  say(
    `Cannot run section ${unknown.map((name) => JSON.stringify(name)).join(", ")}: there are only ${known}`,
  );
  Deno.exit(2);
}
const rows: Row[] = [];
for (const name of names) {
  const section = SECTIONS[name];
  if (section !== undefined) rows.push(...await run(name, section));
}
Deno.stdout.writeSync(new TextEncoder().encode(`${formatTable(rows)}\n`));
Deno.exit(rows.every((row) => row.met) ? 0 : 1);
