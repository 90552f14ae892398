import assert from "node:assert/strict";
import type { HostsResponse } from "@gateway/shared/wire";
import { editConfig, HOST } from "../stage/stage.ts";
import { withControlPlane } from "./control_plane_scene.ts";

const WEB02 = { addr: "10.0.0.2:22", user: "deploy", host_key: "ssh-ed25519 AAAA", groups: ["local"] };

Deno.test("hosts that a broker has are not sent again, by the signer nor by the control plane, until they change", () =>
  withControlPlane({}, async (scene) => {
    const { stage } = scene;
    await stage.startSigner();
    await stage.startControlPlane();
    const operator = await stage.signerClient("operator");
    const ask = (tag: string) =>
      scene.request("broker", { method: "GET", path: "/v1/hosts", headers: { "if-none-match": tag } });

    const first = await scene.get("broker", "/v1/hosts");
    assert.deepEqual(Object.keys(first.body as HostsResponse), [HOST]);
    const tag = first.headers["etag"] ?? "";
    assert.equal(`"${tag.slice(1, -1)}"`, tag);
    for (const has of [tag, `"x", W/${tag}`, "*"]) {
      const { status, headers, text } = await ask(has);
      assert.deepEqual([status, headers["etag"], text], [304, tag, ""]);
    }
    assert.equal((await ask('"x"')).text, first.text);

    await editConfig(stage.init.signer_config, [
      {
        path: ["hosts", "web02"],
        value: { ...WEB02, host_key: stage.target.hostKeyLine, principal: "host:web02" },
      },
    ]);
    assert.equal((await operator.request({ method: "POST", path: "/v1/reload" })).status, 200);
    const changed = await ask(tag);
    assert.equal(changed.status, 200);
    assert.deepEqual(Object.keys(changed.body as HostsResponse), [HOST, "web02"]);
    const next = changed.headers["etag"] ?? "";
    assert.notEqual(next, tag);
    assert.equal((await ask(next)).status, 304);

    const body = { kind: "caller", value: "broker-local", reason: "incident" };
    assert.equal((await operator.request({ method: "POST", path: "/v1/freeze", body })).status, 200);
    for (const has of [next, "*"]) assert.equal((await ask(has)).status, 403, "the freeze is told first");
    const own = await scene.request("approver", {
      method: "GET",
      path: "/v1/hosts",
      headers: { "if-none-match": next },
    });
    assert.equal(own.status, 403);
  }));
