import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { FakeClock } from "../testing/fake_clock.ts";
import { type EndUserOidcConfig, endUserOidcConfig } from "../config/end_user_oidc.ts";
import {
  createIssuerKey,
  createTokenIssuer,
  type IssuerKey,
  type TokenIssuer,
} from "../testing/token_issuer.ts";
import { type EndUserVerifier, loadEndUserVerifier } from "./verifier.ts";

const ISSUER = "https://login.example/realm";
const AUDIENCE = "https://mcp.example";
const NOW = 1_700_000_000;
const SECRET_MARK = "c2VjcmV0bWFyaw";
const CLAIMS = { iss: ISSUER, aud: AUDIENCE, sub: "alice", exp: NOW + 300, iat: NOW - 10, jti: SECRET_MARK };

const key = await createIssuerKey("k1");
const otherKey = await createIssuerKey("k2");
const ecKey = await createIssuerKey("e1", "ES256");
const edKey = await createIssuerKey("d1", "EdDSA");

interface Scene {
  readonly issuer: TokenIssuer;
  readonly clock: FakeClock;
  readonly verifier: EndUserVerifier;
}

async function setUp(
  change: Partial<EndUserOidcConfig> = {},
  keys: readonly IssuerKey[] = [key],
): Promise<Scene> {
  const issuer = createTokenIssuer(change.issuer ?? ISSUER, keys);
  const clock = new FakeClock(NOW * 1000);
  const config = endUserOidcConfig.parse({ issuer: ISSUER, audience: AUDIENCE, ...change });
  return { issuer, clock, verifier: await loadEndUserVerifier(config, { fetch: issuer.fetch, clock }) };
}

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

/** Replaces one of the three parts of a token. */
function splice(token: string, index: number, value: string): string {
  return token.split(".").map((part, at) => at === index ? value : part).join(".");
}

const encode = (value: unknown) =>
  new TextEncoder().encode(JSON.stringify(value)).toBase64({ alphabet: "base64url", omitPadding: true });

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
  { name: "an RSA key", signer: key },
  { name: "an elliptic curve key", signer: ecKey },
  { name: "an Edwards curve key", signer: edKey },
])("verify() believes a token signed with $name", async ({ signer }) => {
  const { issuer, verifier } = await setUp({}, [key, ecKey, edKey]);
  assert.deepEqual(await verifier.verify(await issuer.sign(CLAIMS, signer)), verified("alice"));
});

Deno.test.each<{
  readonly name: string;
  readonly make: (issuer: TokenIssuer) => string | Promise<string>;
  readonly reason: string;
}>([
  { name: "no text at all", make: () => "", reason: "token malformed" },
  { name: "text that is no token", make: () => "alice", reason: "token malformed" },
  { name: "five parts, an encrypted token", make: () => "a.b.c.d.e", reason: "token malformed" },
  { name: "parts that are not JSON", make: () => "YQ.YQ.YQ", reason: "token malformed" },
  {
    name: "a scheme before it",
    make: async (issuer) => `Bearer ${await issuer.sign(CLAIMS, key)}`,
    reason: "token malformed",
  },
  {
    name: "a line end behind it",
    make: async (issuer) => `${await issuer.sign(CLAIMS, key)}\n`,
    reason: "token malformed",
  },
  {
    name: "a list for claims",
    make: async (issuer) => splice(await issuer.sign(CLAIMS, key), 1, encode([1])),
    reason: "token malformed",
  },
  {
    name: "more than 16 KiB",
    make: (issuer) => issuer.sign({ ...CLAIMS, pad: "x".repeat(13_000) }, key),
    reason: "token malformed",
  },
  {
    name: "changed claims",
    make: async (issuer) => splice(await issuer.sign(CLAIMS, key), 1, encode({ ...CLAIMS, sub: "root" })),
    reason: "signature does not verify",
  },
  {
    name: "a changed signature",
    make: async (issuer) => splice(await issuer.sign(CLAIMS, key), 2, "A".repeat(342)),
    reason: "signature does not verify",
  },
  {
    name: "a signature by a stranger under a known key id",
    make: (issuer) => issuer.sign(CLAIMS, { ...otherKey, kid: "k1" }),
    reason: "signature does not verify",
  },
  {
    name: "an unknown key id",
    make: (issuer) => issuer.sign(CLAIMS, otherKey),
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
    make: () => signSymmetric(key.jwk.n ?? "", { alg: "HS256", kid: "k1" }),
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
    make: (issuer) => issuer.sign(CLAIMS, { ...otherKey, kid: "x" }, { jwk: otherKey.jwk }),
    reason: "no key of the issuer fits the token",
  },
])("verify() refuses $name", async ({ make, reason }) => {
  const { issuer, verifier } = await setUp();
  assert.deepEqual(await verifier.verify(await make(issuer)), refused(reason));
});

