import assert from "node:assert/strict";
import { formatPublicKey, SshWriter } from "@gateway/shared/ssh";
import { HOST, post, runBrokerCtl, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

const ROUNDS = 200;
const CONNECTIONS = 32;
const SUBJECT = { kind: "caller", value: "broker-local" };
const UNLIMITED = { path: ["sign_rate_limit_per_min"] };

function signBody() {
  const writer = new SshWriter();
  writer.text("ssh-ed25519");
  writer.string(new Uint8Array(32).fill(3));
  const public_key = formatPublicKey("ssh-ed25519", writer.bytes());
  return { host: HOST, role: "target", purpose: "oneshot", command: "uptime", public_key };
}

async function admin(stage: Stage) {
  const operator = await stage.signerClient("operator");
  return async (path: string, body: unknown) => {
    const answer = await post(operator, path, body);
    assert.equal(answer.status, 200, answer.text);
  };
}

Deno.test(`after a freeze is acknowledged no certificate is issued: ${ROUNDS} freezes under ${CONNECTIONS} connections`, () =>
  withStage({ signer: [UNLIMITED] }, async (stage) => {
    await stage.startSigner();
    const change = await admin(stage);
    const body = signBody();
    let isFrozen = false;
    let done = false;
    // Set before a freeze is lifted: requests sent during the freeze must not reach the signer afterwards.
    let gate: PromiseWithResolvers<void> | undefined;
    let open = 0;
    const counts = { issued: 0, refused: 0, late: 0 };
    const workers = Array.from({ length: CONNECTIONS }, async () => {
      const client = await stage.signerClient("broker");
      while (!done) {
        await gate?.promise;
        const wasFrozen = isFrozen;
        open += 1;
        const { status } = await post(client, "/v1/sign", body);
        open -= 1;
        if (status === 200) counts.issued += 1;
        else counts.refused += 1;
        // Sent after the acknowledgement, but answered with a certificate.
        if (status === 200 && wasFrozen) counts.late += 1;
      }
    });
    const turn = () => new Promise((resolve) => setTimeout(resolve, 0));
    for (let round = 0; round < ROUNDS; round++) {
      await change("/v1/freeze", SUBJECT);
      isFrozen = true;
      const before = counts.refused;
      while (counts.refused < before + CONNECTIONS) await turn();
      gate = Promise.withResolvers();
      while (open > 0) await turn();
      isFrozen = false;
      await change("/v1/unfreeze", SUBJECT);
      gate.resolve();
      gate = undefined;
    }
    done = true;
    await Promise.all(workers);
    assert.equal(counts.late, 0);
    assert.ok(counts.issued > 0 && counts.refused >= ROUNDS * CONNECTIONS, JSON.stringify(counts));
  }));

Deno.test("an acknowledged freeze matches its subject in any spelling, survives kill -9 of the signer, and can be lifted in any spelling (K1, K2)", () =>
  withStage({}, async (stage) => {
    const signer = await stage.startSigner();
    await (await stage.signerClient("broker")).request({ method: "GET", path: "/v1/hosts" });
    const { stdout } = await runBrokerCtl([
      ...["freeze", "--end-user", "broker-lokal", "--client-config", stage.init.client_config],
    ], "/");
    const said = new TextDecoder().decode(stdout);
    assert.match(said, /^frozen [^]*\nwarning: no request [^]*requests named caller=broker-local\n$/);
    await (await admin(stage))("/v1/freeze", { kind: "caller", value: "BROKER-\uff2cocal." });
    await signer.stop("SIGKILL");
    await stage.startSigner();
    const client = await stage.signerClient("broker");
    const sign = () => post(client, "/v1/sign", signBody());
    assert.equal((await sign()).status, 403);
    assert.equal((await client.request({ method: "GET", path: "/v1/hosts" })).status, 403);
    await (await admin(stage))("/v1/unfreeze", SUBJECT);
    assert.equal((await sign()).status, 200);
  }));

Deno.test("a policy edit over HTTP is in force, keeps the comments of the file and survives a restart", () =>
  withStage({}, async (stage) => {
    const signer = await stage.startSigner();
    const operator = await stage.signerClient("operator");
    const client = await stage.signerClient("broker");
    const sign = () => post(client, "/v1/sign", { ...signBody(), command: "echo hello" });
    assert.equal((await sign()).status, 403);
    const path = `/v1/policy/hosts/${HOST}/allow`;
    const added = await post(operator, path, { pattern: "^echo hello$" });
    assert.equal(added.status, 200, added.text);
    assert.equal((await sign()).status, 200);
    const text = await Deno.readTextFile(stage.init.signer_config);
    assert.match(text, /^\/\/ Created by broker-ctl init/);
    assert.ok(text.includes('"^echo hello$"'));
    const { mode } = await Deno.stat(stage.init.signer_config);
    assert.equal((mode ?? 0) & 0o777, 0o640, "the file's rights stay");
    await signer.stop();
    await stage.startSigner();
    assert.equal((await sign()).status, 200);
    const commented = text.replace('"^echo hello$"', '// "^reboot$"\n"^echo hello$" // INC-7\n');
    await Deno.writeTextFile(stage.init.signer_config, commented);
    const [again, removed] = [
      await post(operator, path, { pattern: "^id$" }),
      await operator.request({ method: "DELETE", path, body: { pattern: "^echo hello$" } }),
    ];
    assert.deepEqual([again.status, removed.status], [200, 200], again.text + removed.text);
    assert.equal((await sign()).status, 403);
    const kept = await Deno.readTextFile(stage.init.signer_config);
    for (const comment of ['// "^reboot$"\n', "// INC-7\n", "// Created by broker-ctl init"]) {
      assert.ok(kept.includes(comment), kept);
    }
    assert.ok(kept.includes('"^id$"') && !kept.includes('"^echo hello$"'));
  }));
