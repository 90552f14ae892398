import assert from "node:assert/strict";
import { createEnvelopeKey } from "@gateway/shared/envelope";
import { FORMATS, InstalledShim, type ShimFormat } from "../shim/installed_shim.ts";
import { availableKinds } from "../ssh_target/target.ts";
import { editConfig, HOST, post, runBrokerCtl, type Stage } from "../stage/stage.ts";
import { type Around, share } from "../stage/share.ts";
import { addHostsToStage } from "./hosts_behind.ts";
import { hostKeys, sealedBy, trustSigner } from "./sealed_stage.ts";
import { OPEN_POLICY, type SessionScene, withSessions } from "./session_scene.ts";
import { Thief } from "./thief.ts";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { withStage } from "../stage/with_stage.ts";
import { decideAll } from "./decide_all.ts";
import { McpProcess } from "./mcp_process.ts";
import { SessionClient } from "./session_client.ts";

const ignore = !availableKinds().includes("openssh");
const ONE_SHOT_INSTEAD = /requires human approval \(require_approval:\^reboot\); use ssh_execute/;

/** A real sealed sshd with a signer and a stdio broker. */
async function withSealed(
  format: ShimFormat,
  { sealed = true, keys = {} }: {
    readonly sealed?: boolean;
    readonly keys?: Readonly<Record<string, unknown>>;
  },
  test: (scene: SessionScene & { readonly shim: InstalledShim }) => Promise<void>,
): Promise<void> {
  await using shim = await InstalledShim.create(format);
  const signer = [...(sealed ? sealedBy(shim) : []), ...hostKeys(keys)];
  await withSessions(
    { targetKind: "openssh", signer, prepare: (stage) => trustSigner(shim, stage) },
    (scene) => test({ ...scene, shim }),
  );
}

async function reload(stage: Stage): Promise<void> {
  const operator = await stage.signerClient("operator");
  assert.equal((await post(operator, "/v1/reload")).status, 200);
}

type SealedScene = SessionScene & { readonly shim: InstalledShim };

const withV3 = share<SealedScene>((use) => withSealed(FORMATS.v3, { keys: { allow_pty: true } }, use));
const withV2 = share<SealedScene>((use) =>
  withSealed(
    FORMATS.v2,
    { keys: { allow_pty: true, command_policy: { mode: "off", require_approval: ["^reboot"] } } },
    use,
  )
);
const withV1: Around<SealedScene> = (use) => withSealed(FORMATS.v1, {}, use);

Deno.test.each([{ name: "v3", within: withV3 }, { name: "v1", within: withV1 }])(
  "a session on a sealed host runs only commands that the signer has signed, through gateway-shim $name",
  { ignore },
  ({ within }) =>
    within(async ({ client, records, shim, signer }) => {
      assert.match(signer.log, /envelope public key/);
      const id = await client.open();
      const first = await client.exec(id, "echo out; echo err >&2; exit 3");
      assert.deepEqual(
        [first.structured["stdout"], first.structured["stderr"], first.structured["exit_code"]],
        ["out\n", "err\n", 3],
        first.text,
      );
      const second = await client.exec(id, 'printf "%s\n" "${SSH_ORIGINAL_COMMAND-none}" "a\'b"');
      assert.equal(second.structured["stdout"], "none\na'b\n", second.text);
      const together = await Promise.all(Array.from({ length: 4 }, (_, n) => client.exec(id, `echo ${n}`)));
      assert.deepEqual(together.map(({ structured }) => structured["stdout"]), ["0\n", "1\n", "2\n", "3\n"]);
      const large = await client.exec(id, `: ${"x".repeat(8_000)}; echo large`);
      assert.equal(large.structured["stdout"], "large\n", large.text);
      assert.equal(shim.claims().length, 7, "one nonce each");
      const commands = (await records()).filter(({ outcome }) => outcome === "session_exec")
        .map(({ command }) => command);
      assert.ok(commands.includes("echo out; echo err >&2; exit 3"), JSON.stringify(commands));
    }),
);

