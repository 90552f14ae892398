import assert from "node:assert/strict";
import { metadataPaths, metadataUrl, respondToMetadata } from "./oauth.ts";

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
