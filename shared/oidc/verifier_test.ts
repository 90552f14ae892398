import assert from "node:assert/strict";
import { createIssuerKey, type IssuerKey, type TokenIssuer } from "../testing/token_issuer.ts";
import {
  CLAIMS,
  NOW,
  openVerifierScene,
  OTHER_KEY,
  refused,
  RSA_KEY,
  SECRET_MARK,
  verified,
} from "../testing/verifier_scene.ts";

const ecKey = await createIssuerKey("e1", "ES256");
const edKey = await createIssuerKey("d1", "EdDSA");

/** Replaces one of the three parts of a token. */
function splice(token: string, index: number, value: string): string {
  return token.split(".").map((part, at) => at === index ? value : part).join(".");
}

const { raw } = String;
const encodeText = (text: string) =>
  new TextEncoder().encode(text).toBase64({ alphabet: "base64url", omitPadding: true });
const encode = (value: unknown) => encodeText(JSON.stringify(value));

/** A token that is signed with a text of the attacker's choice as a symmetric key. */
async function signSymmetric(secret: string, header: object): Promise<string> {
  const input = `${encode(header)}.${encode(CLAIMS)}`;
  const bytes = new TextEncoder().encode(secret);
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const hmac = await crypto.subtle.importKey("raw", bytes, algorithm, false, ["sign"]);
  const signature = new Uint8Array(await crypto.subtle.sign("HMAC", hmac, new TextEncoder().encode(input)));
  return `${input}.${signature.toBase64({ alphabet: "base64url", omitPadding: true })}`;
}

Deno.test.each([
  { name: "an RSA key", signer: RSA_KEY },
  { name: "an elliptic curve key", signer: ecKey },
  { name: "an Edwards curve key", signer: edKey },
])("verify() accepts a token signed with $name", async ({ signer }) => {
  const { issuer, verifier } = await openVerifierScene({}, [RSA_KEY, ecKey, edKey]);
  assert.deepEqual(await verifier.verify(await issuer.sign(CLAIMS, signer)), verified("alice"));
});

type Make = (issuer: TokenIssuer, token: string) => string | Promise<string>;

/** A token without a signature. */
const unsigned = (header: object, signature: string) => `${encode(header)}.${encode(CLAIMS)}.${signature}`;
/** A valid token with a different header, so that its signature is never checked. */
const withHeader = (header: object): Make => (_issuer, token) =>
  splice(token, 0, encode({ alg: "RS256", kid: "k1", ...header }));
const signedBy = (key: IssuerKey, header = {}): Make => (issuer) => issuer.sign(CLAIMS, key, header);
const claiming = (claims: object): Make => (issuer) => issuer.sign({ ...CLAIMS, ...claims }, RSA_KEY);

/** Rejected tokens by the reason. `make` receives a valid token. */
const REFUSED: Readonly<Record<string, readonly (readonly [name: string, make: Make])[]>> = {
  "token malformed": [
    ["no text at all", () => ""],
    ["text that is not a token", () => "alice"],
    ["five parts, an encrypted token", () => "a.b.c.d.e"],
    ["parts that are not JSON", () => "YQ.YQ.YQ"],
    ["a scheme before it", (_issuer, token) => `Bearer ${token}`],
    ["a trailing newline", (_issuer, token) => `${token}\n`],
    [
      "a header that the library could misread",
      (_issuer, token) => splice(token, 0, encodeText(raw`{"alg":"RS256","\u006bid":"k1"}`)),
    ],
    ["a list for claims", (_issuer, token) => splice(token, 1, encode([1]))],
    ["more than 16 KiB", claiming({ pad: "x".repeat(13_000) })],
    ["no signature", () => unsigned({ alg: "none" }, "")],
    ["no alg", () => unsigned({ kid: "k1" }, "AAAA")],
  ],
  "token is an ID or logout token, not an access token": [["an ID token", claiming({ nonce: "n" })]],
  "signature does not verify": [
    ["changed claims", (_issuer, token) => splice(token, 1, encode({ ...CLAIMS, sub: "root" }))],
    ["a changed signature", (_issuer, token) => splice(token, 2, "A".repeat(342))],
    ["an attacker's signature under a known key ID", signedBy({ ...OTHER_KEY, kid: "k1" })],
  ],
  "no key of the issuer fits the token": [
    ["an unknown key id", signedBy(OTHER_KEY)],
    ["an attacker's key in the header", signedBy({ ...OTHER_KEY, kid: "x" }, { jwk: OTHER_KEY.jwk })],
  ],
  "signature algorithm not allowed": [
    ["alg none and a signature", () => unsigned({ alg: "none" }, "AAAA")],
    [
      "a symmetric signature made with the public key",
      () => signSymmetric(RSA_KEY.jwk.n ?? "", { alg: "HS256", kid: "k1" }),
    ],
    ["an algorithm that the issuer does not use", signedBy(ecKey)],
  ],
  "token has critical header parameters": [
    ["a critical header", withHeader({ crit: ["b64"], b64: true })],
    ["an empty list of critical headers", withHeader({ crit: [] })],
  ],
};

