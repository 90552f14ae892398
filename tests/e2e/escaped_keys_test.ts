import assert from "node:assert/strict";
import { escapeKey } from "@gateway/shared/testing";
import { signBody } from "../bench/sign_request.ts";
import { HOST, type Stage, type StageIdentity } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

const SIGNER = [{ path: ["command_policies", "starter"], value: { mode: "off" } }];

type Service = "signer" | "control_plane" | "broker";

/** Sends texts as they are, and gives the answers' statuses. */
async function post(stage: Stage, service: Service, path: string, texts: readonly Sent[]): Promise<number[]> {
  const config = await Deno.readTextFile(stage.init[`${service}_config`]);
  const url = `https://${/"listen": "([^"]+)"/.exec(config)?.[1]}${path}`;
  const caCerts = [await Deno.readTextFile(stage.init.mtls_ca)];
  const statuses: number[] = [];
  for (const { by, body } of texts) {
    const [cert, key] = [
      await Deno.readTextFile(stage.init[by].cert),
      await Deno.readTextFile(stage.init[by].key),
    ];
    using client = Deno.createHttpClient({ caCerts, cert, key, poolMaxIdlePerHost: 0 });
    const headers = { "content-type": "application/json" };
    const response = await fetch(url, { method: "POST", headers, body, client });
    await response.body?.cancel();
    statuses.push(response.status);
  }
  return statuses;
}

interface Sent {
  readonly by: StageIdentity;
  readonly body: string;
}

const NO_GROUPS = signBody(HOST).replace('"end_user_groups":null', '"end_user_groups":[]');
const ESCAPED = escapeKey(NO_GROUPS, "end_user_groups");

Deno.test("no text that the signer has read changes whom a later one is for", () =>
  withStage({ signer: SIGNER }, async (stage) => {
    await stage.startSigner();
    const statuses = await post(stage, "signer", "/v1/sign", [
      { by: "broker", body: signBody(HOST) },
      { by: "broker", body: NO_GROUPS },
      { by: "operator", body: ESCAPED.before },
      { by: "broker", body: ESCAPED.before },
      { by: "broker", body: ESCAPED.text },
    ]);
    assert.deepEqual(statuses, [200, 403, 403, 200, 403]);
  }));
