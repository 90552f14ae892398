import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { AppError } from "@gateway/shared/errors";
import { type Clock, systemClock } from "@gateway/shared/clock";
import { createIssuerKey, createTokenIssuer, FakeClock, type TokenIssuer } from "@gateway/shared/testing";
import { endUserOidcConfig } from "@gateway/shared/oidc/model";
import { type EndUserVerifier, loadEndUserVerifier } from "@gateway/shared/oidc";
import { poll } from "../stage/poll.ts";
import { run } from "../stage/run.ts";

const ALONE = fileURLToPath(new URL("end_user_oidc_alone.ts", import.meta.url));
const AUDIENCE = "https://mcp.example";
const key = await createIssuerKey("k1");

interface Served extends AsyncDisposable {
  readonly issuer: TokenIssuer;
  readonly port: number;
  readonly token: () => Promise<string>;
}

function serve(): Served {
  let answer: (request: Request) => Response | Promise<Response> = () => new Response();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    (request) => answer(request),
  );
  const { port } = server.addr;
  const issuer = createTokenIssuer(`http://127.0.0.1:${port}/realm`, [key]);
  answer = (request) => issuer.fetch(request);
  const exp = Math.floor(Date.now() / 1000) + 3600;
  return {
    issuer,
    port,
    token: () => issuer.sign({ iss: issuer.issuer, aud: AUDIENCE, sub: "alice", exp }, key),
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

function load({ issuer }: Served, clock: Clock = systemClock): Promise<EndUserVerifier> {
  const config = endUserOidcConfig.parse({ issuer: issuer.issuer, audience: AUDIENCE });
  return loadEndUserVerifier(config, { fetch, clock });
}

const isInvalidConfig = (message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof AppError, String(error));
  assert.equal(error.code, "invalid_config");
  assert.match(error.message, message);
  return true;
};

Deno.test("a token is verified with the documents of a provider over HTTP", async () => {
  await using served = serve();
  const verifier = await load(served);
  const expected = { kind: "verified", endUser: "alice", groups: null };
  assert.deepEqual(await verifier.verify(await served.token()), expected);
});

Deno.test("redirects of the discovery document and of the key set are not followed", async () => {
  await using served = serve();
  const { issuer } = served;
  issuer.answers.set("jwks", () => Response.redirect(`${issuer.issuer}/elsewhere`));
  issuer.answers.set("elsewhere", () => Response.json({ keys: issuer.published }));
  await assert.rejects(load(served), isInvalidConfig(/key set was answered with status 302/));
  issuer.answers.set("openid-configuration", () => Response.redirect(`${issuer.issuer}/elsewhere`));
  await assert.rejects(load(served), isInvalidConfig(/discovery document was answered with status 302/));
  assert.ok(!issuer.requests.includes("elsewhere"), issuer.requests.join());
});

Deno.test("loading an endless key set fails and closes its connection", async () => {
  await using served = serve();
  let sent = 0;
  let isClosed = false;
  const endless = () =>
    new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += 65_536;
        controller.enqueue(new Uint8Array(65_536).fill(0x20));
      },
      cancel: () => void (isClosed = true),
    });
  served.issuer.answers.set("jwks", () => new Response(endless()));
  await assert.rejects(load(served), isInvalidConfig(/key set is larger than 1048576 bytes/));
  await poll(() => isClosed, { what: "the end of the connection" });
  assert.ok(sent < 64 * 1_048_576, `${sent} bytes sent`);
});

Deno.test("loading fails after ten seconds if the key set stops halfway", async () => {
  await using served = serve();
  let isClosed = false;
  const stuck = () =>
    new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode('{"keys":[')),
      cancel: () => void (isClosed = true),
    });
  served.issuer.answers.set("jwks", () => new Response(stuck()));
  const clock = new FakeClock();
  const loading = assert.rejects(load(served, clock), isInvalidConfig(/key set did not come in time/));
  await poll(() => served.issuer.requests.includes("jwks") && clock.sleeping === 1, { what: "the request" });
  await clock.advance(10_000);
  await loading;
  await poll(() => isClosed, { what: "the end of the connection" });
});

Deno.test("an unreachable provider is rejected at load, and later its tokens are rejected", async () => {
  const served = serve();
  const clock = new FakeClock(Date.now());
  const verifier = await load(served, clock);
  const token = await served.token();
  await served[Symbol.asyncDispose]();
  await assert.rejects(load(served), isInvalidConfig(/discovery document cannot be fetched/));
  assert.equal((await verifier.verify(token)).kind, "verified");
  await clock.advance(60_000);
  const reason = "Cannot use the OpenID provider: its key set cannot be fetched";
  assert.deepEqual(await verifier.verify(token), { kind: "refused", reason, code: "invalid_token" });
});

Deno.test.each([
  { name: "needs no permission but to connect to the provider", offset: 0, shows: /^\{"kind":"verified"/ },
  {
    name: "says so when it may not connect",
    offset: 1,
    shows: /at 127\.0\.0\.1:\d+, outside this process's perm/,
  },
])("a verifier in a separate process $name", async ({ offset, shows }) => {
  await using served = serve();
  const flags = ["--quiet", "--no-prompt", "--cached-only", `--allow-net=127.0.0.1:${served.port + offset}`];
  const output = await run(Deno.execPath(), [
    "run",
    ...flags,
    ALONE,
    served.issuer.issuer,
    await served.token(),
  ]);
  assert.match(output, shows);
});