/** A good token under another header, whose signature is not looked at any more. */
async function withHeader(issuer: TokenIssuer, header: object): Promise<string> {
  return splice(await issuer.sign(CLAIMS, key), 0, encode({ alg: "RS256", kid: "k1", ...header }));
}

Deno.test("a token that names no key is tried with every key that fits", async () => {
  const { issuer, verifier } = await setUp({}, [key, otherKey, ecKey]);
  const token = await issuer.sign(CLAIMS, { ...otherKey, kid: undefined });
  assert.deepEqual(await verifier.verify(token), verified("alice"));
  issuer.published = [];
  const stranger = await createIssuerKey("s");
  const strange = await issuer.sign(CLAIMS, { ...stranger, kid: undefined });
  assert.deepEqual(await verifier.verify(strange), refused("signature does not verify"));
});

Deno.test("a symmetric key that the issuer publishes is not used, whatever it advertises", async () => {
  const issuer = createTokenIssuer(ISSUER, [key]);
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
  const issuer = createTokenIssuer(ISSUER, [key, ecKey]);
  issuer.metadata = {};
  const config = endUserOidcConfig.parse({ issuer: ISSUER, audience: AUDIENCE });
  const clock = new FakeClock(NOW * 1000);
  const verifier = await loadEndUserVerifier(config, { fetch: issuer.fetch, clock });
  assert.deepEqual(await verifier.verify(await issuer.sign(CLAIMS, key)), verified("alice"));
  const other = await verifier.verify(await issuer.sign(CLAIMS, ecKey));
  assert.deepEqual(other, refused("signature algorithm not allowed"));
});

Deno.test("keys are fetched once at load, not for each token", async () => {
  const { issuer, verifier } = await setUp();
  for (let count = 0; count < 3; count++) await verifier.verify(await issuer.sign(CLAIMS, key));
  assert.deepEqual(issuer.requests, ["openid-configuration", "jwks"]);
});

Deno.test("a new key of the issuer is fetched when a token names it, once for all that wait", async () => {
  const { issuer, clock, verifier } = await setUp();
  issuer.published = [otherKey.jwk];
  await clock.advance(10_000);
  const token = await issuer.sign(CLAIMS, otherKey);
  const results = await Promise.all([verifier.verify(token), verifier.verify(token), verifier.verify(token)]);
  assert.deepEqual(results, Array(3).fill(verified("alice")));
  assert.equal(issuer.requests.length, 3);
  const old = await verifier.verify(await issuer.sign(CLAIMS, key));
  assert.deepEqual(old, refused("no key of the issuer fits the token"));
});

