/**
 * `deno task bench [section …]`: speed and memory of whole services, as ratios against baselines measured in the
 * same run. Without arguments all sections run. Exit code 1 when a target is missed, 2 for an unknown section.
 *
 * @module
 */
import { benchApprovals } from "./approval_bench.ts";
import { benchAudit } from "./audit_bench.ts";
import { benchCluster } from "./cluster_bench.ts";
import { benchClusterSign } from "./cluster_sign_bench.ts";
import { benchDebateEngine } from "./debate_engine_bench.ts";
import { benchDebatePage } from "./debate_page_bench.ts";
import { benchDebateWeb } from "./debate_web_bench.ts";
import { benchFootprint } from "./footprint_bench.ts";
import { benchFreeze } from "./freeze_bench.ts";
import { benchGuardrails } from "./guardrails_bench.ts";
import { benchKrl } from "./krl_bench.ts";
import { benchKubernetes } from "./kubernetes_bench.ts";
import { benchManySessions } from "./many_sessions_bench.ts";
import { benchOperator } from "./operator_bench.ts";
import { benchPolicy } from "./policy_bench.ts";
import { formatTable, type Row } from "./row.ts";
import { benchScale } from "./scale_bench.ts";
import { benchSealed } from "./sealed_bench.ts";
import { createInstalledStage, createStage, type Section } from "./section.ts";
import { benchSessions } from "./session_bench.ts";
import { benchSign } from "./sign_bench.ts";
import { benchReload, benchSignPressure } from "./sign_pressure_bench.ts";
import { benchSshRun } from "./ssh_run_bench.ts";
import { benchToolCalls } from "./tool_calls_bench.ts";
import { benchTransfer } from "./transfer_bench.ts";
import { HOST } from "../stage/stage.ts";
import { benchControlPlane } from "./control_plane_bench.ts";

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
  sealed: benchSealed,
  ssh_run: benchSshRun,
  async transfer({ dir }) {
    await using stage = await createStage(dir, {
      signer: [
        { path: ["group_command_policies"], value: {} },
        { path: ["hosts", HOST, "allow_file_transfer"], value: true },
      ],
    });
    await stage.startSigner();
    return await benchTransfer(stage);
  },
  async sessions({ dir }) {
    await using stage = await createStage(dir, { signer: [{ path: ["group_command_policies"], value: {} }] });
    await stage.startSigner();
    return await benchSessions(stage);
  },
  async many_sessions({ dir }) {
    await using stage = await createStage(dir, { signer: [{ path: ["group_command_policies"], value: {} }] });
    await stage.startSigner();
    return await benchManySessions(stage);
  },
  async tool_calls({ dir }) {
    await using stage = await createStage(dir, { signer: [{ path: ["group_command_policies"], value: {} }] });
    await stage.startSigner();
    return await benchToolCalls(stage);
  },
  control_plane: benchControlPlane,
  policy: () => Promise.resolve(benchPolicy()),
  scale: benchScale,
  operator: benchOperator,
  audit: benchAudit,
  freeze: benchFreeze,
  cluster: benchCluster,
  cluster_sign: benchClusterSign,
  approvals: benchApprovals,
  guardrails: () => benchGuardrails(),
  debate_engine: () => benchDebateEngine(),
  debate_web: benchDebateWeb,
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

const names = Deno.args.length === 0 ? Object.keys(SECTIONS) : Deno.args;
const unknown = names.filter((name) => !Object.hasOwn(SECTIONS, name));
if (unknown.length > 0) {
  say(
    `Cannot run section ${unknown.map((name) => JSON.stringify(name)).join(", ")}: there are only ${
      Object.keys(SECTIONS).join(", ")
    }`,
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
