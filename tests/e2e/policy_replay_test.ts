import assert from "node:assert/strict";
import { HOST, runBrokerCtl } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

const DECODER = new TextDecoder();

Deno.test("policy replay judges the log of a real signer, and its own config changes nothing", () =>
  withStage({ controlPlane: true }, async (stage) => {
    const { init } = stage;
    await stage.startSigner();
    await stage.startControlPlane();
    await stage.startBroker();
    const client = await stage.brokerClient();
    const run = async (command: string) =>
      (await client.request({ method: "POST", path: "/v1/ssh_run", body: { host: HOST, command } })).status;
    assert.deepEqual([await run("uptime"), await run("id -Z"), await run("mysql -phunter2")], [
      200,
      403,
      403,
    ]);
    const replay = async (config: string) => {
      const { code, stdout, stderr } = await runBrokerCtl(
        ["policy", "replay", config, "--config", init.signer_config, "--json"],
        init.folder,
      );
      return { code, stderr: DECODER.decode(stderr), ...JSON.parse(DECODER.decode(stdout)) };
    };
    const same = await replay(init.signer_config);
    assert.deepEqual([same.code, same.changes], [0, []], same.stderr);
    assert.deepEqual(same.not_judged.map(({ reason }: { reason: string }) => reason), [
      "the command or the end user is masked by redaction",
    ]);
    const text = await Deno.readTextFile(init.signer_config);
    await Deno.writeTextFile(`${init.folder}/new.json`, text.replaceAll('"^uptime$"', '"^id -Z$"'));
    const { code, changes } = await replay(`${init.folder}/new.json`);
    assert.equal(code, 3);
    assert.deepEqual(
      changes.map(({ from, to, examples }: Record<string, unknown>) => `${from} ${to} ${examples}`)
        .toSorted(),
      ["allowed denied uptime", "denied allowed id -Z"],
    );
  }));
