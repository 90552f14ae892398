import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import type { Client } from "@modelcontextprotocol/client";
import { SignJWT } from "@panva/jose";
import { poll } from "../stage/poll.ts";
import { share } from "../stage/share.ts";
import { AGENTS, McpHttpScene } from "./mcp_http_scene.ts";

async function call(client: Client, name: string, args: Record<string, unknown>) {
  const { content, isError, structuredContent } = await client.callTool({ name, arguments: args });
  const [block] = content;
  return {
    isError: isError === true,
    text: block?.type === "text" ? block.text : "",
    structured: (structuredContent ?? {}) as Record<string, unknown>,
  };
}

/** Tokens that somebody made who is not the provider, from one that it made. */
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

const withShared = share<McpHttpScene>(async (use) => {
  await using scene = await McpHttpScene.create();
  await use(scene);
});

Deno.test("a token that is broken in any way opens nothing: no signer hears of it, and no host", () =>
  withShared(async (scene) => {
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

Deno.test("a session is its owner's on every connection, and nobody else's on any", () =>
  withShared(async (scene) => {
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
