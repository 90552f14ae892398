import assert from "node:assert/strict";
import { openSqliteStore } from "../../signer/live/state/store.ts";
import { availableKinds } from "../ssh_target/target.ts";
import { KrlHost, mayNotPull } from "../stage/krl_host.ts";
import { poll } from "../stage/poll.ts";
import { logIn, LOGIN_REFUSED as REFUSED, type Loot, steal } from "../stage/leaky_broker.ts";
import type { ServiceProcess } from "../stage/service_process.ts";
import { HOST, runBrokerCtl, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

const ignore = mayNotPull || !availableKinds().includes("openssh");

async function ctl({ init }: Stage, ...args: readonly string[]): Promise<string> {
  const output = await runBrokerCtl([...args, "--client-config", init.client_config], init.folder);
  const text = new TextDecoder().decode(output.success ? output.stdout : output.stderr);
  assert.ok(output.success, text);
  return text;
}

/** A certificate that a signer, killed at once, has recorded and not stored. */
async function stealAndKill(stage: Stage, first: ServiceProcess): Promise<Loot> {
  for (let signer = first;; signer = await stage.startSigner()) {
    const loot = await steal(stage, "late");
    await signer.stop("SIGKILL");
    const store = openSqliteStore({ path: `${stage.init.folder}/state/signer.db`, warn() {} });
    const stored = (await store.loadCertificates(Date.now())).flatMap(({ serials }) => serials);
    await store.close();
    if (!stored.includes(loot.serial)) return loot;
  }
}

Deno.test({
  name: "a stolen session certificate is refused by sshd after a freeze, and no other one is",
  ignore,
}, () =>
  withStage({ targetKind: "openssh", revokedKeys: true }, async (stage) => {
    await KrlHost.enrol(stage);
    let signer = await stage.startSigner();
    await using host = await KrlHost.start(stage);
    const stolen = await steal(stage, "mallory");
    const innocent = await steal(stage, "alice");
    assert.deepEqual([await logIn(stage, stolen), await logIn(stage, innocent)], ["in", "in"]);

    const frozen = await ctl(stage, "freeze", "--end-user", "mallory", "--reason", "INC-7", "--wait");
    assert.match(frozen, /^frozen end_user=mallory \(grants revoked: 0, certificates revoked: 1\)$/m);
    assert.match(frozen, new RegExp(`^holds: ${HOST} \\(${HOST}\\.krl\\)$`, "m"));
    assert.match(await logIn(stage, stolen), REFUSED);
    assert.equal(await logIn(stage, innocent), "in");
    assert.match(
      await ctl(stage, "host", "list", "--remote"),
      /^revocation list of web01: version \d+, in force/m,
    );

    await ctl(stage, "unfreeze", "--end-user", "mallory");
    assert.match(await logIn(stage, stolen), REFUSED, "an unfreeze does not bring it back");

    const before = await host.version();
    const late = await stealAndKill(stage, signer);
    signer = await stage.startSigner();
    await poll(async () => await host.version() > before, {
      what: "the list of the signer that was started again",
    });
    assert.match(await logIn(stage, stolen), REFUSED, "nor does a signer that was killed");

    assert.equal(await logIn(stage, late), "in");
    const lateFrozen = await ctl(stage, "freeze", "--end-user", "late", "--wait");
    assert.match(
      lateFrozen,
      /certificates revoked: 1\)$/m,
      "the audit log tells what the killed one had no time to store",
    );
    assert.match(await logIn(stage, late), REFUSED);

    await ctl(stage, "revoke", "--serial", innocent.serial.toString(), "--wait");
    assert.match(await logIn(stage, innocent), REFUSED, "by its serial, exact in 64 bits");
    await signer.stop();
    assert.match(await logIn(stage, stolen), REFUSED, "the host keeps its list while the signer is away");
  }));
