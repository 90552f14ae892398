import assert from "node:assert/strict";
import {
  Client,
  ClientCredentialsProvider,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
import { poll } from "../stage/poll.ts";
import { share } from "../stage/share.ts";
import { AGENTS, McpHttpScene, withVerifiedAgent } from "./mcp_http_scene.ts";
import { HumanOAuth } from "./oauth_client.ts";
import { SCOPE, signIn } from "./open_id_server.ts";
import { HOST } from "../stage/stage.ts";
import { generateKeyPairSync } from "node:crypto";
import { SignJWT } from "@panva/jose";

const UPTIME = { name: "ssh_execute", arguments: { server: "web01", command: "echo hello" } };

const withShared = share<McpHttpScene>(async (use) => {
  await using scene = await McpHttpScene.create();
  await use(scene);
});

Deno.test("broker serve-mcp-http serves a person who signed in at the provider through the client", () =>
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

Deno.test("broker serve-mcp-http separates two agents and applies the groups of a renewed token", () =>
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

Deno.test("broker serve-mcp-http keeps the result of a command after its connection was lost", () =>
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

Deno.test("broker serve-mcp-http writes no token to its log or audit records", () =>
  withShared(async (scene) => {
    const token = await scene.token(AGENTS[0]);
    const session = await scene.openSession(token);
    const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: UPTIME };
    await (await scene.send({ method: "POST", token, session, body })).text();
    await (await scene.send({ method: "POST", token: `${token}x`, session, body })).text();
    await poll(() => scene.broker.log.includes("Bearer token rejected"), { what: "the refusal in the log" });
    const [, payload = token] = token.split(".");
    const written = scene.broker.log +
      JSON.stringify(await scene.scene.records(), (_key, value) => `${value}`);
    assert.equal(written.includes(payload), false);
  }));

Deno.test("broker serve-mcp-http closes open streams when it stops", () =>
  withShared(async (scene) => {
    const token = await scene.token(AGENTS[0]);
    const session = await scene.openSession(token);
    const stream = await scene.send({ method: "GET", token, session });
    assert.equal(stream.status, 200);
    scene.broker.kill("SIGTERM");
    assert.equal(await stream.text(), "");
    assert.equal((await scene.broker.status).code, 0);
  }));

Deno.test("a signer that verifies end users accepts the token that the broker forwards", () =>
  withVerifiedAgent(async ({ stage, provider, url, agent }) => {
    using http = Deno.createHttpClient({ caCerts: [await Deno.readTextFile(stage.init.mtls_ca)] });
    const credentials = { clientId: agent.id, clientSecret: agent.secret, scope: SCOPE };
    const transport = new StreamableHTTPClientTransport(new URL(url), {
      authProvider: new ClientCredentialsProvider({ ...credentials, expectedIssuer: provider.issuer }),
      fetch: (input, init) => fetch(input, { ...init, client: http }),
    });
    const client = new Client({ name: "test", version: "1" });
    await client.connect(transport);
    const run = { name: "ssh_execute", arguments: { server: HOST, command: "echo verified" } };
    const result = await client.callTool(run);
    assert.match(JSON.stringify(result.content), /verified/);
    await client.close();
    const records = await Deno.readTextFile(stage.init.signer_audit_log);
    assert.match(records, /"caller":"broker-local".*"outcome":"issued"/);
    assert.match(records, /agent-1/);
  }));

async function call(client: Client, name: string, args: Record<string, unknown>) {
  const { content, isError, structuredContent } = await client.callTool({ name, arguments: args });
  const [block] = content;
  return {
    isError: isError === true,
    text: block?.type === "text" ? block.text : "",
    structured: (structuredContent ?? {}) as Record<string, unknown>,
  };
}

/** Forged tokens, derived from a valid token of the provider. */
async function forgeries(good: string): Promise<Readonly<Record<string, string>>> {
  const [header = "", payload = "", signature = ""] = good.split(".");
  const claims = JSON.parse(
    new TextDecoder().decode(Uint8Array.fromBase64(payload, { alphabet: "base64url" })),
  );
  const encode = (value: object) =>
    new TextEncoder().encode(JSON.stringify(value)).toBase64({ alphabet: "base64url", omitPadding: true });
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const sign = (alg: string, key: Parameters<SignJWT["sign"]>[0]) =>
    new SignJWT(claims).setProtectedHeader({ alg, kid: "k1", typ: "at+jwt" }).sign(key);
  const keys = await (await fetch(`${claims.iss}/jwks`)).text();
  return {
    "no JWT": "opaque",
    "a token cut short": good.slice(0, -10),
    "a token with more behind it": `${good}.x`,
    "another's name under the provider's signature": `${header}.${
      encode({ ...claims, sub: "root" })
    }.${signature}`,
    "no signature": `${header}.${payload}.`,
    "alg none": `${encode({ alg: "none", typ: "at+jwt" })}.${payload}.`,
    "a stranger's key under the provider's name": await sign("RS256", privateKey),
    "the provider's public keys as a secret": await sign("HS256", new TextEncoder().encode(keys)),
  };
}

const withOther = share<McpHttpScene>(async (use) => {
  await using scene = await McpHttpScene.create();
  await use(scene);
});

Deno.test("an invalid token is rejected, without a request to the signer or the host", () =>
  withOther(async (scene) => {
    const good = await scene.token(AGENTS[0]);
    const session = await scene.openSession(good);
    const file = `${scene.scene.dir}/ran`;
    const params = { name: "ssh_execute", arguments: { server: "web01", command: `touch ${file}` } };
    const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params };
    const ask = async (token: string, headers: Record<string, string> = {}) => {
      const response = await scene.send({ method: "POST", token, session, body, headers });
      await response.text();
      return [response.status, response.headers.get("www-authenticate")?.split(" ")[0]];
    };
    const elsewhere = await scene.token(AGENTS[0], { resource: `${scene.url}2` });
    const scopeless = await scene.token(AGENTS[0], { scope: "" });
    const forged = await forgeries(good);
    for (const [name, token] of [...Object.entries(forged), ["for another resource", elsewhere]] as const) {
      assert.deepEqual(await ask(token), [401, "Bearer"], name);
    }
    for (const authorization of ["", "Bearer", `Basic ${good}`, good, `Bearer ${good}, Bearer ${good}`]) {
      assert.deepEqual(await ask("", { authorization }), [401, "Bearer"], authorization.slice(0, 10));
    }
    assert.deepEqual(await ask(scopeless), [403, "Bearer"]);

    assert.deepEqual(scene.scene.signer.requests, []);
    await assert.rejects(Deno.stat(file), Deno.errors.NotFound);
    assert.deepEqual(await scene.scene.records(), []);
    for (const token of Object.values(forged).filter((token) => token.length > 20)) {
      assert.ok(!scene.broker.log.includes(token.slice(0, -1)));
    }
    assert.equal((await ask(good))[0], 200);
    await poll(() => Deno.stat(file).then(() => true, () => false), { what: "the command to run" });
  }));

Deno.test("a session can be used on every connection of its owner and on none of another agent", () =>
  withOther(async (scene) => {
    const [owner, elsewhere, stranger] = await Promise.all([
      scene.connect(AGENTS[0]),
      scene.connect(AGENTS[0]),
      scene.connect(AGENTS[1]),
    ]);
    const opened = await call(owner, "ssh_session_open", { server: "web01", mode: "shell" });
    assert.equal(opened.isError, false, opened.text);
    const session_id = String(opened.structured["session_id"]);
    await call(owner, "ssh_session_exec", { session_id, command: "x=mine" });

    const file = `${scene.scene.dir}/stolen`;
    const foreign = `session "${session_id}" does not belong to the current caller`;
    const taken = [
      await call(stranger, "ssh_session_exec", { session_id, command: `touch ${file}` }),
      await call(stranger, "ssh_session_close", { session_id }),
    ];
    assert.deepEqual(taken.map(({ isError, text }) => [isError, text]), [[true, foreign], [true, foreign]]);
    for (const unknown of ["0".repeat(24), session_id.toUpperCase(), "", "../x"]) {
      const { isError, text } = await call(stranger, "ssh_session_exec", {
        session_id: unknown,
        command: "true",
      });
      assert.deepEqual([isError, text], [true, `unknown or expired session: "${unknown}"`]);
    }
    await assert.rejects(Deno.stat(file), Deno.errors.NotFound);
    assert.deepEqual(scene.scene.signer.requests.filter(({ end_user }) => end_user === AGENTS[1].id), []);

    const { structured } = await call(elsewhere, "ssh_session_exec", { session_id, command: "echo $x" });
    assert.equal(structured["stdout"], "mine\n");
    assert.equal((await call(elsewhere, "ssh_session_close", { session_id })).text, "closed");
    await Promise.all([owner, elsewhere, stranger].map((client) => client.close()));
  }));
