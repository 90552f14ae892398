import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { signResponse } from "@gateway/shared/wire/sign";
import { createEphemeralKey, type EphemeralKey } from "../../broker/ssh/ephemeral_key.ts";
import { runCommand } from "../../broker/ssh/run_command.ts";
import { PATIENT_LIMITS } from "../ssh_target/patient_limits.ts";
import { printedBy } from "../ssh_target/printed.ts";
import { availableKinds } from "../ssh_target/target.ts";
import { KrlHost } from "../stage/krl_host.ts";
import { poll } from "../stage/poll.ts";
import { HOST, runBrokerCtl, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

const ignore = !availableKinds().includes("openssh");

/** What a broker that leaks gives away: a session's certificate, and the key that it is for. */
interface Loot {
  readonly certificate: string;
  readonly serial: bigint;
  readonly key: EphemeralKey;
}

/** A session certificate for somebody, with its key, from a broker that hands out both. */
async function steal(stage: Stage, endUser: string): Promise<Loot> {
  const key = createEphemeralKey();
  const broker = await stage.signerClient("broker");
  const body = {
    host: HOST,
    role: "target",
    purpose: "session",
    session_mode: "exec",
    end_user: endUser,
    public_key: key.publicKeyLine,
  };
  const { status, text, body: answer } = await broker.request({ method: "POST", path: "/v1/sign", body });
  assert.equal(status, 200, text);
  const { certificate, serial } = signResponse.parse(answer);
  assert.ok(certificate !== undefined && serial !== undefined);
  return { certificate, serial, key };
}

/** What a thief's own SSH client gets of the host with it. */
async function logIn({ target }: Stage, { certificate, key }: Loot): Promise<string> {
  const login = {
    name: HOST,
    addr: `127.0.0.1:${target.port}`,
    hostKey: target.hostKeyLine,
    user: target.user,
  };
  try {
    const hops = [{ ...login, certificate, key }] as const;
    const { stdout } = printedBy(
      await runCommand({ clock: systemClock, hops, command: "echo in", pty: false, limits: PATIENT_LIMITS }),
    );
    return new TextDecoder().decode(stdout).trim();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

async function ctl({ init }: Stage, ...args: readonly string[]): Promise<string> {
  const output = await runBrokerCtl([...args, "--client-config", init.client_config], init.folder);
  const text = new TextDecoder().decode(output.success ? output.stdout : output.stderr);
  assert.ok(output.success, text);
  return text;
}

const REFUSED = /^connection: the host refused the certificate$/;

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
    await signer.stop("SIGKILL");
    signer = await stage.startSigner();
    await poll(async () => await host.version() > before, {
      what: "the list of the signer that was started again",
    });
    assert.match(await logIn(stage, stolen), REFUSED, "nor does a signer that was killed");

    await ctl(stage, "revoke", "--serial", innocent.serial.toString(), "--wait");
    assert.match(await logIn(stage, innocent), REFUSED, "by its serial, exact in 64 bits");
    await signer.stop();
    assert.match(await logIn(stage, stolen), REFUSED, "the host keeps its list while the signer is away");
  }));