Deno.test.each(
  Object.entries(REFUSED).flatMap(([reason, rows]) => rows.map(([name, make]) => ({ name, make, reason }))),
)("verify() rejects $name", async ({ make, reason }) => {
  const { issuer, verifier } = await openVerifierScene();
  const token = await make(issuer, await issuer.sign(CLAIMS, RSA_KEY));
  assert.deepEqual(await verifier.verify(token), refused(reason));
});

Deno.test("a token that names no key is verified with every matching key", async () => {
  const { issuer, verifier } = await openVerifierScene({}, [RSA_KEY, OTHER_KEY, ecKey]);
  const token = await issuer.sign(CLAIMS, { ...OTHER_KEY, kid: undefined });
  assert.deepEqual(await verifier.verify(token), verified("alice"));
  issuer.published = [];
  const stranger = await createIssuerKey("s");
  const strange = await issuer.sign(CLAIMS, { ...stranger, kid: undefined });
  assert.deepEqual(await verifier.verify(strange), refused("signature does not verify"));
});

Deno.test("a symmetric key of the issuer is never used, whatever the issuer advertises", async () => {
  const secret = "0".repeat(32);
  const { verifier } = await openVerifierScene({}, [RSA_KEY], (issuer) => {
    issuer.published = [{ kty: "oct", k: encodeText(secret), kid: "h1", alg: "HS256" }];
    issuer.metadata = { id_token_signing_alg_values_supported: ["HS256", "none", "RS256"] };
  });
  const token = await signSymmetric(secret, { alg: "HS256", kid: "h1" });
  assert.deepEqual(await verifier.verify(token), refused("signature algorithm not allowed"));
});

Deno.test("an issuer that advertises no algorithms is limited to RS256", async () => {
  const { issuer, verifier } = await openVerifierScene(
    {},
    [RSA_KEY, ecKey],
    (issuer) => issuer.metadata = {},
  );
  assert.deepEqual(await verifier.verify(await issuer.sign(CLAIMS, RSA_KEY)), verified("alice"));
  const other = await verifier.verify(await issuer.sign(CLAIMS, ecKey));
  assert.deepEqual(other, refused("signature algorithm not allowed"));
});

Deno.test("I13: no result contains any part of a token", async () => {
  const { issuer, clock, verifier } = await openVerifierScene({ required_scopes: ["x"] });
  const token = await issuer.sign(CLAIMS, RSA_KEY);
  const parts = token.split(".");
  const foreign = await issuer.sign(CLAIMS, OTHER_KEY);
  const results = [];
  for (const text of [token, `${token}x`, foreign, `${token} `]) results.push(await verifier.verify(text));
  issuer.answers.set("jwks", () => Promise.reject(new Error(`cannot send ${token}`)));
  await clock.advance(10_000);
  results.push(await verifier.verify(foreign));
  for (const result of results) {
    assert.equal(result.kind, "refused");
    const shown = Deno.inspect(result, { depth: 10, showHidden: true });
    for (const part of [...parts, SECRET_MARK, "alice"]) assert.ok(!shown.includes(part), shown);
  }
});

