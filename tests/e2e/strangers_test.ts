import assert from "node:assert/strict";
import { HOST, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { portOf, STRANGERS, Strangers, WAYS } from "./strangers.ts";

/** Measured: 41 to 258 ms on two busy cores. The bound has room for a worse machine; a lock-out has no end. */
const SOON_MS = 5000;

/** Freezes and unfreezes over connections of their own, and says how long the freeze took. */
async function freezeAnew(stage: Stage): Promise<number> {
  const operator = await stage.signerClient("operator");
  const body = { kind: "caller", value: "broker-local" };
  const begin = performance.now();
  const frozen = await operator.request({ method: "POST", path: "/v1/freeze", body });
  const took = performance.now() - begin;
  assert.equal(frozen.status, 200, frozen.text);
  const thawed = await operator.request({ method: "POST", path: "/v1/unfreeze", body });
  assert.equal(thawed.status, 200, thawed.text);
  operator.close();
  return took;
}

Deno.test(`${STRANGERS} strangers keep nobody from a freeze, nor a broker from its hosts`, (t) =>
  withStage({}, async (stage) => {
    await stage.startSigner();
    const known = await stage.signerClient("broker");
    const hosts = async (client: typeof known) =>
      (await client.request({ method: "GET", path: "/v1/hosts" })).text;
    assert.match(await hosts(known), new RegExp(HOST));
    const ca = await Deno.readTextFile(stage.init.mtls_ca);
    const port = await portOf(stage.init.signer_config);
    for (const way of WAYS) {
      await t.step(`that hold ${way.name}`, async () => {
        using strangers = new Strangers(port, ca);
        await strangers.hold(way);
        const took = await freezeAnew(stage);
        assert.ok(took < SOON_MS, `the freeze took ${took} ms`);
        assert.match(await hosts(known), new RegExp(HOST));
        assert.match(await hosts(await stage.signerClient("broker")), new RegExp(HOST));
      });
    }
  }));
