import assert from "node:assert/strict";
import { type EndUserOidcConfig, endUserOidcConfig } from "@gateway/shared/oidc/model";
import { loadEndUserVerifier } from "@gateway/shared/oidc";
import { createIssuerKey, createTokenIssuer, FakeClock, type TokenIssuer } from "@gateway/shared/testing";
import { McpHttpFixture, RESOURCE_URL, statelessHeaders, statelessRpc } from "../testing/mcp_http_fixture.ts";

const ISSUER = "https://login.example";
const NOW = 1_700_000_000;
const CLAIMS = {
  iss: ISSUER,
  aud: RESOURCE_URL,
  sub: "alice",
  exp: NOW + 300,
  iat: NOW - 10,
  scope: "mcp",
  groups: ["web"],
};
const CONFIG = {
  issuer: ISSUER,
  audience: RESOURCE_URL,
  required_scopes: ["mcp"],
  groups_claim: "groups",
  max_token_age_seconds: 100,
};
const REQUEST = {
  headers: statelessHeaders("tools/call", "ssh_list_servers"),
  body: statelessRpc(1, "tools/call", { name: "ssh_list_servers", arguments: {} }),
};

const key = await createIssuerKey("k1");
const otherKey = await createIssuerKey("k2");

class Scene implements AsyncDisposable {
  readonly issuer: TokenIssuer;
  readonly clock: FakeClock;
  readonly frontend: McpHttpFixture;

  private constructor(parts: Pick<Scene, "issuer" | "clock" | "frontend">) {
    this.issuer = parts.issuer;
    this.clock = parts.clock;
    this.frontend = parts.frontend;
  }

  static async create(change: Partial<EndUserOidcConfig> = {}): Promise<Scene> {
    const issuer = createTokenIssuer(ISSUER, [key]);
    const clock = new FakeClock(NOW * 1000);
    const config = endUserOidcConfig.parse({ ...CONFIG, ...change });
    const verifier = await loadEndUserVerifier(config, { fetch: issuer.fetch, clock }, "oauth");
    return new Scene({ issuer, clock, frontend: new McpHttpFixture({ verifier }) });
  }

  /** Lists the servers with a token. */
  send(token: string): Promise<Response> {
    return this.frontend.send({ ...REQUEST, token });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.frontend[Symbol.asyncDispose]();
  }
}

const encode = (value: unknown) =>
  new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value))
    .toBase64({ alphabet: "base64url", omitPadding: true });

/** A token that is "signed" with the provider's public key as the secret. */
async function signWithPublicKey(): Promise<string> {
  const input = `${encode({ alg: "HS256", kid: "k1" })}.${encode(CLAIMS)}`;
  const secret = new TextEncoder().encode(JSON.stringify(key.jwk));
  const hmac = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, [
    "sign",
  ]);
  const signature = new Uint8Array(await crypto.subtle.sign("HMAC", hmac, new TextEncoder().encode(input)));
  return `${input}.${signature.toBase64({ alphabet: "base64url", omitPadding: true })}`;
}

const sign = (claims: object, by = key) => createTokenIssuer(ISSUER, [by]).sign({ ...CLAIMS, ...claims }, by);

Deno.test.each<{ name: string; token: () => Promise<string> }>([
  { name: "a token as it should be", token: () => sign({}) },
  { name: "an audience in a list", token: () => sign({ aud: ["x", RESOURCE_URL] }) },
  { name: "an nbf within the tolerance", token: () => sign({ nbf: NOW + 60 }) },
  { name: "scopes in a list", token: () => sign({ scope: undefined, scp: ["mcp", "x"] }) },
  { name: "one group as text", token: () => sign({ groups: "web" }) },
  { name: "groups of which some are not text", token: () => sign({ groups: ["web", 7] }) },
])("createMcpHttp() serves $name", async ({ token }) => {
  await using scene = await Scene.create();
  const response = await scene.send(await token());
  assert.equal(response.status, 200);
  assert.deepEqual((await response.json()).result.structuredContent.servers.length, 1);
});