Deno.test(
  "an open session is reopened after its host is sealed or unsealed",
  { ignore },
  () =>
    withSealed(FORMATS.v3, { sealed: false }, async ({ client, records, shim, stage }) => {
      const id = await client.open();
      const before = await client.exec(id, "echo plain");
      assert.equal(before.structured["stdout"], "plain\n");
      const seal = await runBrokerCtl([
        ...["--config", stage.init.signer_config, "host", "seal", HOST],
        ...["--shim", `${shim.folder}/gateway-shim`],
      ], stage.init.folder);
      assert.equal(seal.code, 0, new TextDecoder().decode(seal.stderr));
      await reload(stage);
      const sealed = await client.exec(id, "echo sealed");
      assert.equal(sealed.structured["stdout"], "sealed\n", sealed.text);
      assert.equal(shim.claims().length, 1);
      const unseal = await runBrokerCtl(
        ["--config", stage.init.signer_config, "host", "unseal", HOST],
        stage.init.folder,
      );
      assert.equal(unseal.code, 0);
      await reload(stage);
      const after = await client.exec(id, "echo plain again");
      assert.equal(after.structured["stdout"], "plain again\n", after.text);
      assert.equal(shim.claims().length, 1);
      const opened = (await records()).filter(({ outcome }) => outcome === "session_open");
      assert.deepEqual(opened.map(({ session_id }) => session_id), [id, id, id]);
      assert.equal(new Set(opened.map(({ serial }) => serial)).size, 3);
    }),
);

Deno.test(
  "a sealed host rejects shells, terminals and commands that require an approval",
  { ignore },
  () =>
    withV2(
      async ({ client, shim }) => {
        for (const mode of ["shell", "pty"]) {
          const { isError, text } = await client.call("ssh_session_open", { server: HOST, mode });
          assert.equal(isError, true);
          assert.match(text, /has sealed_exec: sessions require mode="exec"/);
        }
        const id = await client.open();
        const gated = await client.exec(id, "reboot --dry");
        assert.equal(gated.isError, true);
        assert.match(gated.text, ONE_SHOT_INSTEAD);
        assert.deepEqual(shim.claims(), []);
        const oneShot = await client.call("ssh_execute", { server: HOST, command: "echo once" });
        assert.equal(oneShot.structured["stdout"], "once\n", oneShot.text);
        assert.deepEqual(shim.claims(), [], "locked to its command, as on every host");
      },
    ),
);

Deno.test(
  "during a change of the envelope key a session reports why its command is rejected, and continues later",
  { ignore },
  () =>
    withV2(async ({ client, records, shim, stage }) => {
      const id = await client.open();
      assert.equal((await client.exec(id, "echo old")).structured["stdout"], "old\n");
      const seed = new Uint8Array(32).fill(9);
      await Deno.writeFile(stage.init.envelope_key, seed, { mode: 0o600 });
      const old = await Deno.readTextFile(shim.keyFile);
      await reload(stage);
      const refused = await client.exec(id, "echo unknown");
      assert.equal(refused.structured["exit_code"], 126);
      assert.match(
        refused.text,
        /\[warning\] the shim of the sealed host rejected the command, .*pinned key.*envelope pubkey/,
      );
      assert.match(
        String((await records()).at(-1)?.["warning"]),
        /the shim of the sealed host rejected the command/,
      );
      await shim.writeKeys(old.trim(), shim.format.keyLine(createEnvelopeKey(seed)));
      assert.equal((await client.exec(id, "echo new")).structured["stdout"], "new\n");
    }),
);

Deno.test(
  "stop_on_disconnect applies to sealed commands: a canceled command ends",
  { ignore },
  () =>
    withSealed(FORMATS.v3, { keys: { stop_on_disconnect: true } }, async ({ client, shim }) => {
      const id = await client.open();
      const ran = await client.exec(id, "read x; echo read $?");
      assert.equal(ran.structured["exit_code"], 0, ran.text);
      const file = `${shim.folder}/pid`;
      const endless = client.exec(id, `echo $$ > ${file}; while :; do sleep 0.1; done`);
      while (await Deno.readTextFile(file).catch(() => "") === "") await pause();
      const pid = (await Deno.readTextFile(file)).trim();
      assert.equal((await client.call("ssh_session_close", { session_id: id })).isError, false);
      assert.equal((await endless).isError, true);
      while (await Deno.stat(`/proc/${pid}`).then(() => true, () => false)) await pause();
    }),
);

