import assert from "node:assert/strict";
import { FakeClock } from "../testing/fake_clock.ts";
import { endUserOidcConfig } from "./model.ts";
import { createIssuerKey, createTokenIssuer, type TokenIssuer } from "../testing/token_issuer.ts";
import {
  AUDIENCE,
  CLAIMS,
  ISSUER,
  NOW,
  openVerifierScene,
  OTHER_KEY,
  refused,
  RSA_KEY,
  SECRET_MARK,
  verified,
} from "../testing/verifier_scene.ts";
import { loadEndUserVerifier } from "./mod.ts";

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

/** A token that is signed with a text of the attacker's choice instead of a private key. */
async function signSymmetric(secret: string, header: object): Promise<string> {
  const input = `${encode(header)}.${encode(CLAIMS)}`;
  const bytes = new TextEncoder().encode(secret);
  const hmac = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, [
    "sign",
  ]);
  const signature = new Uint8Array(await crypto.subtle.sign("HMAC", hmac, new TextEncoder().encode(input)));
  return `${input}.${signature.toBase64({ alphabet: "base64url", omitPadding: true })}`;
}

Deno.test.each([
  { name: "an RSA key", signer: RSA_KEY },
  { name: "an elliptic curve key", signer: ecKey },
  { name: "an Edwards curve key", signer: edKey },
])("verify() believes a token signed with $name", async ({ signer }) => {
  const { issuer, verifier } = await openVerifierScene({}, [RSA_KEY, ecKey, edKey]);
  assert.deepEqual(await verifier.verify(await issuer.sign(CLAIMS, signer)), verified("alice"));
});

Deno.test.each<{
  readonly name: string;
  readonly make: (issuer: TokenIssuer) => string | Promise<string>;
  readonly reason?: string;
}>([
  { name: "no text at all", make: () => "" },
  { name: "text that is not a token", make: () => "alice" },
  { name: "five parts, an encrypted token", make: () => "a.b.c.d.e" },
  { name: "parts that are not JSON", make: () => "YQ.YQ.YQ" },
  { name: "a scheme before it", make: async (issuer) => `Bearer ${await issuer.sign(CLAIMS, RSA_KEY)}` },
  { name: "a line end behind it", make: async (issuer) => `${await issuer.sign(CLAIMS, RSA_KEY)}\n` },
  {
    name: "a header that the library could misread",
    make: async (issuer) =>
      splice(await issuer.sign(CLAIMS, RSA_KEY), 0, encodeText(raw`{"alg":"RS256","\u006bid":"k1"}`)),
  },
  {
    name: "a list for claims",
    make: async (issuer) => splice(await issuer.sign(CLAIMS, RSA_KEY), 1, encode([1])),
  },
  {
    name: "an ID token",
    make: (issuer) => issuer.sign({ ...CLAIMS, nonce: "n" }, RSA_KEY),
    reason: "token is an ID or logout token, not an access token",
  },
  {
    name: "more than 16 KiB",
    make: (issuer) => issuer.sign({ ...CLAIMS, pad: "x".repeat(13_000) }, RSA_KEY),
  },
  {
    name: "changed claims",
    make: async (issuer) => splice(await issuer.sign(CLAIMS, RSA_KEY), 1, encode({ ...CLAIMS, sub: "root" })),
    reason: "signature does not verify",
  },
  {
    name: "a changed signature",
    make: async (issuer) => splice(await issuer.sign(CLAIMS, RSA_KEY), 2, "A".repeat(342)),
    reason: "signature does not verify",
  },
  {
    name: "a signature by a stranger under a known key id",
    make: (issuer) => issuer.sign(CLAIMS, { ...OTHER_KEY, kid: "k1" }),
    reason: "signature does not verify",
  },
  {
    name: "an unknown key id",
    make: (issuer) => issuer.sign(CLAIMS, OTHER_KEY),
    reason: "no key of the issuer fits the token",
  },
  { name: "no signature", make: () => `${encode({ alg: "none" })}.${encode(CLAIMS)}.` },
  {
    name: "alg none and a signature",
    make: () => `${encode({ alg: "none" })}.${encode(CLAIMS)}.AAAA`,
    reason: "signature algorithm not allowed",
  },
  { name: "no alg", make: () => `${encode({ kid: "k1" })}.${encode(CLAIMS)}.AAAA` },
  {
    name: "a symmetric signature made with the public key",
    make: () => signSymmetric(RSA_KEY.jwk.n ?? "", { alg: "HS256", kid: "k1" }),
    reason: "signature algorithm not allowed",
  },
  {
    name: "an algorithm that the issuer does not use",
    make: (issuer) => issuer.sign(CLAIMS, ecKey),
    reason: "signature algorithm not allowed",
  },
  {
    name: "a critical header",
    make: (issuer) => withHeader(issuer, { crit: ["b64"], b64: true }),
    reason: "token has critical header parameters",
  },
  {
    name: "an empty list of critical headers",
    make: (issuer) => withHeader(issuer, { crit: [] }),
    reason: "token has critical header parameters",
  },
  {
    name: "a key of its own in the header",
    make: (issuer) => issuer.sign(CLAIMS, { ...OTHER_KEY, kid: "x" }, { jwk: OTHER_KEY.jwk }),
    reason: "no key of the issuer fits the token",
  },
])("verify() refuses $name", async ({ make, reason = "token malformed" }) => {
  const { issuer, verifier } = await openVerifierScene();
  assert.deepEqual(await verifier.verify(await make(issuer)), refused(reason));
});

