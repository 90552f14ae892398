import assert from "node:assert/strict";
import {
  type BearerRefusal,
  challengeResponse,
  metadataPaths,
  metadataUrl,
  readBearer,
  respondToMetadata,
} from "./oauth.ts";

const ENDPOINT = "https://localhost/mcp";

Deno.test.each([
  { name: "the usual form", value: "Bearer abc.def.ghi" },
  { name: "a scheme in lower case", value: "bearer abc.def.ghi" },
  { name: "a scheme in upper case", value: "BEARER abc.def.ghi" },
  { name: "several spaces and a tab between", value: "Bearer  \tabc.def.ghi" },
])("readBearer() returns the token of $name", ({ value }) => {
  const headers = new Headers({ authorization: value });
  assert.deepEqual(readBearer({ headers, url: ENDPOINT }), "abc.def.ghi");
});

Deno.test.each<{ name: string; headers: [string, string][]; url?: string }>([
  { name: "no header", headers: [] },
  { name: "an empty header", headers: [["authorization", ""]] },
  { name: "the scheme alone", headers: [["authorization", "Bearer"]] },
  { name: "the token alone", headers: [["authorization", "abc.def.ghi"]] },
  { name: "another scheme", headers: [["authorization", "Basic YTpi"]] },
  { name: "a scheme with the same prefix", headers: [["authorization", "BearerX abc"]] },
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
])("challengeResponse() returns $status on $refusal.code", async ({ refusal, status, detail, header }) => {
  const response = challengeResponse(
    { resourceUrl: "https://gateway.example/mcp", scopes: ["mcp", "ssh"] },
    refusal,
  );
  assert.equal(response.status, status);
  assert.equal(response.headers.get("www-authenticate"), header);
  assert.equal((await response.json()).detail, detail);
});

Deno.test("challengeResponse() omits the scope if none is required", () => {
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
])("metadataUrl() of $resource has a path in metadataPaths()", ({ resource, url, paths }) => {
  assert.equal(metadataUrl(resource), url);
  assert.deepEqual(metadataPaths(resource), new Set(paths));
  assert.ok(metadataPaths(resource).has(new URL(url).pathname));
});

Deno.test("respondToMetadata() returns the resource metadata to pages of any origin", async () => {
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

Deno.test("respondToMetadata() omits scopes_supported if no scope is required", async () => {
  const response = respondToMetadata("GET", { ...RESOURCE, scopes: [] });
  assert.equal(Object.hasOwn(await response.json(), "scopes_supported"), false);
});

Deno.test("respondToMetadata() answers a CORS preflight", () => {
  const response = respondToMetadata("OPTIONS", RESOURCE);
  assert.equal(response.status, 204);
  assert.equal(response.headers.get("access-control-allow-headers"), "Content-Type, MCP-Protocol-Version");
});

Deno.test.each([{ method: "POST" }, { method: "HEAD" }, { method: "DELETE" }])(
  "respondToMetadata() returns 405 on $method",
  async ({ method }) => {
    const response = respondToMetadata(method, RESOURCE);
    assert.equal(response.status, 405);
    assert.equal(response.headers.get("allow"), "GET, OPTIONS");
    assert.equal((await response.json()).detail, "Method not allowed");
  },
);
