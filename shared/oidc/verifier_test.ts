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
  readonly reason: string;
}>([
  { name: "no text at all", make: () => "", reason: "token malformed" },
  { name: "text that is not a token", make: () => "alice", reason: "token malformed" },
  { name: "five parts, an encrypted token", make: () => "a.b.c.d.e", reason: "token malformed" },
  { name: "parts that are not JSON", make: () => "YQ.YQ.YQ", reason: "token malformed" },
  {
    name: "a scheme before it",
    make: async (issuer) => `Bearer ${await issuer.sign(CLAIMS, RSA_KEY)}`,
    reason: "token malformed",
  },
  {
    name: "a line end behind it",
    make: async (issuer) => `${await issuer.sign(CLAIMS, RSA_KEY)}\n`,
    reason: "token malformed",
  },
  {
    name: "a header that the library could misread",
    make: async (issuer) =>
      splice(await issuer.sign(CLAIMS, RSA_KEY), 0, encodeText(raw`{"alg":"RS256","\u006bid":"k1"}`)),
    reason: "token malformed",
  },
  {
    name: "a list for claims",
    make: async (issuer) => splice(await issuer.sign(CLAIMS, RSA_KEY), 1, encode([1])),
    reason: "token malformed",
  },
  {
    name: "an ID token",
    make: (issuer) => issuer.sign({ ...CLAIMS, nonce: "n" }, RSA_KEY),
    reason: "token is an ID or logout token, not an access token",
  },
  {
    name: "more than 16 KiB",
    make: (issuer) => issuer.sign({ ...CLAIMS, pad: "x".repeat(13_000) }, RSA_KEY),
    reason: "token malformed",
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
  {
    name: "no signature",
    make: () => `${encode({ alg: "none" })}.${encode(CLAIMS)}.`,
    reason: "token malformed",
  },
  {
    name: "alg none and a signature",
    make: () => `${encode({ alg: "none" })}.${encode(CLAIMS)}.AAAA`,
    reason: "signature algorithm not allowed",
  },
  {
    name: "no alg",
    make: () => `${encode({ kid: "k1" })}.${encode(CLAIMS)}.AAAA`,
    reason: "token malformed",
  },
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
])("verify() refuses $name", async ({ make, reason }) => {
  const { issuer, verifier } = await openVerifierScene();
  assert.deepEqual(await verifier.verify(await make(issuer)), refused(reason));
});

/** A good token under another header, whose signature is not looked at any more. */
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
