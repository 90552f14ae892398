import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { loadAkvCaKey } from "../../shared/ca/azure_key_vault.ts";
import type { AkvCaKeyConfig, CaKey } from "@gateway/shared/ca";
import { type Clock, systemClock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { verifySignature } from "../../shared/ssh/keys.ts";
import { escapeKey, FakeClock } from "@gateway/shared/testing";
import { poll } from "../stage/poll.ts";
import { run } from "../stage/run.ts";
import {
  CLIENT_SECRET,
  type FakeKeyVault,
  type Misbehaviour,
  sendJson,
  SIGN_IN_ANSWER,
  SIGNABLE,
  startKeyVault,
} from "./fake_key_vault.ts";
import { ca } from "./mtls_fixture.ts";

const ALONE = fileURLToPath(new URL("ca_akv_alone.ts", import.meta.url));
const [DATA = new Uint8Array()] = SIGNABLE;

function load(
  vault: FakeKeyVault,
  change: Partial<AkvCaKeyConfig> = {},
  clock: Clock = systemClock,
): Promise<CaKey> {
  const config = {
    type: "akv",
    vault_url: vault.url,
    key_name: "ssh-ca",
    key_version: "",
    ...change,
  } as const;
  const { agent, credential } = vault;
  return loadAkvCaKey(config, { clock, readEnv: () => undefined, agent, credential });
}

const failsWith = (code: AppError["code"], text: RegExp, retryAfterSeconds?: number) => (error: unknown) => {
  assert.ok(error instanceof AppError, String(error));
  assert.equal(error.code, code);
  assert.match(error.message, text);
  assert.doesNotMatch(error.message, /vault\.test|https?:/, "no address in the message");
  assert.doesNotMatch(Deno.inspect(error, { depth: 20, showHidden: true }), /fake-access-token/);
  assert.ok(!(error.cause instanceof Error && "request" in error.cause), "the request holds the token");
  assert.equal(error.retryAfterSeconds, retryAfterSeconds);
  return true;
};

const silence: Misbehaviour = () => {};
const status = (code: number, headers: Record<string, string> = {}): Misbehaviour => (_request, response) => {
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  sendJson(response, code, { error: { code: "Sorry", message: "at https://ca.vault.test" } });
};
const text = (body: string, status = 200): Misbehaviour => (_request, response) => {
  response.writeHead(status, { "content-type": "application/json" }).end(body);
};

Deno.test.each(
  [
    { kind: 2048, algorithm: "ssh-rsa" },
    { kind: 3072, algorithm: "ssh-rsa" },
    { kind: "P-256", algorithm: "ecdsa-sha2-nistp256" },
    { kind: "P-384", algorithm: "ecdsa-sha2-nistp384" },
    { kind: "P-521", algorithm: "ecdsa-sha2-nistp521" },
  ] as const,
)("a key of kind $kind in a vault signs", async ({ kind, algorithm }) => {
  await using vault = await startKeyVault(kind);
  const key = await load(vault);
  assert.equal(key.backend, "akv");
  assert.equal(key.algorithm, algorithm);
  // Enough signatures for numbers that begin with zeros or with a set bit, which differ in length for SSH.
  const signatures = await Promise.all(SIGNABLE.map((data) => key.sign(data)));
  for (const [index, data] of SIGNABLE.entries()) {
    const signature = signatures[index] ?? new Uint8Array();
    assert.ok(verifySignature(key.publicKey, signature, data));
  }
});

Deno.test("R8: a key that is rotated in the vault stays the same until the next load", async () => {
  await using vault = await startKeyVault("P-256");
  const first = await load(vault);
  const second = vault.rotate("P-256");
  const signature = await first.sign(DATA);
  assert.ok(verifySignature(first.publicKey, signature, DATA));
  assert.ok(vault.requests.every((request) => !request.includes(second)), vault.requests.join());
  const reloaded = await load(vault);
  assert.notDeepEqual(reloaded.publicKey, first.publicKey);
  assert.ok(verifySignature(reloaded.publicKey, await reloaded.sign(DATA), DATA));
});

Deno.test("a configured version is the one that is used, also when it is not the latest", async () => {
  await using vault = await startKeyVault("P-256");
  const latest = await load(vault);
  const version = vault.rotate("P-256");
  vault.rotate("P-256");
  const key = await load(vault, { key_version: version });
  assert.notDeepEqual(key.publicKey, latest.publicKey);
  await key.sign(DATA);
  assert.deepEqual(vault.requests.slice(-2), [
    `GET /keys/ssh-ca/${version}`,
    `POST /keys/ssh-ca/${version}/sign`,
  ]);
});

Deno.test.each([
  { name: "a symmetric key", change: { key: { kty: "oct-HSM", k: "AAAA" } }, shows: /key type "oct-HSM"/ },
  { name: "a key without type", change: { key: { kty: undefined } }, shows: /key type ""/ },
  {
    name: "another curve",
    change: { key: { kty: "EC", crv: "P-256K", x: "AQ", y: "AQ" } },
    shows: /curve "P-256K" is not/,
  },
  {
    name: "a point beside its curve",
    change: { key: { kty: "EC", crv: "P-256", x: "AQ", y: "AQ" } },
    shows: /its numbers do not form a key/,
  },
  {
    name: "a key without numbers",
    change: { key: { n: undefined } },
    shows: /its numbers do not form a key/,
  },
  { name: "a disabled key", change: { attributes: { enabled: false } }, shows: /the key is disabled/ },
  { name: "an expired key", change: { attributes: { exp: 1_600_000_001 } }, shows: /the key has expired/ },
  { name: "a key of the future", change: { attributes: { nbf: 32_503_680_000 } }, shows: /not valid yet/ },
  { name: "a key for other uses", change: { key: { key_ops: ["wrapKey"] } }, shows: /not for signing/ },
  {
    name: "a version that was not asked for",
    change: { key: { kid: "https://localhost/keys/ssh-ca/ffff" } },
    version: "eeee",
    shows: /another version/,
  },
  {
    name: "a key id without version",
    change: { key: { kid: "https://localhost/keys/ssh-ca" } },
    shows: /another version/,
  },
])("a vault that answers with $name is refused at load", async ({ change, version, shows }) => {
  await using vault = await startKeyVault(2048);
  vault.describe(change);
  if (version !== undefined) vault.misbehave(text(JSON.stringify(change)));
  const key_version = version ?? "";
  await assert.rejects(load(vault, { key_version }), failsWith("invalid_config", shows));
});

Deno.test("an RSA key under 2048 bits is refused at load", async () => {
  await using vault = await startKeyVault(1024);
  await assert.rejects(load(vault), failsWith("invalid_config", /RSA of 1024 bits, 2048 are the minimum/));
});

Deno.test("a key name or version that the vault does not have is refused at load", async () => {
  await using vault = await startKeyVault("P-256");
  const shows = failsWith("invalid_config", /has no such key or version/);
  await assert.rejects(load(vault, { key_name: "other" }), shows);
  await assert.rejects(load(vault, { key_version: "00" }), shows);
});

const faults: readonly {
  readonly name: string;
  readonly answers: readonly (Misbehaviour | undefined)[];
  readonly shows: RegExp;
  readonly retryAfter?: number;
  readonly calls?: number;
}[] = [
  { name: "answers 500 twice", answers: [status(500), status(500)], shows: /status 500/, calls: 2 },
  { name: "answers 403", answers: [status(403)], shows: /refuses these credentials/ },
  { name: "answers 401 for good", answers: [status(401), status(401)], shows: /credentials \(status 401\)/ },
  {
    name: "is busy",
    answers: [status(429, { "retry-after": "7" })],
    shows: /is busy \(status 429\)/,
    retryAfter: 7,
  },
  {
    name: "is down for a while",
    answers: [status(503, { "retry-after": "99999999" })],
    shows: /status 503/,
    retryAfter: 3600,
  },
  {
    name: "leads elsewhere",
    answers: [status(302, { location: "/keys/ssh-ca/" })],
    shows: /status 302/,
  },
  { name: "sends text for JSON", answers: [text("<html>")], shows: /answer cannot be used/ },
  {
    name: "sends a key that can't be read safely",
    answers: [text(String.raw`{"a":1,"\\":2}`)],
    shows: /answer cannot be used/,
  },
  {
    name: "answers 403 with such a key",
    answers: [text(String.raw`{"a":1,"\\":2}`, 403)],
    shows: /refuses these credentials/,
  },
  { name: "sends JSON of another shape", answers: [text("[]")], shows: /./ },
  { name: "sends too much", answers: [text(`"${"x".repeat(300_000)}"`)], shows: /more than 262144 bytes/ },
  {
    name: "breaks off again and again",
    answers: Array(9).fill((_: unknown, response: { destroy(): void }) => response.destroy()),
    shows: /cannot be reached/,
    calls: 2,
  },
];

Deno.test.each(faults)("a vault that $name is refused at load", async ({ answers, shows, calls = 1 }) => {
  await using vault = await startKeyVault("P-256");
  vault.misbehave(...answers);
  await assert.rejects(load(vault), failsWith("invalid_config", shows));
  assert.ok(vault.requests.length >= calls, vault.requests.join());
  // The HTTP client itself retries once after a broken connection.
  assert.ok(vault.requests.length <= 2 * calls, vault.requests.join());
});

Deno.test.each([
  ...faults,
  {
    name: "sends another signature",
    answers: [text(JSON.stringify({ value: "A".repeat(86) }))],
    shows: /a signature that is not the CA's/,
    retryAfter: undefined,
  },
  {
    name: "sends a signature of another form",
    answers: [text(JSON.stringify({ value: "A".repeat(94) }))],
    shows: /an EC signature of 70 bytes/,
    retryAfter: undefined,
  },
])("a vault that $name does not sign", async ({ answers, shows, retryAfter }) => {
  await using vault = await startKeyVault("P-256");
  const key = await load(vault);
  vault.misbehave(...answers);
  await assert.rejects(key.sign(DATA), failsWith("upstream_failure", shows, retryAfter));
  vault.misbehave();
  assert.ok(verifySignature(key.publicKey, await key.sign(DATA), DATA), "and signs when it is well again");
});

Deno.test("a vault's answer means what it says, whatever was read before", async () => {
  await using vault = await startKeyVault("P-256");
  const key = await load(vault);
  const answer = escapeKey(JSON.stringify({ kid: "x", value: "A".repeat(86) }), "value");
  JSON.parse(answer.before);
  vault.misbehave(text(answer.text));
  await assert.rejects(key.sign(DATA), failsWith("upstream_failure", /a signature that is not the CA's/));
});

Deno.test.each([
  { name: "a server error", answer: status(500) },
  {
    name: "a broken connection",
    answer: (_: unknown, response: { destroy(): void }) => void response.destroy(),
  },
])("one $name does not keep a vault from signing", async ({ answer }) => {
  await using vault = await startKeyVault("P-256");
  const key = await load(vault);
  vault.misbehave(answer);
  assert.ok(verifySignature(key.publicKey, await key.sign(DATA), DATA));
});

Deno.test.each([
  { name: "30 seconds at load", at: "load", ms: 30_000 },
  { name: "10 seconds at signing", at: "sign", ms: 10_000 },
])("a vault that is silent is given up after $name", async ({ at, ms }) => {
  await using vault = await startKeyVault("P-256");
  const clock = new FakeClock();
  const key = at === "load" ? undefined : await load(vault, {}, clock);
  const asked = vault.requests.length;
  vault.misbehave(silence, silence);
  let failure: unknown;
  const call: Promise<unknown> = key?.sign(DATA) ?? load(vault, {}, clock);
  const ended = call.catch((error) => failure = error);
  await poll(() => vault.requests.length > asked, { what: "the request" });
  await clock.advance(ms - 1);
  assert.equal(failure, undefined);
  await clock.advance(1);
  await ended;
  failsWith(at === "load" ? "invalid_config" : "upstream_failure", /did not answer in time/)(failure);
  assert.equal(vault.requests.length, asked + 1, "no second attempt");
});

Deno.test("signing with a vault ends with the request", async () => {
  await using vault = await startKeyVault("P-256");
  const key = await load(vault);
  const asked = vault.requests.length;
  vault.misbehave(silence, silence);
  const controller = new AbortController();
  const signing = key.sign(DATA, controller.signal);
  await poll(() => vault.requests.length > asked, { what: "the request" });
  controller.abort();
  await assert.rejects(signing, { name: "AbortError" });
});

Deno.test("a key that expires between two requests does not sign any more", async () => {
  await using vault = await startKeyVault("P-256");
  const clock = new FakeClock(1_700_000_000_000);
  vault.describe({ attributes: { exp: 4_000_000_000 } });
  const key = await load(vault, {}, clock);
  await key.sign(DATA);
  await clock.advance(2_300_000_000_000);
  await assert.rejects(key.sign(DATA), failsWith("upstream_failure", /the key has expired/));
});

Deno.test("a vault with a certificate that is not trusted is refused at load", async () => {
  await using vault = await startKeyVault("P-256");
  await using other = await startKeyVault("P-256");
  const vault_url = other.url.replace("ca.vault.test", "other.vault.test");
  await assert.rejects(load(vault, { vault_url }), failsWith("invalid_config", /cannot be reached/));
  assert.deepEqual(other.requests, []);
});

Deno.test.each([
  { name: "signs with a token from elsewhere", signIn: "token", secret: "", shows: /^ssh-rsa signed$/ },
  {
    name: "signs in with a client secret",
    signIn: "secret",
    secret: CLIENT_SECRET,
    shows: /^ssh-rsa signed$/,
  },
  {
    name: "is refused with a wrong client secret",
    signIn: "secret",
    secret: "wrong",
    shows: /signing in to the cloud failed/,
  },
  {
    name: "says which variable is missing",
    signIn: "secret",
    secret: "",
    shows: /environment variable CA_SECRET of client_secret_env is not set or empty/,
  },
  {
    name: "does not find default credentials on this machine",
    signIn: "default",
    secret: "",
    shows: /signing in to the cloud failed/,
  },
  {
    name: "says so without sys",
    signIn: "token",
    secret: "",
    without: "sys",
    shows: /the process needs --allow-sys=osRelease/,
  },
  {
    name: "says so without net",
    signIn: "token",
    secret: "",
    without: "net",
    shows: /outside this process's permissions/,
  },
])("a vault's key in a process of its own $name", async ({ signIn, secret, without, shows }) => {
  await using vault = await startKeyVault(2048);
  const flags = [
    ...(without === "sys" ? [] : ["--allow-sys=osRelease"]),
    ...(without === "net" ? [] : [`--allow-net=127.0.0.1:${vault.port}`]),
  ];
  const output = await run(Deno.execPath(), [
    "run",
    "--quiet",
    "--no-prompt",
    "--cached-only",
    "--ignore-env",
    ...flags,
    ALONE,
    String(vault.port),
    ca,
    signIn,
    secret,
    SIGN_IN_ANSWER.before,
  ]);
  assert.match(output, shows);
});
