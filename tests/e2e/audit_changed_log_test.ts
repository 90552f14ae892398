import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { withStage } from "../stage/with_stage.ts";
import { signBody } from "../bench/sign_request.ts";

Deno.test("a signer whose audit log is moved away is not ready, issues nothing, and goes back to work with it", async () => {
  await withStage({}, async (stage) => {
    const signer = await stage.startSigner();
    const client = await stage.signerClient("broker");
    const sign = () => client.request({ method: "POST", path: "/v1/sign", body: JSON.parse(signBody()) });
    const readiness = async () => {
      const response = await fetch(`http://${signer.command.monitor}/readyz`);
      await response.body?.cancel();
      return response.status;
    };
    assert.equal((await sign()).status, 200);
    const log = stage.init.signer_audit_log;
    await Deno.rename(log, `${log}.away`);
    // Without a request: a signer with nothing to write notices as well.
    await poll(async () => await readiness() === 503, { what: "that the signer is not ready" });
    const refused = await sign();
    assert.equal(refused.status, 500);
    assert.match(JSON.stringify(refused.body), /audit unavailable/);
    await assert.rejects(Deno.stat(log), Deno.errors.NotFound);
    await Deno.rename(`${log}.away`, log);
    await poll(async () => await readiness() === 200, { what: "that the signer is ready again" });
    assert.equal((await sign()).status, 200);
  });
});
