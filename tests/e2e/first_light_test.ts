import assert from "node:assert/strict";
import { formatPublicKey, parseCertificate, SshWriter } from "@gateway/shared/ssh";
import { recordsOf } from "../stage/audit.ts";
import { poll } from "../stage/poll.ts";
import { share } from "../stage/share.ts";
import { HOST, post, runBrokerCtl, Stage } from "../stage/stage.ts";
import { createBundles, withStage } from "../stage/with_stage.ts";
import { createFolder } from "../stage/folder.ts";

interface RunAnswer {
  readonly stdout: string;
  readonly stderr: string;
  readonly exit_code: number;
  readonly serial: bigint | number;
  readonly code?: string;
  readonly detail?: string;
}

const ALLOW_ALL = { path: ["command_policies", "starter"], value: { mode: "off" } };

async function run(stage: Stage, command: string, more: Record<string, unknown> = {}) {
  const client = await stage.brokerClient();
  const { status, body } = await post(client, "/v1/ssh_run", { host: HOST, command, ...more });
  return { status, ...(body as RunAnswer) };
}

const withShared = share<Stage>((use) =>
  withStage({}, async (stage) => {
    await stage.startSigner();
    await stage.startBroker();
    await use(stage);
  })
);

Deno.test("POST /v1/ssh_run runs a command, and both services record it under one serial", () =>
  withStage({ signer: [ALLOW_ALL] }, async (stage) => {
    await stage.startSigner();
    await stage.startBroker();
    const answer = await run(stage, "printf out; printf err >&2; exit 3");
    assert.deepEqual([answer.status, answer.stdout, answer.stderr, answer.exit_code], [200, "out", "err", 3]);
    const [issued] = await recordsOf(stage.init.signer_audit_log);
    const [executed] = await recordsOf(stage.init.broker_audit_log);
    assert.equal(issued?.["outcome"], "issued");
    assert.equal(issued?.["serial"], answer.serial);
    assert.equal(executed?.["outcome"], "executed");
    assert.equal(executed?.["serial"], answer.serial);
    assert.equal(executed?.["exit_code"], 3);
    assert.equal(executed?.["caller"], "agent-local");
    for (
      const [log, key] of [
        [stage.init.signer_audit_log, stage.init.signer_audit_key],
        [stage.init.broker_audit_log, stage.init.broker_audit_key],
      ] as const
    ) {
      const verified = await runBrokerCtl(
        ["audit", "verify", "--all", "--log", log, "--key", key],
        stage.init.folder,
      );
      assert.match(
        new TextDecoder().decode(verified.stdout),
        /^OK: 1 entries, chain intact.*all signatures valid/,
      );
    }
  }));

Deno.test("POST /v1/ssh_run runs a command with the packaged bundles, through the control plane", async () => {
  await using dir = await createFolder();
  const bundles = await createBundles(dir.path, ["signer", "control_plane", "broker"]);
  await using stage = await Stage.create({ dir: dir.path, bundles, controlPlane: true, signer: [ALLOW_ALL] });
  await stage.startSigner();
  await stage.startControlPlane();
  await stage.startBroker();
  const { status, stdout } = await run(stage, "printf out");
  assert.deepEqual([status, stdout], [200, "out"]);
});

Deno.test("POST /v1/ssh_run denies what the policy or the caller's entry does not allow", () =>
  withShared(async (stage) => {
    const client = await stage.brokerClient();
    const rows = [
      { body: { host: HOST, command: "id" }, status: 403, code: "denied" },
      { body: { host: HOST, command: "uptime; id" }, status: 403, code: "denied" },
      { body: { host: HOST, command: "uptime\nid" }, status: 403, code: "denied" },
      { body: { host: HOST, command: "uptime", sudo: true }, status: 403, code: "denied" },
      { body: { host: HOST, command: "uptime", pty: true }, status: 403, code: "denied" },
      { body: { host: HOST, command: "" }, status: 400, code: "invalid_request" },
      { body: { host: "web02", command: "uptime" }, status: 404, code: "unknown_host" },
      { body: { host: HOST }, status: 400, code: "invalid_request" },
    ];
    for (const { body, status, code } of rows) {
      const answer = await post(client, "/v1/ssh_run", body);
      const problem = answer.body as RunAnswer;
      assert.deepEqual(
        [answer.status, problem.code],
        [status, code],
        `${JSON.stringify(body)}: ${problem.detail}`,
      );
    }
    const unknown = await post(client, "/v1/ssh_run", { host: "web02", command: "uptime" });
    assert.equal((unknown.body as RunAnswer).detail, 'unknown host: "web02"');

    const { broker_audit_log: log, signer_config: config, folder } = stage.init;
    const recommended = await runBrokerCtl(
      ["policy", "recommend", "--audit", log, "--config", config, "--json"],
      folder,
    );
    const found = JSON.parse(new TextDecoder().decode(recommended.stdout)) as {
      type: string;
      pattern: string;
    }[];
    assert.ok(found.some(({ type, pattern }) => type === "friction" && pattern === "id"));
  }));

