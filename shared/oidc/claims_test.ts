import assert from "node:assert/strict";
import { escapeKey } from "../testing/escaped_key.ts";
import { clockSkewSeconds, type EndUserOidcConfig, endUserOidcConfig } from "./model.ts";
import { decideEndUser, isAccessToken, parseClaims } from "./mod.ts";

const ISSUER = "https://login.example/realm";
const AUDIENCE = "https://mcp.example";
const NOW = 1_700_000_000;
const CLAIMS = { iss: ISSUER, aud: AUDIENCE, sub: "alice", exp: NOW + 300, iat: NOW - 10 };

const verified = (endUser: string, groups: readonly string[] | null = null) => ({
  kind: "verified",
  endUser,
  groups,
});
const refused = (reason: string) => ({
  kind: "refused",
  reason,
  code: reason === "insufficient scope" ? "insufficient_scope" : "invalid_token",
});

const GROUPS = { groups_claim: "groups" };
const AGE = { max_token_age_seconds: 100 };
const SCOPES = { required_scopes: ["a", "b"] };

Deno.test.each<{
  readonly name: string;
  readonly config?: Partial<EndUserOidcConfig>;
  readonly claims?: object;
  readonly expected: object;
}>([
  { name: "audience in a list", claims: { aud: ["x", AUDIENCE] }, expected: verified("alice") },
  { name: "another audience", claims: { aud: "x" }, expected: refused("token is for another audience") },
  {
    name: "a list of other audiences",
    claims: { aud: ["x"] },
    expected: refused("token is for another audience"),
  },
  {
    name: "an audience that only begins alike",
    claims: { aud: `${AUDIENCE}/` },
    expected: refused("token is for another audience"),
  },
  { name: "no audience", claims: { aud: undefined }, expected: refused("token is for another audience") },
  {
    name: "another issuer",
    claims: { iss: `${ISSUER}/` },
    expected: refused("token is from another issuer"),
  },
  { name: "no issuer", claims: { iss: undefined }, expected: refused("token is from another issuer") },
  { name: "a second until expiry", claims: { exp: NOW + 1 }, expected: verified("alice") },
  { name: "expiry now, without tolerance", claims: { exp: NOW }, expected: refused("token expired") },
  { name: "no expiry", claims: { exp: undefined }, expected: refused("exp claim absent or not numeric") },
  {
    name: "expiry as text",
    claims: { exp: `${NOW + 300}` },
    expected: refused("exp claim absent or not numeric"),
  },
  { name: "no user", claims: { sub: undefined }, expected: refused("user claim absent or not a string") },
  ...[[true, true], ["true", true], [undefined, true], [false, false], ["false", false], [null, false]].map(
    ([email_verified, isGood]) => ({
      name: `an address with email_verified ${JSON.stringify(email_verified)}`,
      config: { user_claim: "email" },
      claims: { email: "alice@example.com", email_verified },
      expected: isGood === true ? verified("alice@example.com") : refused("email address not verified"),
    }),
  ),
  {
    name: "an unverified address that is not the user claim",
    claims: { email_verified: false },
    expected: verified("alice"),
  },
  { name: "an empty user", claims: { sub: "" }, expected: refused("user claim absent or not a string") },
  { name: "a number for a user", claims: { sub: 7 }, expected: refused("user claim absent or not a string") },
  {
    name: "a blank in the user",
    claims: { sub: "a role=b" },
    expected: refused("user claim has control characters or spaces"),
  },
  {
    name: "a wide blank in the user",
    claims: { sub: "a\u2003b" },
    expected: refused("user claim has control characters or spaces"),
  },
  {
    name: "a line end in the user",
    claims: { sub: "a\n" },
    expected: refused("user claim has control characters or spaces"),
  },
  {
    name: "another user claim",
    config: { user_claim: "azp" },
    claims: { azp: "bot" },
    expected: verified("bot"),
  },
  { name: "I6: nbf at the edge of the tolerance", claims: { nbf: NOW + 60 }, expected: verified("alice") },
  {
    name: "I6: nbf behind the tolerance",
    claims: { nbf: NOW + 61 },
    expected: refused("token not valid yet"),
  },
  {
    name: "I6: nbf without tolerance",
    config: { clock_skew_seconds: -1 },
    claims: { nbf: NOW + 1 },
    expected: refused("token not valid yet"),
  },
  {
    name: "nbf within a wider tolerance",
    config: { clock_skew_seconds: 90 },
    claims: { nbf: NOW + 90 },
    expected: verified("alice"),
  },
  { name: "nbf as text", claims: { nbf: "0" }, expected: refused("nbf claim not numeric") },
  { name: "no iat where age does not matter", claims: { iat: undefined }, expected: verified("alice") },
  {
    name: "I5: no iat where age matters",
    config: AGE,
    claims: { iat: undefined },
    expected: refused("iat claim absent or not numeric"),
  },
  {
    name: "iat as text",
    config: AGE,
    claims: { iat: `${NOW}` },
    expected: refused("iat claim absent or not numeric"),
  },
  { name: "the greatest age", config: AGE, claims: { iat: NOW - 160 }, expected: verified("alice") },
  { name: "too great an age", config: AGE, claims: { iat: NOW - 161 }, expected: refused("token too old") },
  {
    name: "too great an age without tolerance",
    config: { ...AGE, clock_skew_seconds: -5 },
    claims: { iat: NOW - 101 },
    expected: refused("token too old"),
  },
  {
    name: "I6: iat at the edge of the future",
    config: AGE,
    claims: { iat: NOW + 60 },
    expected: verified("alice"),
  },
  {
    name: "I6: iat in the future",
    config: AGE,
    claims: { iat: NOW + 61 },
    expected: refused("token issued in the future"),
  },
  { name: "all scopes", config: SCOPES, claims: { scope: "b c a" }, expected: verified("alice") },
  {
    name: "a missing scope",
    config: SCOPES,
    claims: { scope: "a bb" },
    expected: refused("insufficient scope"),
  },
  { name: "no scopes", config: SCOPES, expected: refused("insufficient scope") },
  { name: "a list of scopes", config: SCOPES, claims: { scp: ["a", "b"] }, expected: verified("alice") },
  {
    name: "a list with two scopes in one",
    config: SCOPES,
    claims: { scp: ["a b"] },
    expected: refused("insufficient scope"),
  },
  {
    name: "scope text before the list",
    config: SCOPES,
    claims: { scope: "a", scp: ["a", "b"] },
    expected: refused("insufficient scope"),
  },
  { name: "groups that are not asked for", claims: { groups: ["x"] }, expected: verified("alice") },
  { name: "groups", config: GROUPS, claims: { groups: ["x", "y"] }, expected: verified("alice", ["x", "y"]) },
  {
    name: "groups and other things",
    config: GROUPS,
    claims: { groups: ["x", 1, null, ""] },
    expected: verified("alice", ["x"]),
  },
  {
    name: "an empty list of groups",
    config: GROUPS,
    claims: { groups: [] },
    expected: verified("alice", []),
  },
  {
    name: "a list without any group",
    config: GROUPS,
    claims: { groups: [1] },
    expected: verified("alice", []),
  },
  { name: "one group as text", config: GROUPS, claims: { groups: "x" }, expected: verified("alice", ["x"]) },
  {
    name: "I5: no groups claim",
    config: GROUPS,
    expected: refused("groups claim absent or neither a list nor a string"),
  },
  {
    name: "I5: null for groups",
    config: GROUPS,
    claims: { groups: null },
    expected: refused("groups claim absent or neither a list nor a string"),
  },
  {
    name: "empty text for groups",
    config: GROUPS,
    claims: { groups: "" },
    expected: refused("groups claim absent or neither a list nor a string"),
  },
  {
    name: "an object for groups",
    config: GROUPS,
    claims: { groups: { x: 1 } },
    expected: refused("groups claim absent or neither a list nor a string"),
  },
  {
    name: "a blank in a group",
    config: GROUPS,
    claims: { groups: ["x", "y z"] },
    expected: refused("groups claim has control characters or spaces"),
  },
  {
    name: "a line end in the one group",
    config: GROUPS,
    claims: { groups: "x\n" },
    expected: refused("groups claim has control characters or spaces"),
  },
])("decideEndUser() of a token with $name", ({ config = {}, claims = {}, expected }) => {
  const checked = endUserOidcConfig.parse({ issuer: ISSUER, audience: AUDIENCE, ...config });
  const payload = new TextEncoder().encode(JSON.stringify({ ...CLAIMS, ...claims }));
  const parsed = parseClaims(payload);
  assert.ok(parsed !== undefined);
  assert.deepEqual(decideEndUser(parsed, checked, NOW * 1000), expected);
});