Deno.test("keys are fetched once at load, not for each token", async () => {
  const { issuer, verifier } = await openVerifierScene();
  for (let count = 0; count < 3; count++) await verifier.verify(await issuer.sign(CLAIMS, RSA_KEY));
  assert.deepEqual(issuer.requests, ["openid-configuration", "jwks"]);
});

Deno.test("a new key of the issuer is fetched once for all tokens that name it", async () => {
  const { issuer, clock, verifier } = await openVerifierScene();
  issuer.published = [OTHER_KEY.jwk];
  await clock.advance(10_000);
  const token = await issuer.sign(CLAIMS, OTHER_KEY);
  const results = await Promise.all([verifier.verify(token), verifier.verify(token), verifier.verify(token)]);
  assert.deepEqual(results, Array(3).fill(verified("alice")));
  assert.equal(issuer.requests.length, 3);
  const old = await verifier.verify(await issuer.sign(CLAIMS, RSA_KEY));
  assert.deepEqual(old, refused("no key of the issuer fits the token"));
});

Deno.test("unknown key IDs cause at most one fetch in ten seconds", async () => {
  const { issuer, clock, verifier } = await openVerifierScene();
  const fetches = () => issuer.requests.filter((name) => name === "jwks").length;
  const attack = async (count: number) => {
    for (let index = 0; index < count; index++) {
      await verifier.verify(await issuer.sign(CLAIMS, { ...OTHER_KEY, kid: `x${index}` }));
    }
  };
  await attack(5);
  assert.equal(fetches(), 1);
  await clock.advance(10_000);
  await attack(5);
  assert.equal(fetches(), 2);
  await clock.advance(9_999);
  await attack(5);
  assert.equal(fetches(), 2);
});

Deno.test("a bad signature causes a fetch only if the token names no key", async () => {
  const { issuer, clock, verifier } = await openVerifierScene();
  const sign = (kid: string | undefined) => issuer.sign(CLAIMS, { ...OTHER_KEY, kid });
  await clock.advance(10_000);
  assert.deepEqual(await verifier.verify(await sign("k1")), refused("signature does not verify"));
  assert.equal(issuer.requests.length, 2);
  issuer.published = [OTHER_KEY.jwk];
  assert.deepEqual(await verifier.verify(await sign(undefined)), verified("alice"));
  assert.equal(issuer.requests.length, 3);
});

Deno.test("keys are fetched again after the clock was set back", async () => {
  const { issuer, clock, verifier } = await openVerifierScene();
  await clock.advance(-60_000);
  await verifier.verify(await issuer.sign(CLAIMS, RSA_KEY));
  assert.equal(issuer.requests.length, 3);
});

Deno.test("the age of keys counts from the request for them", async () => {
  const { issuer, clock, verifier } = await openVerifierScene();
  const token = await issuer.sign({ ...CLAIMS, exp: NOW + 3600 }, RSA_KEY);
  const arrived = Promise.withResolvers<Response>();
  issuer.answers.set("jwks", () => arrived.promise);
  await clock.advance(60_000);
  const slow = verifier.verify(token);
  await clock.advance(9_000);
  arrived.resolve(Response.json({ keys: [RSA_KEY.jwk] }));
  assert.deepEqual(await slow, verified("alice"));
  issuer.answers.set("jwks", () => Response.json({ keys: [] }));
  await clock.advance(51_000);
  assert.deepEqual(await verifier.verify(token), refused("no key of the issuer fits the token"));
});

Deno.test("tokens with another audience or an expired time cause no fetch", async () => {
  const { issuer, clock, verifier } = await openVerifierScene();
  await clock.advance(10_000);
  await verifier.verify(await issuer.sign({ ...CLAIMS, aud: "x" }, OTHER_KEY));
  await verifier.verify(await issuer.sign({ ...CLAIMS, exp: NOW }, OTHER_KEY));
  assert.equal(issuer.requests.length, 2);
});

