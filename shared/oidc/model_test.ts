import assert from "node:assert/strict";
import { clockSkewSeconds, endUserOidcConfig } from "./model.ts";

const BLOCK = { issuer: "https://login.example/realm", audience: "https://mcp.example" };

Deno.test("endUserOidcConfig fills in what is not there", () => {
  assert.deepEqual(endUserOidcConfig.parse(BLOCK), {
    ...BLOCK,
    required_scopes: [],
    user_claim: "sub",
    groups_claim: "",
    max_token_age_seconds: 0,
    clock_skew_seconds: 0,
  });
});

Deno.test.each([
  { issuer: "https://login.example" },
  { issuer: "https://login.example/" },
  { issuer: "http://127.0.0.1:8080/realm" },
  { issuer: "http://localhost:8080" },
  { issuer: "http://[::1]:8080" },
])("endUserOidcConfig takes the issuer $issuer", ({ issuer }) => {
  assert.equal(endUserOidcConfig.parse({ ...BLOCK, issuer }).issuer, issuer);
});

Deno.test.each([
  { name: "no issuer", change: { issuer: undefined } },
  { name: "plain HTTP", change: { issuer: "http://login.example" } },
  { name: "plain HTTP to a name that begins like loopback", change: { issuer: "http://127.0.0.1.example" } },
  { name: "a file", change: { issuer: "file:///etc" } },
  { name: "an issuer with a query", change: { issuer: "https://login.example/?x" } },
  { name: "an issuer with a password", change: { issuer: "https://u:p@login.example" } },
  { name: "an empty audience", change: { audience: "" } },
  { name: "an empty user claim", change: { user_claim: "" } },
  { name: "two scopes in one", change: { required_scopes: ["a b"] } },
  { name: "a negative age", change: { max_token_age_seconds: -1 } },
  { name: "an unknown key", change: { audiences: [] } },
])("endUserOidcConfig refuses $name", ({ change }) => {
  assert.equal(endUserOidcConfig.safeParse({ ...BLOCK, ...change }).success, false);
});

Deno.test.each([
  { clock_skew_seconds: 0, expected: 60 },
  { clock_skew_seconds: 5, expected: 5 },
  { clock_skew_seconds: -1, expected: 0 },
])("clockSkewSeconds() of $clock_skew_seconds is $expected", ({ clock_skew_seconds, expected }) => {
  assert.equal(clockSkewSeconds(endUserOidcConfig.parse({ ...BLOCK, clock_skew_seconds })), expected);
});
