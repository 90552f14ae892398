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
const EMAIL = { user_claim: "email" };

type Row = readonly [name: string, claims: object, config?: Partial<EndUserOidcConfig>];

const emails = (...values: readonly unknown[]): readonly Row[] =>
  values.map((email_verified) => [
    `an address with email_verified ${JSON.stringify(email_verified)}`,
    { email: "alice@example.com", email_verified },
    EMAIL,
  ]);

/** Accepted claims by the resulting user. */
const ACCEPTED: Readonly<Record<string, readonly Row[]>> = {
  alice: [
    ["audience in a list", { aud: ["x", AUDIENCE] }],
    ["a second until expiry", { exp: NOW + 1 }],
    ["an unverified address that is not the user claim", { email_verified: false }],
    ["I6: nbf at the edge of the tolerance", { nbf: NOW + 60 }],
    ["nbf within a wider tolerance", { nbf: NOW + 90 }, { clock_skew_seconds: 90 }],
    ["no iat where age does not matter", { iat: undefined }],
    ["the greatest age", { iat: NOW - 160 }, AGE],
    ["I6: iat at the edge of the future", { iat: NOW + 60 }, AGE],
    ["all scopes", { scope: "b c a" }, SCOPES],
    ["a list of scopes", { scp: ["a", "b"] }, SCOPES],
    ["groups that the config does not require", { groups: ["x"] }],
  ],
  bot: [["another user claim", { azp: "bot" }, { user_claim: "azp" }]],
  "alice@example.com": emails(true, "true", undefined),
};

/** Rejected claims by the reason. */
const REFUSED: Readonly<Record<string, readonly Row[]>> = {
  "token is for another audience": [
    ["another audience", { aud: "x" }],
    ["a list of other audiences", { aud: ["x"] }],
    ["an audience with the same prefix", { aud: `${AUDIENCE}/` }],
    ["no audience", { aud: undefined }],
  ],
  "token is from another issuer": [
    ["another issuer", { iss: `${ISSUER}/` }],
    ["no issuer", { iss: undefined }],
  ],
  "token expired": [["expiry now, without tolerance", { exp: NOW }]],
  "exp claim absent or not numeric": [
    ["no expiry", { exp: undefined }],
    ["expiry as text", { exp: `${NOW + 300}` }],
  ],
  "user claim absent or not a string": [
    ["no user", { sub: undefined }],
    ["an empty user", { sub: "" }],
    ["a number for a user", { sub: 7 }],
  ],
  "email address not verified": emails(false, "false", null),
  "user claim has control characters or spaces": [
    ["a space in the user", { sub: "a role=b" }],
    ["a wide space in the user", { sub: "a\u2003b" }],
    ["a newline in the user", { sub: "a\n" }],
  ],
  "token not valid yet": [
    ["I6: nbf beyond the tolerance", { nbf: NOW + 61 }],
    ["I6: nbf without tolerance", { nbf: NOW + 1 }, { clock_skew_seconds: -1 }],
  ],
  "nbf claim not numeric": [["nbf as text", { nbf: "0" }]],
  "iat claim absent or not numeric": [
    ["I5: no iat if a maximum age is set", { iat: undefined }, AGE],
    ["iat as text", { iat: `${NOW}` }, AGE],
  ],
  "token too old": [
    ["too great an age", { iat: NOW - 161 }, AGE],
    ["too great an age without tolerance", { iat: NOW - 101 }, { ...AGE, clock_skew_seconds: -5 }],
  ],
  "token issued in the future": [["I6: iat in the future", { iat: NOW + 61 }, AGE]],
  "insufficient scope": [
    ["a missing scope", { scope: "a bb" }, SCOPES],
    ["no scopes", {}, SCOPES],
    ["a list with two scopes in one", { scp: ["a b"] }, SCOPES],
    ["scope text before the list", { scope: "a", scp: ["a", "b"] }, SCOPES],
  ],
  "groups claim absent or neither a list nor a string": [
    ["I5: no groups claim", {}, GROUPS],
    ["I5: null for groups", { groups: null }, GROUPS],
    ["empty text for groups", { groups: "" }, GROUPS],
    ["an object for groups", { groups: { x: 1 } }, GROUPS],
  ],
  "groups claim has control characters or spaces": [
    ["a space in a group", { groups: ["x", "y z"] }, GROUPS],
    ["a newline in the only group", { groups: "x\n" }, GROUPS],
  ],
};