/** A valid token with a different header, so that its signature is never checked. */
async function withHeader(issuer: TokenIssuer, header: object): Promise<string> {
  return splice(await issuer.sign(CLAIMS, RSA_KEY), 0, encode({ alg: "RS256", kid: "k1", ...header }));
}

Deno.test("a token that names no key is tried with every key that fits", async () => {
  const { issuer, verifier } = await openVerifierScene({}, [RSA_KEY, OTHER_KEY, ecKey]);
  const token = await issuer.sign(CLAIMS, { ...OTHER_KEY, kid: undefined });
  assert.deepEqual(await verifier.verify(token), verified("alice"));
  issuer.published = [];
  const stranger = await createIssuerKey("s");
  const strange = await issuer.sign(CLAIMS, { ...stranger, kid: undefined });
  assert.deepEqual(await verifier.verify(strange), refused("signature does not verify"));
});

Deno.test("a symmetric key that the issuer publishes is not used, whatever it advertises", async () => {
  const issuer = createTokenIssuer(ISSUER, [RSA_KEY]);
  const secret = "0".repeat(32);
  const k = new TextEncoder().encode(secret).toBase64({ alphabet: "base64url", omitPadding: true });
  issuer.published = [{ kty: "oct", k, kid: "h1", alg: "HS256" }];
  issuer.metadata = { id_token_signing_alg_values_supported: ["HS256", "none", "RS256"] };
  const config = endUserOidcConfig.parse({ issuer: ISSUER, audience: AUDIENCE });
  const clock = new FakeClock(NOW * 1000);
  const verifier = await loadEndUserVerifier(config, { fetch: issuer.fetch, clock });
  const token = await signSymmetric(secret, { alg: "HS256", kid: "h1" });
  assert.deepEqual(await verifier.verify(token), refused("signature algorithm not allowed"));
});

Deno.test("an issuer that advertises no algorithms is believed to use RS256 only", async () => {
  const issuer = createTokenIssuer(ISSUER, [RSA_KEY, ecKey]);
  issuer.metadata = {};
  const config = endUserOidcConfig.parse({ issuer: ISSUER, audience: AUDIENCE });
  const clock = new FakeClock(NOW * 1000);
  const verifier = await loadEndUserVerifier(config, { fetch: issuer.fetch, clock });
  assert.deepEqual(await verifier.verify(await issuer.sign(CLAIMS, RSA_KEY)), verified("alice"));
  const other = await verifier.verify(await issuer.sign(CLAIMS, ecKey));
  assert.deepEqual(other, refused("signature algorithm not allowed"));
});