// The ssh program acts as an attacker with the certificate and its key.
Deno.test(
  "a certificate runs only its own command, whatever its holder requests",
  { ignore: !hasOpenssh() },
  () =>
    withShared(async (stage) => {
      const client = await stage.signerClient("broker");
      const dir = `${stage.init.folder}/holder`;
      await Deno.mkdir(dir);
      await sshKeygen(["-q", "-t", "ed25519", "-N", "", "-f", `${dir}/key`]);
      const { body } = await post(client, "/v1/sign", {
        host: HOST,
        role: "target",
        purpose: "oneshot",
        command: "whoami",
        public_key: (await Deno.readTextFile(`${dir}/key.pub`)).trim(),
      });
      const { certificate = "" } = body as { certificate?: string };
      await Deno.writeTextFile(`${dir}/key-cert.pub`, certificate);
      const asked = await ssh(stage, dir, ["cat", "/etc/passwd"]);
      assert.equal(new TextDecoder().decode(asked.stdout).trim(), stage.target.user, "force-command wins");
      const forwarded = await ssh(stage, dir, [], [
        "-o",
        "ExitOnForwardFailure=yes",
        "-R",
        "0:127.0.0.1:1",
        "-N",
      ]);
      assert.equal(forwarded.success, false, "no forwarding");
    }),
);

Deno.test("the response with a certificate contains the exact serial that the host logs", () =>
  withShared(async (stage) => {
    const client = await stage.signerClient("broker");
    const writer = new SshWriter();
    writer.text("ssh-ed25519");
    writer.string(new Uint8Array(32).fill(9));
    for (let i = 0; i < 20; i++) {
      const { body } = await post(client, "/v1/sign", {
        host: HOST,
        role: "target",
        purpose: "oneshot",
        command: "uptime",
        public_key: formatPublicKey("ssh-ed25519", writer.bytes()),
      });
      const { certificate = "", serial } = body as { certificate?: string; serial?: bigint | number };
      assert.equal(parseCertificate(certificate).serial, BigInt(serial ?? -1));
    }
  }));

Deno.test("the identities of broker and agent are not admins, and an agent has no hosts (I7)", () =>
  withShared(async (stage) => {
    for (const identity of ["broker", "agent"] as const) {
      const client = await stage.signerClient(identity);
      assert.equal((await post(client, "/v1/reload")).status, 403, identity);
    }
    const agent = await stage.signerClient("agent");
    assert.deepEqual((await agent.request({ method: "GET", path: "/v1/hosts" })).body, {});
  }));

Deno.test("SIGHUP and broker-ctl reload apply a changed policy, and an invalid one changes nothing", () =>
  withStage({}, async (stage) => {
    const signer = await stage.startSigner();
    await stage.startBroker();
    assert.equal((await run(stage, "id")).status, 403);
    const original = await Deno.readTextFile(stage.init.signer_config);
    await Deno.writeTextFile(stage.init.signer_config, original.replace('"^uptime$"', '"^uptime$", "^id$"'));
    const reloaded = await runBrokerCtl(
      ["reload", "--client-config", stage.init.client_config],
      stage.init.folder,
    );
    assert.equal(reloaded.success, true, new TextDecoder().decode(reloaded.stderr));
    assert.equal((await run(stage, "id")).status, 200);

    await Deno.writeTextFile(stage.init.signer_config, original.replace('"^uptime$"', '"^uptime($"'));
    const failed = await runBrokerCtl(
      ["reload", "--client-config", stage.init.client_config],
      stage.init.folder,
    );
    assert.equal(failed.success, false);
    assert.match(new TextDecoder().decode(failed.stderr), /command_policies\.starter\.allow/);
    assert.equal((await run(stage, "id")).status, 200, "the old state stays");

    await Deno.writeTextFile(stage.init.signer_config, original);
    signer.kill("SIGHUP");
    await poll(() => signer.log.includes('"caller":"SIGHUP"'), { what: "the reload" });
    assert.equal((await run(stage, "id")).status, 403);
    const outcomes = (await recordsOf(stage.init.signer_audit_log)).map(({ caller, outcome }) =>
      `${caller} ${outcome}`
    );
    assert.deepEqual(outcomes.filter((line) => line.includes("reload")), [
      "operator-local reloaded",
      "operator-local reload-failed",
      "SIGHUP reloaded",
    ]);
  }));

function hasOpenssh(): boolean {
  try {
    return Deno.statSync("/usr/bin/ssh").isFile && Deno.statSync("/usr/bin/ssh-keygen").isFile;
  } catch {
    return Deno.env.get("REQUIRE_REAL_SERVERS") === "1";
  }
}

async function sshKeygen(args: string[]): Promise<void> {
  const { success } = await new Deno.Command("ssh-keygen", { args }).output();
  assert.ok(success);
}

async function ssh(
  stage: Stage,
  dir: string,
  command: string[],
  options: string[] = [],
): Promise<Deno.CommandOutput> {
  await Deno.writeTextFile(
    `${dir}/known_hosts`,
    `[127.0.0.1]:${stage.target.port} ${stage.target.hostKeyLine}\n`,
  );
  return await new Deno.Command("ssh", {
    args: [
      ...["-F", "none", "-i", `${dir}/key`, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"],
      ...["-o", `UserKnownHostsFile=${dir}/known_hosts`, "-o", "ConnectTimeout=10"],
      ...options,
      ...["-p", String(stage.target.port), `${stage.target.user}@127.0.0.1`, ...command],
    ],
    stdin: "null",
  }).output();
}
