import assert from "node:assert/strict";
import { brokerConfig } from "./config.ts";

const CONFIG = {
  signer: { url: "https://127.0.0.1:9443", client_cert: "a", client_key: "b", ca: "c" },
  audit_log: "log/audit.log",
  audit_key: "audit.seed",
};
const OAUTH = { issuer: "https://login.example", audience: "https://gateway.example/mcp" };

Deno.test("brokerConfig takes an oauth block and a resource_url", () => {
  const config = brokerConfig.parse({
    ...CONFIG,
    oauth: OAUTH,
    resource_url: "https://gateway.example:8443/mcp",
  });
  assert.equal(config.oauth?.user_claim, "sub");
  assert.equal(config.resource_url, "https://gateway.example:8443/mcp");
});

Deno.test("brokerConfig needs neither", () => {
  const config = brokerConfig.parse(CONFIG);
  assert.deepEqual([config.oauth, config.resource_url], [undefined, ""]);
});

Deno.test.each([
  { name: "plain http", change: { resource_url: "http://gateway.example/mcp" } },
  { name: "plain http on loopback", change: { resource_url: "http://127.0.0.1/mcp" } },
  { name: "no URL", change: { resource_url: "gateway.example" } },
  { name: "a query", change: { resource_url: "https://gateway.example/mcp?x" } },
  { name: "a fragment", change: { resource_url: "https://gateway.example/mcp#x" } },
  { name: "a user", change: { resource_url: "https://a:b@gateway.example/mcp" } },
  { name: "a quote", change: { resource_url: 'https://gateway.example/"mcp' } },
  { name: "an unknown key in oauth", change: { oauth: { ...OAUTH, scopes: ["mcp"] } } },
  { name: "a scope with a quote", change: { oauth: { ...OAUTH, required_scopes: ['a"b'] } } },
  { name: "an oauth block without audience", change: { oauth: { issuer: OAUTH.issuer } } },
])("brokerConfig refuses $name", ({ change }) => {
  assert.equal(brokerConfig.safeParse({ ...CONFIG, ...change }).success, false);
});
