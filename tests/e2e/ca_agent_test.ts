import assert from "node:assert/strict";
import { HOST } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { isAgentMissing as ignore, startAgent } from "./ssh_agent.ts";

Deno.test({
  name: "a signer whose CA key is in ssh-agent never reads a private key, and its certificates work",
  ignore,
}, () =>
  withStage({}, async (stage) => {
    const { init } = stage;
    await using agent = await startAgent(`${init.folder}/agent.sock`);
    await agent.add(init.ssh_ca);
    await Deno.remove(init.ssh_ca);
    const text = await Deno.readTextFile(init.signer_config);
    const key = { type: "agent", socket: agent.socket, public_key_path: init.ssh_ca_public };
    await Deno.writeTextFile(
      init.signer_config,
      text.replace(/"ca_key": "[^"]*"/, `"ca_keys": { "_default": ${JSON.stringify(key)} }`),
    );
    const signer = await stage.startSigner();
    assert.doesNotMatch(signer.log, /for labs/);
    await stage.startBroker();
    const client = await stage.brokerClient();
    const run = { method: "POST", path: "/v1/ssh_run", body: { host: HOST, command: "uptime" } } as const;
    assert.equal((await client.request(run)).status, 200);
    await agent[Symbol.asyncDispose]();
    assert.equal((await client.request(run)).status, 502, "without the agent nothing is signed");
  }));