Deno.test("a withdrawn key of the issuer is rejected after one minute or after a reload", async () => {
  const { issuer, clock, verifier } = await openVerifierScene();
  const token = await issuer.sign({ ...CLAIMS, exp: NOW + 3600 }, RSA_KEY);
  issuer.published = [OTHER_KEY.jwk];
  await clock.advance(59_999);
  assert.deepEqual(await verifier.verify(token), verified("alice"));
  await clock.advance(1);
  assert.deepEqual(await verifier.verify(token), refused("no key of the issuer fits the token"));
  issuer.published = [RSA_KEY.jwk];
  verifier.expireKeys();
  assert.deepEqual(await verifier.verify(token), verified("alice"));
  issuer.published = [OTHER_KEY.jwk];
  verifier.expireKeys();
  assert.deepEqual(await verifier.verify(token), refused("no key of the issuer fits the token"));
});

Deno.test("tokens are rejected while keys are old and the issuer is down, and accepted once it is back", async () => {
  const { issuer, clock, verifier } = await openVerifierScene();
  const token = await issuer.sign({ ...CLAIMS, exp: NOW + 3600 }, RSA_KEY);
  issuer.answers.set("jwks", () => Promise.reject(new TypeError("connection refused")));
  assert.deepEqual(await verifier.verify(token), verified("alice"), "the keys are fresh");
  await clock.advance(60_000);
  for (const what of ["its key set cannot be fetched", "its keys could not be fetched just now"]) {
    assert.deepEqual(await verifier.verify(token), refused(`Cannot use the OpenID provider: ${what}`));
  }
  issuer.answers.delete("jwks");
  await clock.advance(10_000);
  assert.deepEqual(await verifier.verify(token), verified("alice"));
});

Deno.test("a token that expires during a fetch of keys is rejected", async () => {
  const { issuer, clock, verifier } = await openVerifierScene();
  await clock.advance(10_000);
  const arrived = Promise.withResolvers<Response>();
  issuer.answers.set("jwks", () => arrived.promise);
  const result = verifier.verify(await issuer.sign({ ...CLAIMS, exp: NOW + 12 }, OTHER_KEY));
  await clock.advance(2_000);
  arrived.resolve(Response.json({ keys: [OTHER_KEY.jwk] }));
  assert.deepEqual(await result, refused("token expired"));
});

const NO_LIST = "Cannot use the OpenID provider: its key set is not a list of keys";
const NO_FIT = "no key of the issuer fits the token";
const UNUSABLE = "the issuer's key cannot be used";
const SHORT = "u1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gunVTLw7onLRnrq0_IzW7yWR7QkrmBL7jTKEn5u";

Deno.test.each<[name: string, keys: unknown, reason: string]>([
  ["no list", { k1: RSA_KEY.jwk }, NO_LIST],
  ["too many keys", Array(101).fill(RSA_KEY.jwk), NO_LIST],
  ["things that are not keys", [null, 7, "x", [], {}], NO_FIT],
  ["a key without numbers", [{ kty: "RSA", kid: "k2", alg: "RS256" }], UNUSABLE],
  ["numbers instead of text", [{ ...OTHER_KEY.jwk, n: 7 }], UNUSABLE],
  ["a key for encryption", [{ ...OTHER_KEY.jwk, use: "enc" }], NO_FIT],
  ["a key of another algorithm", [{ ...OTHER_KEY.jwk, alg: "PS256" }], NO_FIT],
  ["a short RSA key", [{ ...OTHER_KEY.jwk, n: SHORT }], UNUSABLE],
])("a key set with %s makes every token invalid", async (_name, keys, reason) => {
  const { issuer, clock, verifier } = await openVerifierScene();
  issuer.answers.set("jwks", () => Response.json({ keys }));
  await clock.advance(10_000);
  assert.deepEqual(await verifier.verify(await issuer.sign(CLAIMS, OTHER_KEY)), refused(reason));
});
