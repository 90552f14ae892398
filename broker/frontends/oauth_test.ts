import assert from "node:assert/strict";
import {
  type BearerRefusal,
  challengeResponse,
  metadataPaths,
  metadataUrl,
  readBearer,
  respondToMetadata,
} from "./oauth.ts";
import { type EndUserOidcConfig, endUserOidcConfig } from "@gateway/shared/oidc/model";
import { loadEndUserVerifier } from "@gateway/shared/oidc";
import { createIssuerKey, createTokenIssuer, FakeClock, type TokenIssuer } from "@gateway/shared/testing";
import { McpHttpFixture, RESOURCE_URL, statelessHeaders, statelessRpc } from "../testing/mcp_http_fixture.ts";

const ENDPOINT = "https://localhost/mcp";

Deno.test.each([
  { name: "the usual form", value: "Bearer abc.def.ghi" },
  { name: "a scheme in lower case", value: "bearer abc.def.ghi" },
  { name: "a scheme in upper case", value: "BEARER abc.def.ghi" },
  { name: "several blanks and a tab between", value: "Bearer  \tabc.def.ghi" },
])("readBearer() takes $name", ({ value }) => {
  const headers = new Headers({ authorization: value });
  assert.deepEqual(readBearer({ headers, url: ENDPOINT }), "abc.def.ghi");
});

Deno.test.each<{ name: string; headers: [string, string][]; url?: string }>([
  { name: "no header", headers: [] },
  { name: "an empty header", headers: [["authorization", ""]] },
  { name: "the scheme alone", headers: [["authorization", "Bearer"]] },
  { name: "the token alone", headers: [["authorization", "abc.def.ghi"]] },
  { name: "another scheme", headers: [["authorization", "Basic YTpi"]] },
  { name: "a scheme that only begins alike", headers: [["authorization", "BearerX abc"]] },
  { name: "three fields", headers: [["authorization", "Bearer abc def"]] },
  { name: "two headers", headers: [["authorization", "Bearer abc"], ["authorization", "Bearer def"]] },
  { name: "two headers, the first empty", headers: [["authorization", ""], ["authorization", "Bearer def"]] },
  { name: "a token in another header", headers: [["x-access-token", "abc"], ["cookie", "access_token=abc"]] },
  { name: "a token in the URL", headers: [], url: `${ENDPOINT}?access_token=abc` },
])("readBearer() finds no token in $name", ({ headers, url = ENDPOINT }) => {
  assert.deepEqual(readBearer({ headers: new Headers(headers), url }), { code: "no_token" });
});

Deno.test("readBearer() rejects a token that is also in the URL", () => {
  const headers = new Headers({ authorization: "Bearer abc" });
  assert.deepEqual(readBearer({ headers, url: `${ENDPOINT}?access_token=abc` }), {
    code: "invalid_request",
    reason: "a token must not be in the URL",
  });
});

const METADATA_URL = "https://gateway.example/.well-known/oauth-protected-resource/mcp";
const METADATA = `resource_metadata="${METADATA_URL}"`;

Deno.test.each<{ refusal: BearerRefusal; status: number; detail: string; header: string }>([
  {
    refusal: { code: "no_token" },
    status: 401,
    detail: "no bearer token",
    header: `Bearer ${METADATA}, scope="mcp ssh"`,
  },
  {
    refusal: { code: "invalid_request", reason: "a token must not be in the URL" },
    status: 400,
    detail: "a token must not be in the URL",
    header: `Bearer ${METADATA}, scope="mcp ssh", error="invalid_request"`,
  },
  {
    refusal: { code: "invalid_token", reason: "token expired" },
    status: 401,
    detail: "invalid token: token expired",
    header: `Bearer ${METADATA}, scope="mcp ssh", error="invalid_token"`,
  },
  {
    refusal: { code: "insufficient_scope", reason: "insufficient scope" },
    status: 403,
    detail: "insufficient scope",
    header: `Bearer ${METADATA}, scope="mcp ssh", error="insufficient_scope"`,
  },
])("challengeResponse() answers $status to $refusal.code", async ({ refusal, status, detail, header }) => {
  const response = challengeResponse(
    { resourceUrl: "https://gateway.example/mcp", scopes: ["mcp", "ssh"] },
    refusal,
  );
  assert.equal(response.status, status);
  assert.equal(response.headers.get("www-authenticate"), header);
  assert.equal((await response.json()).detail, detail);
});