Deno.test.each<{ name: string; header?: object; claims?: object; accepted: boolean }>([
  { name: "without type", accepted: true },
  { name: "of type JWT", header: { typ: "JWT" }, accepted: true },
  { name: "of type at+jwt", header: { typ: "application/AT+jwt" }, accepted: true },
  { name: "of Keycloak with a nonce", claims: { typ: "Bearer", nonce: "n" }, accepted: true },
  { name: "with a nonce, an ID token", claims: { nonce: "n" }, accepted: false },
  { name: "with at_hash, an ID token", claims: { at_hash: "h" }, accepted: false },
  { name: "with c_hash, an ID token", claims: { c_hash: "h" }, accepted: false },
  { name: "of Keycloak's type ID", claims: { typ: "ID" }, accepted: false },
  { name: "of type logout+jwt", header: { typ: "logout+jwt" }, accepted: false },
  { name: "of a type that is no text", header: { typ: 1 }, accepted: false },
  {
    name: "with a logout event",
    claims: { typ: "Bearer", events: { "http://schemas.openid.net/event/backchannel-logout": {} } },
    accepted: false,
  },
])("isAccessToken() of a token $name is $accepted", ({ header = {}, claims = {}, accepted }) => {
  assert.equal(isAccessToken({ ...header }, { ...CLAIMS, ...claims }), accepted);
});

