import assert from "node:assert/strict";
import { fill, makeRoom, mayNotMount as ignore, TinyDisk } from "../adapters/tiny_disk.ts";
import { assertLogVerifies, recordsOf } from "../stage/audit.ts";
import { poll } from "../stage/poll.ts";
import { HOST, runBrokerCtl, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

const SUBJECT = { kind: "caller", value: "broker-local" };
const HOUR = { allow: ["^id$"], ttl_seconds: 3600 };

/** A stage whose signer keeps its state on a disk of its own, and all else elsewhere. */
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

Deno.test({
  name:
    "a freeze on a full disk is in force at once, says that a restart undoes it, and is stored once there is room (needs root)",
  ignore,
  fn: () =>
    withStateDisk(async (stage, ballast) => {
      const signer = await stage.startSigner();
      assert.equal(await hostsStatus(stage), 200);
      fill(ballast);
      const frozen = await brokerCtl(stage, "freeze", "--caller", SUBJECT.value);
      assert.match(
        frozen.out,
        /^frozen caller=broker-local [^]*\nnot stored: [^]* restart of the signer undoes it/,
      );
      assert.deepEqual([frozen.err, frozen.code], ["", 1]);
      assert.equal(await hostsStatus(stage), 403);
      const operator = await stage.signerClient("operator");
      const again = await operator.request({ method: "POST", path: "/v1/freeze", body: SUBJECT });
      assert.deepEqual([again.status, (again.body as { persisted?: boolean }).persisted], [200, false]);
      makeRoom(ballast);
      await poll(() => signer.log.includes("the store has taken a freeze now"), {
        what: "the second attempt",
      });
      await signer.stop("SIGKILL");
      await stage.startSigner();
      assert.equal(await hostsStatus(stage), 403, "a restart leaves it");
      const lifted = await brokerCtl(stage, "unfreeze", "--caller", SUBJECT.value);
      assert.deepEqual([lifted.out, lifted.code], ["unfrozen caller=broker-local\n", 0]);
      assert.equal(await hostsStatus(stage), 200);
    }),
});

Deno.test({
  name:
    "what a full disk does not let happen is taken back in the audit log: freeze, unfreeze, grant, revocation (needs root)",
  ignore,
  fn: () =>
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
        (await operator.request({ method: "POST", path: "/v1/freeze", body: frozen })).status,
        200,
      );
      fill(ballast);
      const before = (await recordsOf(stage.init.signer_audit_log)).length;
      const statuses = [
        await operator.request({ method: "POST", path: "/v1/freeze", body: SUBJECT }),
        await operator.request({ method: "POST", path: "/v1/unfreeze", body: frozen }),
        await operator.request({ method: "POST", path: `/v1/policy/hosts/${HOST}/grants`, body: HOUR }),
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
});
