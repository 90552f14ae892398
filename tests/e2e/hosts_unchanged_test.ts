import assert from "node:assert/strict";
import { entityTagOf, namesEntityTag, problemResponse } from "@gateway/shared/http";
import { AppError } from "@gateway/shared/errors";
import type { HostsResponse } from "@gateway/shared/wire";
import { editConfig, HOST } from "../stage/stage.ts";
import { FREE, startAsSigner, withControlPlane } from "./control_plane_scene.ts";

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

Deno.test("a broker asks before each command, and takes 304 for the hosts that it has", () =>
  withControlPlane({}, async (scene) => {
    const { stage } = scene;
    const asked: (string | null)[] = [];
    let list: HostsResponse = { web02: WEB02 };
    await using _signer = await startAsSigner(stage, (request) => {
      if (!request.url.endsWith("/v1/hosts")) return problemResponse(new AppError("denied", "not today"));
      const text = JSON.stringify(list);
      const tag = entityTagOf(text);
      const has = request.headers.get("if-none-match");
      asked.push(has);
      if (namesEntityTag(has, tag)) return new Response(null, { status: 304, headers: { etag: tag } });
      return new Response(text, { headers: { "content-type": "application/json", etag: tag } });
    });
    await stage.startControlPlane();
    await stage.startBroker();
    const agent = await stage.brokerClient();
    const run = (host: string) =>
      agent.request({ method: "POST", path: "/v1/ssh_run", body: { host, command: FREE } });

    const tag = entityTagOf(JSON.stringify(list));
    assert.match((await run("web02")).text, /not today/);
    assert.match((await run("web02")).text, /not today/);
    assert.deepEqual(asked, [null, tag, tag]);
    list = {};
    assert.match((await run("web02")).text, /unknown host/, "one that is gone is gone at once");
    assert.match((await run("web02")).text, /unknown host/);
    assert.deepEqual(asked.slice(3), [tag, entityTagOf("{}")]);
  }));