function decide(claims: object, config: Partial<EndUserOidcConfig> = {}) {
  const checked = endUserOidcConfig.parse({ issuer: ISSUER, audience: AUDIENCE, ...config });
  const parsed = parseClaims(new TextEncoder().encode(JSON.stringify({ ...CLAIMS, ...claims })));
  assert.ok(parsed !== undefined);
  return decideEndUser(parsed, checked, NOW * 1000);
}

const rows = (table: Readonly<Record<string, readonly Row[]>>) =>
  Object.entries(table).flatMap(([result, each]) =>
    each.map(([name, claims, config]) => ({ name, claims, config, result }))
  );

Deno.test.each(rows(ACCEPTED))(
  "decideEndUser() accepts a token with $name",
  ({ claims, config, result }) => assert.deepEqual(decide(claims, config), verified(result)),
);

Deno.test.each(rows(REFUSED))(
  "decideEndUser() refuses a token with $name",
  ({ claims, config, result }) => assert.deepEqual(decide(claims, config), refused(result)),
);

Deno.test.each<{ name: string; groups: unknown; expected: readonly string[] }>([
  { name: "a list", groups: ["x", "y"], expected: ["x", "y"] },
  { name: "a list with other things", groups: ["x", 1, null, ""], expected: ["x"] },
  { name: "an empty list", groups: [], expected: [] },
  { name: "a list without any group", groups: [1], expected: [] },
  { name: "one group as text", groups: "x", expected: ["x"] },
])("decideEndUser() reads groups from $name", ({ groups, expected }) => {
  assert.deepEqual(decide({ groups }, GROUPS), verified("alice", expected));
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
  { name: "of a type that is not a text", header: { typ: 1 }, accepted: false },
  {
    name: "with a logout event",
    claims: { typ: "Bearer", events: { "http://schemas.openid.net/event/backchannel-logout": {} } },
    accepted: false,
  },
])("isAccessToken() of a token $name is $accepted", ({ header = {}, claims = {}, accepted }) => {
  assert.equal(isAccessToken({ ...header }, { ...CLAIMS, ...claims }), accepted);
});

Deno.test("decideEndUser() ignores claims in a __proto__ of the payload", () => {
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
  { name: "invalid UTF-8", bytes: Uint8Array.of(0x22, 0xff, 0x22) },
])("parseClaims() returns no claims for $name", ({ bytes }) => {
  assert.equal(parseClaims(bytes), undefined);
});

Deno.test("parseClaims() reads an escaped claim correctly whatever was parsed before", () => {
  const { before, text } = escapeKey(JSON.stringify({ ...CLAIMS, nbf: NOW + 3600 }), "nbf");
  const parse = (text: string) => parseClaims(new TextEncoder().encode(text));
  JSON.parse(before);
  parse(before);
  assert.equal(parse(text)?.["nbf"], NOW + 3600);
});

const BLOCK = { issuer: ISSUER, audience: AUDIENCE };

Deno.test("endUserOidcConfig fills in defaults for missing keys", () => {
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
])("endUserOidcConfig accepts the issuer $issuer", ({ issuer }) => {
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
])("endUserOidcConfig rejects $name", ({ change }) => {
  assert.equal(endUserOidcConfig.safeParse({ ...BLOCK, ...change }).success, false);
});

Deno.test.each([
  { clock_skew_seconds: 0, expected: 60 },
  { clock_skew_seconds: 5, expected: 5 },
  { clock_skew_seconds: -1, expected: 0 },
])("clockSkewSeconds() of $clock_skew_seconds is $expected", ({ clock_skew_seconds, expected }) => {
  assert.equal(clockSkewSeconds(endUserOidcConfig.parse({ ...BLOCK, clock_skew_seconds })), expected);
});