Deno.test("challengeResponse() names no scope where none is required", () => {
  const response = challengeResponse({ resourceUrl: "https://gateway.example/mcp", scopes: [] }, {
    code: "no_token",
  });
  assert.equal(response.headers.get("www-authenticate"), `Bearer ${METADATA}`);
});

const WELL_KNOWN = "/.well-known/oauth-protected-resource";
const RESOURCE = {
  resourceUrl: "https://gateway.example/mcp",
  issuer: "https://login.example/realm",
  scopes: ["mcp", "ssh"],
};

// The second row is the example of RFC 9728 section 3.1.
Deno.test.each([
  {
    resource: "https://gateway.example",
    url: `https://gateway.example${WELL_KNOWN}`,
    paths: [WELL_KNOWN, `${WELL_KNOWN}/`],
  },
  {
    resource: "https://resource.example.com/resource1",
    url: `https://resource.example.com${WELL_KNOWN}/resource1`,
    paths: [WELL_KNOWN, `${WELL_KNOWN}/resource1`, `/resource1${WELL_KNOWN}`],
  },
  {
    resource: "https://gateway.example:8443/a/b/",
    url: `https://gateway.example:8443${WELL_KNOWN}/a/b/`,
    paths: [WELL_KNOWN, `${WELL_KNOWN}/a/b/`, `${WELL_KNOWN}/a/b`, `/a/b${WELL_KNOWN}`],
  },
])("metadataUrl() of $resource is one of metadataPaths()", ({ resource, url, paths }) => {
  assert.equal(metadataUrl(resource), url);
  assert.deepEqual(metadataPaths(resource), new Set(paths));
  assert.ok(metadataPaths(resource).has(new URL(url).pathname));
});

Deno.test("respondToMetadata() describes the resource to pages of any origin", async () => {
  const response = respondToMetadata("GET", RESOURCE);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "application/json");
  assert.equal(response.headers.get("access-control-allow-origin"), "*");
  assert.equal(response.headers.get("access-control-allow-methods"), "GET, OPTIONS");
  assert.deepEqual(await response.json(), {
    resource: RESOURCE.resourceUrl,
    authorization_servers: [RESOURCE.issuer],
    scopes_supported: RESOURCE.scopes,
    bearer_methods_supported: ["header"],
    resource_name: "gateway (MCP)",
  });
});

Deno.test("respondToMetadata() leaves out scopes where none is required", async () => {
  const response = respondToMetadata("GET", { ...RESOURCE, scopes: [] });
  assert.equal(Object.hasOwn(await response.json(), "scopes_supported"), false);
});

Deno.test("respondToMetadata() lets a browser ask first", () => {
  const response = respondToMetadata("OPTIONS", RESOURCE);
  assert.equal(response.status, 204);
  assert.equal(response.headers.get("access-control-allow-headers"), "Content-Type, MCP-Protocol-Version");
});

Deno.test.each([{ method: "POST" }, { method: "HEAD" }, { method: "DELETE" }])(
  "respondToMetadata() answers 405 to $method",
  async ({ method }) => {
    const response = respondToMetadata(method, RESOURCE);
    assert.equal(response.status, 405);
    assert.equal(response.headers.get("allow"), "GET, OPTIONS");
    assert.equal((await response.json()).detail, "Method not allowed");
  },
);

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

Deno.test("createMcpHttp() accepts the provider's new key immediately and rejects the old one", async () => {
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
