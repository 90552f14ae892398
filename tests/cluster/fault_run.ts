/** One run of a cluster with faults, and the check of its results. */
import assert from "node:assert/strict";
import { parseJson } from "@gateway/shared/json";
import { poll } from "../stage/poll.ts";
import { runBrokerCtl, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { findApprovalContradictions } from "./approval_checker.ts";
import { findContradictions } from "./checker.ts";
import { Cluster, GATE } from "./cluster.ts";
import { breakThings } from "./faults.ts";
import { formatReport } from "./fault_report.ts";
import { clientOf, type Member } from "./signers.ts";
import { pause, Workload } from "./workload.ts";

export interface FaultRunOptions {
  readonly rounds: number;
  readonly clocks: boolean;
  readonly say?: (text: string) => void;
}

/**
 * Runs the given number of fault rounds and returns the report.
 *
 * @throws on a contradiction or a lost change
 */
export async function runFaults({ rounds, clocks, say = () => {} }: FaultRunOptions): Promise<string> {
  let report = "";
  await withStage({ controlPlane: true, signer: [GATE] }, async (stage) => {
    await using cluster = await Cluster.start(stage);
    const workload = new Workload(await cluster.clients());
    workload.start();
    await pause(500);
    const counts = await breakThings(cluster, {
      rounds,
      clocks,
      say: (round) => round % 20 === 0 && say(`round ${round}: ${workload.freezes.length} freezes asked for`),
    });
    for (const instance of cluster.instances) await cluster.isReady(instance);
    // Whether there are enough answers for a check, even on a busy machine.
    const hasSeen = () =>
      workload.reasons.length >= 5 && workload.serials.length >= 10 && workload.decided.length > 0;
    await poll(hasSeen, { what: "freezes, certificates and decisions" });
    await workload.end();
    report = formatReport(workload, counts);
    assert.deepEqual(
      [...findContradictions(workload), ...findApprovalContradictions(workload.approvals)],
      [],
    );
    const of = (members: readonly { readonly member: Member }[]) => members.map(({ member }) => member);
    await checkGrants(stage, of(cluster.signers), workload);
    await checkAudit(stage, of(cluster.signers), of(cluster.controlPlanes), workload);
  });
  return report;
}

/** Acknowledged changes are present at each signer, and revoked ones are absent. */
async function checkGrants(stage: Stage, signers: readonly Member[], workload: Workload): Promise<void> {
  for (const member of signers) {
    const operator = await clientOf(stage, member, "operator");
    const { body } = await operator.request({ method: "GET", path: "/v1/policy/grants" });
    const ids = new Set((body as readonly { readonly id: string }[]).map(({ id }) => id));
    assert.deepEqual([...workload.grants.difference(ids)], [], "grants that are lost");
    assert.deepEqual([...workload.revoked.intersection(ids)], [], "grants that are back");
  }
}

/** Each acknowledged action has an audit record. The record of a certificate is in exactly one log. */
async function checkAudit(
  stage: Stage,
  signers: readonly Member[],
  controlPlanes: readonly Member[],
  { serials, reasons, decided }: Workload,
): Promise<void> {
  const issued = new Map<bigint, number>();
  const [frozen, approvals] = [new Set<string>(), new Set<string>()];
  for (const { auditLog, auditKey } of [...signers, ...controlPlanes]) {
    const verified = await runBrokerCtl(
      ["audit", "verify", "--all", "--log", auditLog, "--key", auditKey],
      stage.init.folder,
    );
    const text = new TextDecoder().decode(verified.stdout) + new TextDecoder().decode(verified.stderr);
    assert.match(text, /^OK: \d+ entries, chain intact.*all signatures valid/);
    for (const line of (await Deno.readTextFile(auditLog)).trimEnd().split("\n")) {
      const { outcome, serial, command, approval_id } = parseJson(line) as {
        readonly outcome: string;
        readonly serial: bigint | number;
        readonly command: string;
        readonly approval_id: string;
      };
      if (outcome === "issued") issued.set(BigInt(serial), (issued.get(BigInt(serial)) ?? 0) + 1);
      if (outcome === "frozen") frozen.add(/ reason=(\S+)/.exec(command)?.[1] ?? "");
      if (/^approval-(?:decision-allow|denied)/.test(outcome)) approvals.add(approval_id);
    }
  }
  assert.deepEqual(
    serials.filter((serial) => issued.get(serial) !== 1),
    [],
    "certificates not recorded once",
  );
  assert.equal(new Set(serials).size, serials.length, "each serial is handed out once");
  assert.deepEqual(reasons.filter((reason) => !frozen.has(reason)), [], "freezes without a record");
  assert.deepEqual(decided.filter((id) => !approvals.has(id)), [], "decisions without a record");
}