Deno.test.each<[name: string, token: () => Promise<string> | string, reason: string]>([
  ["no JWT", () => "opaque", "token malformed"],
  ["two parts", () => `${encode({ alg: "RS256" })}.${encode(CLAIMS)}`, "token malformed"],
  ["algorithm none", () => `${encode({ alg: "none" })}.${encode(CLAIMS)}.`, "token malformed"],
  [
    "algorithm none with a signature",
    () => `${encode({ alg: "none", kid: "k1" })}.${encode(CLAIMS)}.AA`,
    "signature algorithm not allowed",
  ],
  ["HS256 with the public key as secret", signWithPublicKey, "signature algorithm not allowed"],
  ["another issuer", () => sign({ iss: "https://evil.example" }), "token is from another issuer"],
  ["another audience", () => sign({ aud: ISSUER }), "token is for another audience"],
  ["no audience", () => sign({ aud: undefined }), "token is for another audience"],
  ["an expiry that has passed", () => sign({ exp: NOW - 1 }), "token expired"],
  ["an expiry that is now", () => sign({ exp: NOW }), "token expired"],
  ["no expiry", () => sign({ exp: undefined }), "exp claim absent or not numeric"],
  ["an nbf to come", () => sign({ nbf: NOW + 61 }), "token not valid yet"],
  ["no iat", () => sign({ iat: undefined }), "iat claim absent or not numeric"],
  ["an iat to come", () => sign({ iat: NOW + 61 }), "token issued in the future"],
  ["an iat long ago", () => sign({ iat: NOW - 161 }), "token too old"],
  ["no user", () => sign({ sub: undefined }), "user claim absent or not a string"],
  ["an empty user", () => sign({ sub: "" }), "user claim absent or not a string"],
  ["no groups", () => sign({ groups: undefined }), "groups claim absent or neither a list nor a string"],
  ["an unknown key", () => sign({}, otherKey), "no key of the issuer fits the token"],
  ["another key under a known name", () => sign({}, { ...otherKey, kid: "k1" }), "signature does not verify"],
])("createMcpHttp() answers 401 to a token with %s", async (_name, token, reason) => {
  await using scene = await Scene.create();
  const response = await scene.send(await token());
  assert.equal(response.status, 401);
  assert.match(response.headers.get("www-authenticate") ?? "", /error="invalid_token"$/);
  assert.equal((await response.json()).detail, `invalid token: ${reason}`);
});

Deno.test.each<{ name: string; claims: object }>([
  { name: "no scope", claims: { scope: undefined } },
  { name: "another scope", claims: { scope: "mcpx x" } },
  { name: "two scopes in one of a list", claims: { scope: undefined, scp: ["mcp x"] } },
])("createMcpHttp() answers 403 to a token with $name", async ({ claims }) => {
  await using scene = await Scene.create();
  const response = await scene.send(await sign(claims));
  assert.equal(response.status, 403);
  assert.match(response.headers.get("www-authenticate") ?? "", /scope="mcp", error="insufficient_scope"$/);
  assert.equal((await response.json()).detail, "insufficient scope");
});

Deno.test("createMcpHttp() shows a user without groups no server", async () => {
  await using scene = await Scene.create();
  const response = await scene.send(await sign({ groups: [] }));
  assert.deepEqual((await response.json()).result.structuredContent, { servers: [] });
});

Deno.test("createMcpHttp() takes a new key of the provider at once, and an old one no more", async () => {
  await using scene = await Scene.create();
  await scene.clock.advance(20_000);
  scene.issuer.published = [otherKey.jwk];
  assert.equal((await scene.send(await sign({}, otherKey))).status, 200);
  assert.equal((await scene.send(await sign({}))).status, 401);
});

Deno.test("createMcpHttp() serves on while the provider is down, until its keys are old", async () => {
  await using scene = await Scene.create({ max_token_age_seconds: 0 });
  scene.issuer.answers.set("jwks", () => new Response(null, { status: 503 }));
  const token = await sign({ exp: NOW + 3600 });
  assert.equal((await scene.send(token)).status, 200);
  await scene.clock.advance(11 * 60_000);
  assert.equal((await scene.send(token)).status, 401);
  scene.issuer.answers.delete("jwks");
  await scene.clock.advance(20_000);
  assert.equal((await scene.send(token)).status, 200);
});