Deno.test("unknown key ids cause one fetch in ten seconds", async () => {
  const { issuer, clock, verifier } = await setUp();
  const fetches = () => issuer.requests.filter((name) => name === "jwks").length;
  const attack = async (count: number) => {
    for (let index = 0; index < count; index++) {
      await verifier.verify(await issuer.sign(CLAIMS, { ...otherKey, kid: `x${index}` }));
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
  const { issuer, clock, verifier } = await setUp();
  const sign = (kid: string | undefined) => issuer.sign(CLAIMS, { ...otherKey, kid });
  await clock.advance(10_000);
  assert.deepEqual(await verifier.verify(await sign("k1")), refused("signature does not verify"));
  assert.equal(issuer.requests.length, 2);
  issuer.published = [otherKey.jwk];
  assert.deepEqual(await verifier.verify(await sign(undefined)), verified("alice"));
  assert.equal(issuer.requests.length, 3);
});

Deno.test("keys are fetched anew when the clock was set back", async () => {
  const { issuer, clock, verifier } = await setUp();
  await clock.advance(-60_000);
  await verifier.verify(await issuer.sign(CLAIMS, key));
  assert.equal(issuer.requests.length, 3);
});

Deno.test("the age of keys counts from when they were asked for", async () => {
  const { issuer, clock, verifier } = await setUp();
  const token = await issuer.sign({ ...CLAIMS, exp: NOW + 3600 }, key);
  const arrived = Promise.withResolvers<Response>();
  issuer.answers.set("jwks", () => arrived.promise);
  await clock.advance(600_000);
  const slow = verifier.verify(token);
  await clock.advance(9_000);
  arrived.resolve(Response.json({ keys: [key.jwk] }));
  assert.deepEqual(await slow, verified("alice"));
  issuer.answers.set("jwks", () => Response.json({ keys: [] }));
  await clock.advance(591_000);
  assert.deepEqual(await verifier.verify(token), refused("no key of the issuer fits the token"));
});

Deno.test("tokens for others cause no fetch", async () => {
  const { issuer, clock, verifier } = await setUp();
  await clock.advance(10_000);
  await verifier.verify(await issuer.sign({ ...CLAIMS, aud: "x" }, otherKey));
  await verifier.verify(await issuer.sign({ ...CLAIMS, exp: NOW }, otherKey));
  assert.equal(issuer.requests.length, 2);
});

Deno.test("a key that the issuer took back is not believed after ten minutes", async () => {
  const { issuer, clock, verifier } = await setUp();
  const token = await issuer.sign({ ...CLAIMS, exp: NOW + 3600 }, key);
  issuer.published = [otherKey.jwk];
  await clock.advance(599_999);
  assert.deepEqual(await verifier.verify(token), verified("alice"));
  await clock.advance(1);
  assert.deepEqual(await verifier.verify(token), refused("no key of the issuer fits the token"));
});

Deno.test("without the issuer no token is believed when the keys are old, and again when it is back", async () => {
  const { issuer, clock, verifier } = await setUp();
  const token = await issuer.sign({ ...CLAIMS, exp: NOW + 3600 }, key);
  issuer.answers.set("jwks", () => Promise.reject(new TypeError("connection refused")));
  assert.deepEqual(await verifier.verify(token), verified("alice"), "the keys are fresh");
  await clock.advance(600_000);
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
  const { issuer, clock, verifier } = await setUp();
  await clock.advance(10_000);
  const arrived = Promise.withResolvers<Response>();
  issuer.answers.set("jwks", () => arrived.promise);
  const result = verifier.verify(await issuer.sign({ ...CLAIMS, exp: NOW + 12 }, otherKey));
  await clock.advance(2_000);
  arrived.resolve(Response.json({ keys: [otherKey.jwk] }));
  assert.deepEqual(await result, refused("token expired"));
});

Deno.test.each<{ readonly name: string; readonly keys: unknown; readonly reason: string }>([
  {
    name: "no list",
    keys: { k1: key.jwk },
    reason: "Cannot use the OpenID provider: its key set is not a list of keys",
  },
  {
    name: "too many keys",
    keys: Array(101).fill(key.jwk),
    reason: "Cannot use the OpenID provider: its key set is not a list of keys",
  },
  {
    name: "things that are no keys",
    keys: [null, 7, "x", [], {}],
    reason: "no key of the issuer fits the token",
  },
  {
    name: "a key without numbers",
    keys: [{ kty: "RSA", kid: "k2", alg: "RS256" }],
    reason: "the issuer's key cannot be used",
  },
  {
    name: "numbers that are no text",
    keys: [{ ...otherKey.jwk, n: 7 }],
    reason: "the issuer's key cannot be used",
  },
  {
    name: "a key for encryption",
    keys: [{ ...otherKey.jwk, use: "enc" }],
    reason: "no key of the issuer fits the token",
  },
  {
    name: "a key of another algorithm",
    keys: [{ ...otherKey.jwk, alg: "PS256" }],
    reason: "no key of the issuer fits the token",
  },
  {
    name: "a short RSA key",
    keys: [{
      ...otherKey.jwk,
      n: "u1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gunVTLw7onLRnrq0_IzW7yWR7QkrmBL7jTKEn5u",
    }],
    reason: "the issuer's key cannot be used",
  },
])("a key set with $name makes no token good", async ({ keys, reason }) => {
  const { issuer, clock, verifier } = await setUp();
  issuer.answers.set("jwks", () => Response.json({ keys }));
  await clock.advance(10_000);
  assert.deepEqual(await verifier.verify(await issuer.sign(CLAIMS, otherKey)), refused(reason));
});

Deno.test("I13: nothing of a token stands in any result", async () => {
  const { issuer, clock, verifier } = await setUp({ required_scopes: ["x"] });
  const token = await issuer.sign(CLAIMS, key);
  const parts = token.split(".");
  const foreign = await issuer.sign(CLAIMS, otherKey);
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

const isInvalidConfig = (message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof AppError, String(error));
  assert.equal(error.code, "invalid_config");
  assert.match(error.message, message);
  return true;
};

Deno.test.each<{
  readonly name: string;
  readonly document: "openid-configuration" | "jwks";
  readonly answer: () => Response | Promise<Response>;
  readonly message: RegExp;
}>([
  {
    name: "is down",
    document: "openid-configuration",
    answer: () => Promise.reject(new TypeError("refused")),
    message: /discovery document cannot be fetched/,
  },
  {
    name: "has no keys to give",
    document: "jwks",
    answer: () => new Response(null, { status: 503 }),
    message: /key set was answered with status 503/,
  },
  {
    name: "leads elsewhere",
    document: "openid-configuration",
    answer: () => Response.redirect("https://evil.example/x"),
    message: /answered with status 302/,
  },
  {
    name: "sends text",
    document: "openid-configuration",
    answer: () => new Response("<html>"),
    message: /discovery document is not a JSON object/,
  },
  {
    name: "sends a list",
    document: "openid-configuration",
    answer: () => Response.json([]),
    message: /discovery document is not a JSON object/,
  },
  {
    name: "is another",
    document: "openid-configuration",
    answer: () => Response.json({ issuer: "https://evil.example", jwks_uri: `${ISSUER}/jwks` }),
    message: /that of another issuer/,
  },
  {
    name: "differs by a slash",
    document: "openid-configuration",
    answer: () => Response.json({ issuer: `${ISSUER}/`, jwks_uri: `${ISSUER}/jwks` }),
    message: /that of another issuer/,
  },
  {
    name: "has no keys",
    document: "openid-configuration",
    answer: () => Response.json({ issuer: ISSUER }),
    message: /jwks_uri .* is not an https URL/,
  },
  {
    name: "has keys over plain HTTP",
    document: "openid-configuration",
    answer: () => Response.json({ issuer: ISSUER, jwks_uri: "http://login.example/jwks" }),
    message: /jwks_uri .* is not an https URL/,
  },
  {
    name: "has keys in a file",
    document: "openid-configuration",
    answer: () => Response.json({ issuer: ISSUER, jwks_uri: "file:///etc/passwd" }),
    message: /jwks_uri .* is not an https URL/,
  },
  {
    name: "offers symmetric signatures only",
    document: "openid-configuration",
    answer: () =>
      Response.json({
        issuer: ISSUER,
        jwks_uri: `${ISSUER}/jwks`,
        id_token_signing_alg_values_supported: ["HS256", "none"],
      }),
    message: /no asymmetric signature algorithm/,
  },
  {
    name: "sends more than a mebibyte",
    document: "jwks",
    answer: () => new Response(`{"keys":[${" ".repeat(1_048_576)}]}`),
    message: /larger than 1048576 bytes/,
  },
  {
    name: "sends a number for its keys",
    document: "jwks",
    answer: () => Response.json({ keys: 7 }),
    message: /not a list of keys/,
  },
])("loadEndUserVerifier() refuses an issuer that $name", async ({ document, answer, message }) => {
  const issuer = createTokenIssuer(ISSUER, [key]);
  issuer.answers.set(document, answer);
  const config = endUserOidcConfig.parse({ issuer: ISSUER, audience: AUDIENCE });
  const loading = loadEndUserVerifier(config, { fetch: issuer.fetch, clock: new FakeClock() });
  await assert.rejects(loading, isInvalidConfig(message));
});

Deno.test("loadEndUserVerifier() gives up an issuer that is silent after ten seconds", async () => {
  const issuer = createTokenIssuer(ISSUER, [key]);
  issuer.answers.set("openid-configuration", () => new Promise(() => {}));
  const clock = new FakeClock();
  const config = endUserOidcConfig.parse({ issuer: ISSUER, audience: AUDIENCE });
  let failure: unknown;
  const loading = loadEndUserVerifier(config, { fetch: issuer.fetch, clock }).catch((error) =>
    failure = error
  );
  await clock.advance(9_999);
  assert.equal(failure, undefined);
  await clock.advance(1);
  await loading;
  isInvalidConfig(/discovery document did not come in time/)(failure);
});

Deno.test("loadEndUserVerifier() knows an issuer with a slash at its end", async () => {
  const issuer = `${ISSUER}/`;
  const scene = await setUp({ issuer });
  const token = await scene.issuer.sign({ ...CLAIMS, iss: issuer }, key);
  assert.deepEqual(await scene.verifier.verify(token), verified("alice"));
});
