import assert from "node:assert/strict";
import { fill, makeRoom, mayNotMount as ignore, TinyDisk } from "../adapters/tiny_disk.ts";
import { assertLogVerifies, metricOf } from "../stage/audit.ts";
import { HOST, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

interface Answer {
  readonly detail?: string;
  readonly exit_code?: number;
}

async function runUptime(stage: Stage): Promise<{ readonly status: number; readonly detail: string }> {
  const client = await stage.brokerClient();
  const { status, body } = await client.request({
    method: "POST",
    path: "/v1/ssh_run",
    body: { host: HOST, command: "uptime" },
  });
  return { status, detail: (body as Answer).detail ?? "" };
}

/** The log's last page still takes records after the disk is full: asks until it does not. */
async function runUntilRefused(stage: Stage): Promise<{ readonly status: number; readonly detail: string }> {
  for (let attempt = 0; attempt < 20; attempt++) {
    const answer = await runUptime(stage);
    if (answer.status !== 200) return answer;
  }
  throw new Error("the full disk took 20 records");
}

Deno.test(
  { name: "a signer whose audit disk is full issues nothing (closed), and recovers (needs root)", ignore },
  async () => {
    await using disk = await TinyDisk.mount("size=64k");
    const log = `${disk.folder}/audit.log`;
    await withStage({ signer: [{ path: ["audit_log"], value: log }] }, async (stage) => {
      const signer = await stage.startSigner();
      await stage.startBroker();
      assert.equal((await runUptime(stage)).status, 200);
      fill(`${disk.folder}/filler`);
      const refused = await runUntilRefused(stage);
      const outOfOrder = { status: 502, detail: "upstream failure" };
      assert.deepEqual(refused, outOfOrder, "what is wrong with the signer does not concern the agent");
      assert.ok(await metricOf(signer, "audit_blocked_total") >= 1);
      assert.ok(await metricOf(signer, "audit_append_failures_total") >= 1);
      makeRoom(`${disk.folder}/filler`);
      assert.equal((await runUptime(stage)).status, 200);
      await assertLogVerifies(log, stage.init.signer_audit_key);
    });
  },
);

Deno.test(
  {
    name: "a broker whose audit disk is full withholds the output (closed), and recovers (needs root)",
    ignore,
  },
  async () => {
    await using disk = await TinyDisk.mount("size=64k");
    const log = `${disk.folder}/audit.log`;
    await withStage({ broker: [{ path: ["audit_log"], value: log }] }, async (stage) => {
      await stage.startSigner();
      const broker = await stage.startBroker();
      fill(`${disk.folder}/filler`);
      const refused = await runUntilRefused(stage);
      assert.deepEqual(refused, { status: 500, detail: "audit unavailable" });
      assert.ok(await metricOf(broker, "audit_blocked_total") >= 1);
      makeRoom(`${disk.folder}/filler`);
      assert.equal((await runUptime(stage)).status, 200);
      await assertLogVerifies(log, stage.init.broker_audit_key);
    });
  },
);

Deno.test(
  { name: "in fail mode open a full audit disk stops nobody, and is counted (needs root)", ignore },
  async () => {
    await using disk = await TinyDisk.mount("size=64k");
    const edits = [
      { path: ["audit_log"], value: `${disk.folder}/audit.log` },
      { path: ["audit_fail_mode"], value: "open" },
    ];
    await withStage({ signer: edits }, async (stage) => {
      const signer = await stage.startSigner();
      await stage.startBroker();
      fill(`${disk.folder}/filler`);
      for (
        let attempt = 0;
        attempt < 20 && await metricOf(signer, "audit_append_failures_total") === 0;
        attempt++
      ) {
        assert.equal((await runUptime(stage)).status, 200);
      }
      assert.ok(await metricOf(signer, "audit_append_failures_total") >= 1);
      assert.equal(await metricOf(signer, "audit_blocked_total"), 0);
      assert.match(signer.log, /Cannot append audit record/);
    });
  },
);
