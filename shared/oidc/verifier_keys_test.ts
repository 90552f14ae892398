import assert from "node:assert/strict";
import {
  CLAIMS,
  NOW,
  openVerifierScene,
  OTHER_KEY,
  refused,
  RSA_KEY,
  verified,
} from "../testing/verifier_scene.ts";

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
