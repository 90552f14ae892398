/** What services say of files that other users of the machine may read or write: real processes, real modes. */
import assert from "node:assert/strict";
import { LocalScene } from "./local_scene.ts";
import { signerCommand } from "../stage/service_command.ts";
import { runBrokerCtl, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { ServiceProcess } from "../stage/service_process.ts";

/** The keys of what a service warned of, with what others may do. */
function exposed({ log }: { readonly log: string }): readonly string[] {
  return [...log.matchAll(/([\w.]+|the config) \\?"[^"]*": other users may ([a-z ]+) it/g)]
    .map(([, key, may]) => `${key}: ${may}`).sort();
}

async function startAll(stage: Stage) {
  const signer = await stage.startSigner();
  const controlPlane = await stage.startControlPlane();
  const broker = await stage.startBroker();
  return { signer, controlPlane, broker };
}

Deno.test("services that init set up warn of no file", () =>
  withStage({ controlPlane: true }, async (stage) => {
    for (const service of Object.values(await startAll(stage))) {
      assert.deepEqual(exposed(service), []);
      assert.doesNotMatch(service.log, /other users/);
    }
  }));

Deno.test("services warn at the start of each secret and config that others may read or write", () =>
  withStage({ controlPlane: true }, async (stage) => {
    const { folder } = stage.init;
    const modes = {
      "signer.json": 0o644,
      "control-plane.json": 0o660,
      "config.json": 0o666,
      "pki/ssh_ca": 0o604,
      "pki/signer.key": 0o644,
      "pki/signer_audit.seed": 0o622,
      "pki/control-plane.key": 0o606,
      "pki/control-plane-client.key": 0o644,
      "pki/control_plane_audit.seed": 0o644,
      "pki/broker-server.key": 0o644,
      "pki/broker.key": 0o620,
      "pki/broker_audit.seed": 0o644,
      "pki/mtls_ca.crt": 0o646,
    };
    for (const [path, mode] of Object.entries(modes)) await Deno.chmod(`${folder}/${path}`, mode);
    const { signer, controlPlane, broker } = await startAll(stage);
    assert.deepEqual(exposed(signer), [
      "audit_key: write",
      "ca_key: read",
      "client_ca: write",
      "server_key: read",
      "the config: read",
    ]);
    assert.deepEqual(exposed(controlPlane), [
      "audit_key: read",
      "client_ca: write",
      "server_key: read and write",
      "signer.ca: write",
      "signer.client_key: read",
      "the config: write",
    ]);
    assert.deepEqual(exposed(broker), [
      "audit_key: read",
      "client_ca: write",
      "server_key: read",
      "signer.ca: write",
      "signer.client_key: write",
      "the config: read and write",
    ]);
  }));

const REFUSED = /Cannot use ca_key ".*\/ssh_ca": other users may write to it \(mode 0620\); chmod 600 it/;

Deno.test("a signer does not start with a CA key that others may write to, and does not take one with a reload", () =>
  withStage({}, async (stage) => {
    const { folder, ssh_ca: caKey, signer_config, client_config } = stage.init;
    await stage.startSigner();
    await Deno.chmod(caKey, 0o620);
    const reload = await runBrokerCtl(["reload", "--client-config", client_config], folder);
    assert.equal(reload.success, false);
    assert.match(new TextDecoder().decode(reload.stderr), /Cannot use ca_key/);
    const second = ServiceProcess.spawn(await signerCommand(signer_config));
    const { code } = await second.status;
    await second.stop();
    assert.equal(code, 1);
    assert.match(second.log, REFUSED);
  }));

Deno.test("a broker in local mode does not start with a CA key that others may write to", async () => {
  await using scene = await LocalScene.create();
  await Deno.chmod(`${scene.dir}/ssh_ca`, 0o620);
  const broker = ServiceProcess.spawn(await scene.command("serve-http"));
  const { code } = await broker.status;
  await broker.stop();
  assert.equal(code, 1);
  assert.match(broker.log, REFUSED);
});
