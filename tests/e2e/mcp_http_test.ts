import assert from "node:assert/strict";
import { Client, UnauthorizedError } from "@modelcontextprotocol/client";
import { poll } from "../stage/poll.ts";
import { share } from "../stage/share.ts";
import { AGENTS, McpHttpScene } from "./mcp_http_scene.ts";
import { HumanOAuth } from "./oauth_client.ts";
import { signIn } from "./open_id_server.ts";

const UPTIME = { name: "ssh_execute", arguments: { server: "web01", command: "echo hello" } };

const withShared = share<McpHttpScene>(async (use) => {
  await using scene = await McpHttpScene.create();
  await use(scene);
});

Deno.test("broker serve-mcp-http serves a human whom the client had sign in at the provider", () =>
  withShared(async (scene) => {
    const auth = new HumanOAuth();
    const first = scene.transport(auth);
    await assert.rejects(new Client({ name: "test", version: "1" }).connect(first), UnauthorizedError);
    assert.ok(auth.authorizationUrl !== undefined);
    assert.equal(auth.authorizationUrl.searchParams.get("resource"), scene.url);
    assert.match(auth.authorizationUrl.searchParams.get("scope") ?? "", /\bmcp\b/);
    const back = await signIn(auth.authorizationUrl, "alice");
    await first.finishAuth(back.searchParams);

    const client = new Client({ name: "test", version: "1" });
    await client.connect(scene.transport(auth));
    const { tools } = await client.listTools();
    assert.ok(tools.some(({ name }) => name === "ssh_execute"));
    const result = await client.callTool(UPTIME);
    assert.match(JSON.stringify(result.content), /hello/);
    await client.close();

    const [request] = scene.scene.signer.requests;
    assert.equal(request?.end_user, "alice");
    assert.deepEqual(request?.end_user_groups, ["web"]);
    assert.equal(request?.bearer_token, auth.tokens()?.access_token);
    const [record] = await scene.scene.records();
    assert.deepEqual([record?.["caller"], record?.["outcome"]], ["alice", "executed"]);
  }));

Deno.test("broker serve-mcp-http keeps two programs apart, and follows what their tokens say now", () =>
  withShared(async (scene) => {
    const [one, two] = await Promise.all([scene.connect(AGENTS[0]), scene.connect(AGENTS[1])]);
    await Promise.all([one.callTool(UPTIME), two.callTool(UPTIME)]);
    const users = scene.scene.signer.requests.slice(-2).map((request) => request.end_user).sort();
    assert.deepEqual(users, ["agent-1", "agent-2"]);
    await Promise.all([one.close(), two.close()]);

    const [token, foreign] = await Promise.all([scene.token(AGENTS[0]), scene.token(AGENTS[1])]);
    const session = await scene.openSession(token);
    const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: UPTIME };
    for (const method of ["GET", "POST", "DELETE"]) {
      const response = await scene.send({ method, token: foreign, session, body });
      assert.equal(response.status, 403);
      assert.equal((await response.json()).detail, "session user mismatch");
    }
    scene.groups.splice(0, 1, "db");
    const renewed = await scene.token(AGENTS[0]);
    const headers = { "x-request-id": "job-1" };
    await (await scene.send({ method: "POST", token: renewed, session, body, headers })).text();
    assert.deepEqual(scene.scene.signer.requests.at(-1)?.end_user_groups, ["db"]);
    const last = (await scene.scene.records()).at(-1);
    const { request_id, host_name } = last?.["ext"] as Record<string, unknown>;
    assert.deepEqual([last?.["command"], request_id, host_name], ["echo hello", "job-1", "web01"]);
  }));

Deno.test("broker serve-mcp-http keeps the result of a command whose connection was lost", () =>
  withShared(async (scene) => {
    const token = await scene.token(AGENTS[0]);
    const session = await scene.openSession(token);
    const flag = `${scene.scene.dir}/go`;
    const command = `while [ ! -e ${flag} ]; do sleep 0.05; done; echo finished`;
    const params = { name: "ssh_execute", arguments: { server: "web01", command } };
    const lost = new AbortController();
    const signed = scene.scene.signer.requests.length;
    const answer = await scene.send({
      method: "POST",
      token,
      session,
      body: { jsonrpc: "2.0", id: 1, method: "tools/call", params },
      signal: lost.signal,
    });
    const primer = new TextDecoder().decode((await answer.body?.getReader().read())?.value);
    const [, id = ""] = /^id: (\S+)$/m.exec(primer) ?? [];
    assert.notEqual(id, "");
    await poll(() => scene.scene.signer.requests.length > signed, { what: "the command to be signed" });
    lost.abort();
    await Deno.writeTextFile(flag, "");
    const isExecuted = async () =>
      (await scene.scene.records()).some((record) => record["command"] === command);
    await poll(isExecuted, { what: "the command to end" });
    const resumed = await scene.send({ method: "GET", token, session, headers: { "last-event-id": id } });
    assert.match(await resumed.text(), /finished/);
  }));

Deno.test("broker serve-mcp-http writes no token anywhere", () =>
  withShared(async (scene) => {
    const token = await scene.token(AGENTS[0]);
    const session = await scene.openSession(token);
    const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: UPTIME };
    await (await scene.send({ method: "POST", token, session, body })).text();
    await (await scene.send({ method: "POST", token: `${token}x`, session, body })).text();
    await poll(() => scene.broker.log.includes("Bearer token refused"), { what: "the refusal in the log" });
    const [, payload = token] = token.split(".");
    const written = scene.broker.log +
      JSON.stringify(await scene.scene.records(), (_key, value) => `${value}`);
    assert.equal(written.includes(payload), false);
  }));

Deno.test("broker serve-mcp-http ends the streams that are open when it stops", () =>
  withShared(async (scene) => {
    const token = await scene.token(AGENTS[0]);
    const session = await scene.openSession(token);
    const stream = await scene.send({ method: "GET", token, session });
    assert.equal(stream.status, 200);
    scene.broker.kill("SIGTERM");
    assert.equal(await stream.text(), "");
    assert.equal((await scene.broker.status).code, 0);
  }));