Deno.test("decideEndUser() takes no claim from a __proto__ in the payload", () => {
  const checked = endUserOidcConfig.parse({ issuer: ISSUER, audience: AUDIENCE });
  const { sub: _, ...rest } = CLAIMS;
  const text = JSON.stringify(rest).replace("{", '{"__proto__":{"sub":"root"},');
  const parsed = parseClaims(new TextEncoder().encode(text));
  assert.ok(parsed !== undefined);
  assert.deepEqual(decideEndUser(parsed, checked, NOW * 1000), refused("user claim absent or not a string"));
});

Deno.test.each([
  { name: "text", bytes: new TextEncoder().encode("alice") },
  { name: "a list", bytes: new TextEncoder().encode("[]") },
  { name: "null", bytes: new TextEncoder().encode("null") },
  { name: "what is not UTF-8", bytes: Uint8Array.of(0x22, 0xff, 0x22) },
])("parseClaims() finds no claims in $name", ({ bytes }) => {
  assert.equal(parseClaims(bytes), undefined);
});

Deno.test("parseClaims() reads what the issuer has signed, whatever was read before", () => {
  const { before, text } = escapeKey(JSON.stringify({ ...CLAIMS, nbf: NOW + 3600 }), "nbf");
  const parse = (text: string) => parseClaims(new TextEncoder().encode(text));
  JSON.parse(before);
  parse(before);
  assert.equal(parse(text)?.["nbf"], NOW + 3600);
});

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
