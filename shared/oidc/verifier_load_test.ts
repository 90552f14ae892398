import assert from "node:assert/strict";
import { FakeClock } from "../testing/fake_clock.ts";
import { endUserOidcConfig } from "./model.ts";
import { createTokenIssuer } from "../testing/token_issuer.ts";
import { AUDIENCE, CLAIMS, ISSUER, openVerifierScene, RSA_KEY, verified } from "../testing/verifier_scene.ts";
import { loadEndUserVerifier } from "./mod.ts";

const INVALID = { name: "AppError", code: "invalid_config" };
const describing = (members: object) => () => Response.json({ issuer: ISSUER, ...members });
const HMAC = { jwks_uri: `${ISSUER}/jwks`, id_token_signing_alg_values_supported: ["HS256", "none"] };
const ANOTHER = /that of another issuer/;
const NO_OBJECT = /discovery document is not a JSON object/;
const NO_KEYS = /jwks_uri .* is not an https URL/;

type Row = [name: string, answer: () => Response | Promise<Response>, message: RegExp];

async function assertRefused(document: "openid-configuration" | "jwks", [, answer, message]: Row) {
  const issuer = createTokenIssuer(ISSUER, [RSA_KEY]);
  issuer.answers.set(document, answer);
  const config = endUserOidcConfig.parse({ issuer: ISSUER, audience: AUDIENCE });
  const loading = loadEndUserVerifier(config, { fetch: issuer.fetch, clock: new FakeClock() });
  await assert.rejects(loading, { ...INVALID, message });
}

Deno.test.each<Row>([
  ["is down", () => Promise.reject(new TypeError("refused")), /discovery document cannot be fetched/],
  ["leads elsewhere", () => Response.redirect("https://evil.example/x"), /answered with status 302/],
  ["sends text", () => new Response("<html>"), NO_OBJECT],
  ["sends a list", () => Response.json([]), NO_OBJECT],
  ["is another", describing({ issuer: "https://evil.example", jwks_uri: `${ISSUER}/jwks` }), ANOTHER],
  ["differs by a slash", describing({ issuer: `${ISSUER}/`, jwks_uri: `${ISSUER}/jwks` }), ANOTHER],
  ["has no keys", describing({}), NO_KEYS],
  ["has keys over plain HTTP", describing({ jwks_uri: "http://login.example/jwks" }), NO_KEYS],
  ["has keys in a file", describing({ jwks_uri: "file:///etc/passwd" }), NO_KEYS],
  ["offers symmetric signatures only", describing(HMAC), /no asymmetric signature algorithm/],
])("loadEndUserVerifier() rejects an issuer that %s", async (...row) => {
  await assertRefused("openid-configuration", row);
});

Deno.test.each<Row>([
  ["has none to give", () => new Response(null, { status: 503 }), /key set was answered with status 503/],
  ["has too many", () => new Response(`{"keys":[${" ".repeat(1_048_576)}]}`), /larger than 1048576 bytes/],
  ["sends a number for them", () => Response.json({ keys: 7 }), /not a list of keys/],
])("loadEndUserVerifier() rejects the keys of an issuer that %s", async (...row) => {
  await assertRefused("jwks", row);
});

Deno.test("loadEndUserVerifier() fails after 10 s if the issuer does not answer", async () => {
  const issuer = createTokenIssuer(ISSUER, [RSA_KEY]);
  issuer.answers.set("openid-configuration", () => new Promise(() => {}));
  const clock = new FakeClock();
  const config = endUserOidcConfig.parse({ issuer: ISSUER, audience: AUDIENCE });
  let failure: unknown;
  const loading = loadEndUserVerifier(config, { fetch: issuer.fetch, clock });
  loading.catch((error) => failure = error);
  await clock.advance(9_999);
  assert.equal(failure, undefined);
  await clock.advance(1);
  await assert.rejects(loading, { ...INVALID, message: /discovery document did not come in time/ });
});

Deno.test("loadEndUserVerifier() accepts an issuer with a trailing slash", async () => {
  const issuer = `${ISSUER}/`;
  const scene = await openVerifierScene({ issuer });
  const token = await scene.issuer.sign({ ...CLAIMS, iss: issuer }, RSA_KEY);
  assert.deepEqual(await scene.verifier.verify(token), verified("alice"));
});