Deno.test("a stolen session certificate of a sealed host opens no shell, and an envelope is valid once", {
  ignore,
}, () =>
  withV3(async ({ stage, shim }) => {
    // An envelope does not cover terminal input. "less" and "more" read it even if their stdin is /dev/null.
    await assert.rejects(Thief.create(stage, { pty: true }), /sessions have no PTY; use a one-shot command/);
    const thief = await Thief.create(stage);
    assert.equal(thief.forceCommand, `${shim.folder}/gateway-shim ${HOST}`);
    // Shells, commands and shell syntax all reach the shim and nothing else.
    for (const command of [undefined, "id", "$(id)", "x; id", "a.b", "a=b.c", "--version"]) {
      const { code, stderr, stdout } = await thief.ssh(command);
      assert.equal(code, 126, `${command}: ${stderr}`);
      assert.match(stderr + stdout, /gateway-shim: refused: /);
      assert.doesNotMatch(stdout, /uid=/);
      assert.match((await thief.ssh(command, ["-tt"])).stderr, /^PTY allocation request failed/);
    }
    const { code, stderr } = await thief.ssh(undefined, ["-W", `127.0.0.1:${stage.target.port}`]);
    assert.notEqual(code, 0);
    assert.match(stderr, /forwarding failed/);
    const before = shim.claims().length;
    const envelope = await thief.envelope("echo ran");
    assert.equal((await thief.ssh(envelope)).stdout, "ran\n");
    const replayed = await thief.ssh(envelope);
    assert.deepEqual([replayed.code, replayed.stdout], [126, ""]);
    assert.match(replayed.stderr, /replay/);
    assert.equal(shim.claims().length, before + 1);
    const fed = await thief.ssh(await thief.envelope("sh"), [], "echo fed\n");
    assert.deepEqual([fed.code, fed.stdout], [0, ""], "no input that the envelope does not bind");
  }));

Deno.test("a sealed bastion forwards connections and runs no shell", { ignore }, async () => {
  const dir = await Deno.makeTempDir({ prefix: "behind-" });
  await using shim = await InstalledShim.create(FORMATS.v2);
  const prepare = async (stage: Stage) => {
    await trustSigner(shim, stage);
    await addHostsToStage(stage, { dir, names: ["inner01"] });
    const edits = sealedBy(shim).map(({ path: [, , key = ""], value }) => ({
      path: ["hosts", "inner01", key],
      value,
    }));
    await editConfig(stage.init.signer_config, edits);
  };
  try {
    await withSessions(
      { targetKind: "openssh", signer: sealedBy(shim), prepare },
      async ({ client, stage }) => {
        const id = await client.open({ server: "inner01" });
        const ran = await client.exec(id, "echo behind");
        assert.equal(ran.structured["stdout"], "behind\n", ran.text);
        assert.equal(shim.claims().length, 1, "a bastion's certificate needs none");
        const thief = await Thief.create(stage, { role: "bastion" });
        assert.equal(thief.forceCommand, `${shim.folder}/gateway-shim ${HOST}`);
        assert.match((await thief.ssh("id")).stderr, /gateway-shim: refused: /);
      },
    );
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 20));
}

const BEHAVIOR = { path: ["behavior"], value: { mode: "enforce" } };
const GATED = hostKeys({ command_policy: { mode: "off", require_approval: ["^reboot"] } });

interface EnforcedScene {
  readonly stage: Stage;
  readonly client: SessionClient;
  readonly shim: InstalledShim;
}

