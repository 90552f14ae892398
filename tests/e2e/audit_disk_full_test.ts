import assert from "node:assert/strict";
import { diskTest, fill, makeRoom, TinyDisk } from "../adapters/tiny_disk.ts";
import { assertLogVerifies, metricOf, recordsOf } from "../stage/audit.ts";
import { HOST, post, runBrokerCtl, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { signBody } from "../bench/sign_request.ts";
import { poll } from "../stage/poll.ts";
import { createFolder } from "../stage/folder.ts";

interface Answer {
  readonly detail?: string;
  readonly exit_code?: number;
}

async function runUptime(stage: Stage): Promise<{ readonly status: number; readonly detail: string }> {
  const client = await stage.brokerClient();
  const { status, body } = await post(client, "/v1/ssh_run", { host: HOST, command: "uptime" });
  return { status, detail: (body as Answer).detail ?? "" };
}

/** The log's last page accepts records after the disk is full: sends requests until one is denied. */
async function runUntilRefused(stage: Stage): Promise<{ readonly status: number; readonly detail: string }> {
  for (let attempt = 0; attempt < 20; attempt++) {
    const answer = await runUptime(stage);
    if (answer.status !== 200) return answer;
  }
  throw new Error("the full disk took 20 records");
}

diskTest("a signer whose audit disk is full issues nothing (closed), and recovers", async () => {
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
});

diskTest("a broker whose audit disk is full withholds the output (closed), and recovers", async () => {
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
});

diskTest("in fail mode open a full audit disk stops nobody, and is counted", async () => {
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
});

const FORGED = '{"outcome":"forged"}\n';

interface Fault {
  readonly name: string;
  readonly breakLog: (log: string) => void;
  readonly repair: (log: string) => void;
}

/** Breaks the logs of a signer and a control plane, checks `/readyz` before any request, and repairs them. */
async function assertReadyAgain(folder: string, faults: readonly Fault[]): Promise<void> {
  const logs = ["signer", "control-plane"].map((service) => `${folder}/${service}/audit.log`);
  for (const service of ["signer", "control-plane"]) await Deno.mkdir(`${folder}/${service}`);
  const logAt = (index: number) => [{ path: ["audit_log"], value: logs[index] }];
  await withStage({ controlPlane: true, signer: logAt(0), controlPlaneConfig: logAt(1) }, async (stage) => {
    const services = [await stage.startSigner(), await stage.startControlPlane()];
    const client = await stage.controlPlaneClient("broker");
    const sign = () => post(client, "/v1/sign", JSON.parse(signBody()));
    const looks = services.flatMap((service, index) => faults.map((fault) => ({ service, index, ...fault })));
    for (const { service, index, name, breakLog, repair } of looks) {
      const log = logs[index] ?? "";
      const readiness = async () => {
        const response = await fetch(`http://${service.command.monitor}/readyz`);
        await response.body?.cancel();
        return response.status;
      };
      assert.equal((await sign()).status, 200);
      breakLog(log);
      await poll(async () => await readiness() === 503, {
        what: `the service of ${log}, which ${name}, not to be ready`,
      });
      if (index === 0) {
        // The last page of a log on a full disk has room for some records.
        await poll(async () => (await sign()).status >= 500, {
          what: `the signer, whose log ${name}, to withhold a certificate`,
        });
      }
      repair(log);
      await poll(async () => await readiness() === 200, { what: `the service of ${log} to be ready again` });
      assert.equal((await sign()).status, 200);
    }
  });
}

Deno.test("a service whose audit log is moved or changed by another process is not ready until the repair", async () => {
  await using folder = await createFolder();
  await assertReadyAgain(folder.path, [
    {
      name: "is moved",
      breakLog: (log) => Deno.renameSync(log, `${log}.away`),
      repair: (log) => Deno.renameSync(`${log}.away`, log),
    },
    {
      name: "contains bytes of another process",
      breakLog: (log) => Deno.writeTextFileSync(log, FORGED, { append: true }),
      repair: (log) => Deno.truncateSync(log, Deno.statSync(log).size - FORGED.length),
    },
  ]);
});

diskTest("a service whose audit log is on a full disk is not ready, until there is room", async () => {
  await using disk = await TinyDisk.mount("size=256k");
  const filler = `${disk.folder}/filler`;
  await assertReadyAgain(disk.folder, [{
    name: "is on a full disk",
    breakLog: () => fill(filler),
    repair: () => makeRoom(filler),
  }]);
});

const SUBJECT = { kind: "caller", value: "broker-local" };
const HOUR = { allow: ["^id$"], ttl_seconds: 3600 };

/** A stage whose signer stores its state on a separate disk. */
async function withStateDisk(test: (stage: Stage, ballast: string) => Promise<void>): Promise<void> {
  await using disk = await TinyDisk.mount("size=256k");
  const edit = { path: ["state_db"], value: `${disk.folder}/state.db` };
  await withStage({ signer: [edit] }, (stage) => test(stage, `${disk.folder}/ballast`));
}

async function brokerCtl(stage: Stage, ...args: readonly string[]) {
  const { stdout, stderr, code } = await runBrokerCtl(
    [...args, "--client-config", stage.init.client_config],
    "/",
  );
  const decoder = new TextDecoder();
  return { out: decoder.decode(stdout), err: decoder.decode(stderr), code };
}

async function hostsStatus(stage: Stage): Promise<number> {
  const client = await stage.signerClient("broker");
  return (await client.request({ method: "GET", path: "/v1/hosts" })).status;
}

diskTest(
  "a freeze on a full disk is in force at once, says that a restart undoes it, and is stored once there is room",
  () =>
    withStateDisk(async (stage, ballast) => {
      const signer = await stage.startSigner();
      assert.equal(await hostsStatus(stage), 200);
      fill(ballast);
      const frozen = await brokerCtl(stage, "freeze", "--caller", SUBJECT.value);
      assert.match(
        frozen.out,
        /^frozen caller=broker-local [^]*\nnot stored: in force until the signer restarts/,
      );
      assert.deepEqual([frozen.err, frozen.code], ["", 1]);
      assert.equal(await hostsStatus(stage), 403);
      const operator = await stage.signerClient("operator");
      const again = await post(operator, "/v1/freeze", SUBJECT);
      assert.deepEqual([again.status, (again.body as { persisted?: boolean }).persisted], [200, false]);
      makeRoom(ballast);
      await poll(() => signer.log.includes("freeze persisted"), {
        what: "the second attempt",
      });
      await signer.stop("SIGKILL");
      await stage.startSigner();
      assert.equal(await hostsStatus(stage), 403, "a restart leaves it");
      const lifted = await brokerCtl(stage, "unfreeze", "--caller", SUBJECT.value);
      assert.deepEqual([lifted.out, lifted.code], ["unfrozen caller=broker-local\n", 0]);
      assert.equal(await hostsStatus(stage), 200);
    }),
);

diskTest(
  "what a full disk does not let happen is taken back in the audit log: freeze, unfreeze, grant, revocation",
  () =>
    withStateDisk(async (stage, ballast) => {
      await stage.startSigner();
      const operator = await stage.signerClient("operator");
      const granted = await operator.request({
        ...{ method: "POST", path: `/v1/policy/hosts/${HOST}/grants`, body: HOUR },
      });
      assert.equal(granted.status, 201, granted.text);
      const { id } = granted.body as { readonly id: string };
      const frozen = { kind: "end_user", value: "mallory" };
      assert.equal(
        (await post(operator, "/v1/freeze", frozen)).status,
        200,
      );
      fill(ballast);
      const before = (await recordsOf(stage.init.signer_audit_log)).length;
      const statuses = [
        await post(operator, "/v1/freeze", SUBJECT),
        await post(operator, "/v1/unfreeze", frozen),
        await post(operator, `/v1/policy/hosts/${HOST}/grants`, HOUR),
        await operator.request({ method: "DELETE", path: `/v1/policy/grants/${id}` }),
      ].map(({ status }) => status);
      assert.deepEqual(statuses, [200, 500, 500, 500]);
      const listed = await operator.request({ method: "GET", path: "/v1/policy/grants" });
      assert.deepEqual((listed.body as readonly { id: string }[]).map((grant) => grant.id), [id]);
      const said = (await recordsOf(stage.init.signer_audit_log)).slice(before);
      assert.deepEqual(said.map(({ outcome }) => outcome), [
        ...["frozen", "policy-failed", "unfrozen", "policy-failed"],
        ...["grant-created", "grant-failed", "grant-revoked", "grant-failed"],
      ]);
      for (const [index, record] of said.entries()) {
        if (index % 2 === 0) continue;
        assert.equal(record["command"], said[index - 1]?.["command"], "of the same change");
        assert.match(String(record["err"]), /in force|nothing has changed|not granted/);
        assert.match(String(record["err"]), /disk is full/);
      }
      await assertLogVerifies(stage.init.signer_audit_log, stage.init.signer_audit_key);
    }),
);
