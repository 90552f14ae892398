import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { FakeClock } from "../testing/fake_clock.ts";
import { endUserOidcConfig } from "./model.ts";
import { createTokenIssuer } from "../testing/token_issuer.ts";
import { AUDIENCE, CLAIMS, ISSUER, openVerifierScene, RSA_KEY, verified } from "../testing/verifier_scene.ts";
import { loadEndUserVerifier } from "./mod.ts";

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
  const issuer = createTokenIssuer(ISSUER, [RSA_KEY]);
  issuer.answers.set(document, answer);
  const config = endUserOidcConfig.parse({ issuer: ISSUER, audience: AUDIENCE });
  const loading = loadEndUserVerifier(config, { fetch: issuer.fetch, clock: new FakeClock() });
  await assert.rejects(loading, isInvalidConfig(message));
});

Deno.test("loadEndUserVerifier() gives up an issuer that is silent after ten seconds", async () => {
  const issuer = createTokenIssuer(ISSUER, [RSA_KEY]);
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
  const scene = await openVerifierScene({ issuer });
  const token = await scene.issuer.sign({ ...CLAIMS, iss: issuer }, RSA_KEY);
  assert.deepEqual(await scene.verifier.verify(token), verified("alice"));
});