Deno.test("I13: nothing of a token stands in any result", async () => {
  const { issuer, clock, verifier } = await openVerifierScene({ required_scopes: ["x"] });
  const token = await issuer.sign(CLAIMS, RSA_KEY);
  const parts = token.split(".");
  const foreign = await issuer.sign(CLAIMS, OTHER_KEY);
  const results = [
    await verifier.verify(token),
    await verifier.verify(`${token}x`),
    await verifier.verify(foreign),
  ];
  results.push(await verifier.verify(`${token} `));
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

Deno.test("a new key of the issuer is fetched when a token names it, once for all that wait", async () => {
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

Deno.test("unknown key ids cause one fetch in ten seconds", async () => {
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

Deno.test("a bad signature causes a fetch only when the token names no key", async () => {
  const { issuer, clock, verifier } = await openVerifierScene();
  const sign = (kid: string | undefined) => issuer.sign(CLAIMS, { ...OTHER_KEY, kid });
  await clock.advance(10_000);
  assert.deepEqual(await verifier.verify(await sign("k1")), refused("signature does not verify"));
  assert.equal(issuer.requests.length, 2);
  issuer.published = [OTHER_KEY.jwk];
  assert.deepEqual(await verifier.verify(await sign(undefined)), verified("alice"));
  assert.equal(issuer.requests.length, 3);
});

Deno.test("keys are fetched again when the clock was set back", async () => {
  const { issuer, clock, verifier } = await openVerifierScene();
  await clock.advance(-60_000);
  await verifier.verify(await issuer.sign(CLAIMS, RSA_KEY));
  assert.equal(issuer.requests.length, 3);
});

Deno.test("the age of keys counts from when they were asked for", async () => {
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

Deno.test("tokens for others cause no fetch", async () => {
  const { issuer, clock, verifier } = await openVerifierScene();
  await clock.advance(10_000);
  await verifier.verify(await issuer.sign({ ...CLAIMS, aud: "x" }, OTHER_KEY));
  await verifier.verify(await issuer.sign({ ...CLAIMS, exp: NOW }, OTHER_KEY));
  assert.equal(issuer.requests.length, 2);
});

Deno.test("a key that the issuer withdrew is not accepted after a minute, or after a reload", async () => {
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

Deno.test("without the issuer no token is believed when the keys are old, and again when it is back", async () => {
  const { issuer, clock, verifier } = await openVerifierScene();
  const token = await issuer.sign({ ...CLAIMS, exp: NOW + 3600 }, RSA_KEY);
  issuer.answers.set("jwks", () => Promise.reject(new TypeError("connection refused")));
  assert.deepEqual(await verifier.verify(token), verified("alice"), "the keys are fresh");
  await clock.advance(60_000);
  assert.deepEqual(
    await verifier.verify(token),
    refused("Cannot use the OpenID provider: its key set cannot be fetched"),
  );
  assert.deepEqual(
    await verifier.verify(token),
    refused("Cannot use the OpenID provider: its keys could not be fetched just now"),
  );
  issuer.answers.delete("jwks");
  await clock.advance(10_000);
  assert.deepEqual(await verifier.verify(token), verified("alice"));
});

Deno.test("a token that expires while keys are fetched is refused", async () => {
  const { issuer, clock, verifier } = await openVerifierScene();
  await clock.advance(10_000);
  const arrived = Promise.withResolvers<Response>();
  issuer.answers.set("jwks", () => arrived.promise);
  const result = verifier.verify(await issuer.sign({ ...CLAIMS, exp: NOW + 12 }, OTHER_KEY));
  await clock.advance(2_000);
  arrived.resolve(Response.json({ keys: [OTHER_KEY.jwk] }));
  assert.deepEqual(await result, refused("token expired"));
});

Deno.test.each<[name: string, keys: unknown, reason: string]>([
  ["no list", { k1: RSA_KEY.jwk }, "Cannot use the OpenID provider: its key set is not a list of keys"],
  [
    "too many keys",
    Array(101).fill(RSA_KEY.jwk),
    "Cannot use the OpenID provider: its key set is not a list of keys",
  ],
  ["things that are not keys", [null, 7, "x", [], {}], "no key of the issuer fits the token"],
  ["a key without numbers", [{ kty: "RSA", kid: "k2", alg: "RS256" }], "the issuer's key cannot be used"],
  ["numbers instead of text", [{ ...OTHER_KEY.jwk, n: 7 }], "the issuer's key cannot be used"],
  ["a key for encryption", [{ ...OTHER_KEY.jwk, use: "enc" }], "no key of the issuer fits the token"],
  ["a key of another algorithm", [{ ...OTHER_KEY.jwk, alg: "PS256" }], "no key of the issuer fits the token"],
  ["a short RSA key", [{
    ...OTHER_KEY.jwk,
    n: "u1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gunVTLw7onLRnrq0_IzW7yWR7QkrmBL7jTKEn5u",
  }], "the issuer's key cannot be used"],
])("a key set with %s makes no token good", async (_name, keys, reason) => {
  const { issuer, clock, verifier } = await openVerifierScene();
  issuer.answers.set("jwks", () => Response.json({ keys }));
  await clock.advance(10_000);
  assert.deepEqual(await verifier.verify(await issuer.sign(CLAIMS, OTHER_KEY)), refused(reason));
});