/** A sealed host with a real sshd, behind a control plane that requires approvals for new requests. */
const withEnforced = share<EnforcedScene>(async (test) => {
  await using shim = await InstalledShim.create(FORMATS.v2);
  await withStage({
    controlPlane: true,
    targetKind: "openssh",
    signer: [...OPEN_POLICY, ...sealedBy(shim), ...GATED],
    controlPlaneConfig: [BEHAVIOR],
  }, async (stage) => {
    await trustSigner(shim, stage);
    await editConfig(stage.init.mcp_config, [{ path: ["signer", "approval_wait_seconds"], value: 60 }]);
    await stage.startSigner();
    await stage.startControlPlane();
    await using mcp = await McpProcess.start(await stage.mcpCommand());
    const client = new SessionClient(mcp);
    // No request counts as new until a baseline exists.
    assert.equal((await client.call("ssh_execute", { server: HOST, command: "uptime" })).isError, false);
    await test({ stage, client, shim });
    assert.equal(await mcp.end(), 0);
  });
});

/** Sends a session command to the control plane like a broker and returns the complete answer. */
async function preflight(stage: Stage, command: string, fields: object = {}) {
  const broker = await stage.controlPlaneClient("broker");
  const { status, body } = await post(broker, "/v1/sign", {
    ...{ host: HOST, role: "target", purpose: "session", session_mode: "exec", command },
    ...{ public_key: createEphemeralKey().publicKeyLine, end_user: "mcp-stdio", end_user_groups: null },
    ...{ dry_run: true, preflight: true },
    ...fields,
  });
  return { status, answer: body as Readonly<Record<string, unknown>> };
}

Deno.test(
  "a sealed session runs an unusual command only after its approval made it usual, and never gated commands",
  { ignore },
  () =>
    withEnforced(async ({ stage, client, shim }) => {
      const id = await client.open();
      const usual = await client.exec(id, "uptime");
      assert.equal(usual.isError, false, usual.text);
      assert.equal(shim.claims().length, 1);

      const file = `${stage.init.folder}/made`;
      const unusual = client.exec(id, `touch ${file}`);
      assert.deepEqual(await decideAll(stage, unusual, true), [`${HOST} touch ${file}`]);
      assert.match(
        (await unusual).text,
        /the host is sealed and its sessions do not run approved commands/,
      );
      assert.equal(shim.claims().length, 1, "an approval of a preflight brings no envelope");
      const denied = client.exec(id, `rm ${file}`);
      await decideAll(stage, denied, false);
      assert.match((await denied).text, /approval denied/);
      const gated = await client.exec(id, "reboot --dry");
      assert.match(gated.text, /requires human approval \(require_approval:\^reboot\); use ssh_execute/);
      assert.equal(shim.claims().length, 1);
      await assert.rejects(Deno.stat(file), Deno.errors.NotFound);

      const now = await client.exec(id, `touch ${file}`);
      assert.equal(now.isError, false, now.text);
      await Deno.stat(file);
      assert.equal(shim.claims().length, 2);
    }),
);

Deno.test("an enforcing control plane returns no envelope for a command that requires an approval", {
  ignore,
}, () =>
  withEnforced(async ({ stage, client }) => {
    await client.open();
    const usual = await preflight(stage, "uptime");
    assert.deepEqual([usual.status, typeof usual.answer["envelope"]], [200, "string"]);
    for (const fields of [{}, { approved: true }, { approved: true, learn_ttl_seconds: 60 }]) {
      const gated = await preflight(stage, "reboot now", fields);
      assert.deepEqual([gated.status, gated.answer["envelope"]], [200, undefined]);
      assert.equal((gated.answer["decision"] as { require_approval?: boolean }).require_approval, true);
    }
    const unusual = await preflight(stage, "ln x", { approved: true });
    assert.deepEqual([unusual.status, unusual.answer["envelope"]], [202, undefined]);
    const approver = await stage.controlPlaneClient("approver");
    const id = String(unusual.answer["approval_id"]);
    const path = `/v1/approvals/${id}`;
    assert.equal((await post(approver, path, { approve: true })).status, 200);
    const broker = await stage.controlPlaneClient("broker");
    const { status, body } = await broker.request({ method: "GET", path: `/v1/sign/result/${id}` });
    const result = body as Readonly<Record<string, unknown>>;
    assert.deepEqual([status, result["envelope"], result["certificate"]], [200, undefined, undefined]);
    // A request without a decision produces no envelope.
    const dryRun = await preflight(stage, "ln y", { preflight: false });
    assert.deepEqual([dryRun.status, dryRun.answer["envelope"]], [200, undefined]);
  }));
