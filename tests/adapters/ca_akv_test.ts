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
const breakOff: Misbehaviour = (_request, response) => void response.destroy();
const status = (code: number, headers: Record<string, string> = {}): Misbehaviour => (_request, response) => {
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  sendJson(response, code, { error: { code: "Sorry", message: "at https://ca.vault.test" } });
};
const text = (body: string, status = 200): Misbehaviour => (_request, response) => {
  response.writeHead(status, { "content-type": "application/json" }).end(body);
};

Deno.test.each(
  [
    [2048, "ssh-rsa"],
    [3072, "ssh-rsa"],
    ["P-256", "ecdsa-sha2-nistp256"],
    ["P-384", "ecdsa-sha2-nistp384"],
    ["P-521", "ecdsa-sha2-nistp521"],
  ] as const,
)("a key of kind %s in a vault signs", async (kind, algorithm) => {
  await using vault = await startKeyVault(kind);
  const key = await load(vault);
  assert.equal(key.backend, "akv");
  assert.equal(key.algorithm, algorithm);
  // Enough signatures to include numbers with leading zeros or a set top bit, which differ in SSH length.
  const signatures = await Promise.all(SIGNABLE.map((data) => key.sign(data)));
  for (const [index, data] of SIGNABLE.entries()) {
    const signature = signatures[index] ?? new Uint8Array();
    assert.ok(verifySignature(key.publicKey, signature, data));
  }
});

Deno.test("R8: after a rotation in the vault, the signer uses the old key until the next load", async () => {
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

Deno.test("a configured key_version is used even if it is not the latest", async () => {
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

const LATEST = "";
const NO_KEY = /its numbers do not form a key/;
const KID = "https://localhost/keys/ssh-ca";

Deno.test.each([
  ["a symmetric key", { key: { kty: "oct-HSM", k: "AAAA" } }, /key type "oct-HSM"/, LATEST],
  ["a key without type", { key: { kty: undefined } }, /key type ""/, LATEST],
  ["another curve", { key: { kty: "EC", crv: "P-256K", x: "AQ", y: "AQ" } }, /curve "P-256K" is not/, LATEST],
  ["a point outside of its curve", { key: { kty: "EC", crv: "P-256", x: "AQ", y: "AQ" } }, NO_KEY, LATEST],
  ["a key without numbers", { key: { n: undefined } }, NO_KEY, LATEST],
  ["a disabled key", { attributes: { enabled: false } }, /the key is disabled/, LATEST],
  ["an expired key", { attributes: { exp: 1_600_000_001 } }, /the key has expired/, LATEST],
  ["a key of the future", { attributes: { nbf: 32_503_680_000 } }, /not valid yet/, LATEST],
  ["a key for other uses", { key: { key_ops: ["wrapKey"] } }, /not for signing/, LATEST],
  ["a version that was not requested", { key: { kid: `${KID}/ffff` } }, /another version/, "eeee"],
  ["a key id without version", { key: { kid: KID } }, /another version/, LATEST],
])("loading the key fails if the vault answers with %s", async (_name, change, shows, key_version) => {
  await using vault = await startKeyVault(2048);
  vault.describe(change);
  if (key_version !== LATEST) vault.misbehave(text(JSON.stringify(change)));
  await assert.rejects(load(vault, { key_version }), failsWith("invalid_config", shows));
});

Deno.test("an RSA key with fewer than 2048 bits is rejected at load", async () => {
  await using vault = await startKeyVault(1024);
  await assert.rejects(load(vault), failsWith("invalid_config", /RSA of 1024 bits, 2048 are the minimum/));
});

Deno.test("a key name or version that does not exist in the vault is rejected at load", async () => {
  await using vault = await startKeyVault("P-256");
  const shows = failsWith("invalid_config", /has no such key or version/);
  await assert.rejects(load(vault, { key_name: "other" }), shows);
  await assert.rejects(load(vault, { key_version: "00" }), shows);
});

const UNSAFE = String.raw`{"a":1,"\\":2}`;
const IN_VAIN = /answer cannot be used/;
const REFUSED = /refuses these credentials/;
interface Expected {
  readonly calls: number;
  readonly retryAfter?: number;
}

const ONCE: Expected = { calls: 1 };
type Fault = readonly [
  name: string,
  answers: readonly Misbehaviour[],
  shows: RegExp,
  expected: Expected,
];
const faults: readonly Fault[] = [
  ["answers 500 twice", [status(500), status(500)], /status 500/, { calls: 2 }],
  ["answers 403", [status(403)], REFUSED, ONCE],
  ["answers 401 for good", [status(401), status(401)], /credentials \(status 401\)/, ONCE],
  ["is busy", [status(429, { "retry-after": "7" })], /is busy \(status 429\)/, { calls: 1, retryAfter: 7 }],
  ["is down for a while", [status(503, { "retry-after": "99999999" })], /status 503/, {
    calls: 1,
    retryAfter: 3600,
  }],
  ["leads elsewhere", [status(302, { location: "/keys/ssh-ca/" })], /status 302/, ONCE],
  ["sends text for JSON", [text("<html>")], IN_VAIN, ONCE],
  ["sends a key that can't be read safely", [text(UNSAFE)], IN_VAIN, ONCE],
  ["answers 403 with such a key", [text(UNSAFE, 403)], REFUSED, ONCE],
  ["sends JSON of another shape", [text("[]")], /./, ONCE],
  ["sends too much", [text(`"${"x".repeat(300_000)}"`)], /more than 262144 bytes/, ONCE],
  ["breaks off again and again", Array(9).fill(breakOff), /cannot be reached/, { calls: 2 }],
];

Deno.test.each(faults)("loading the key fails if the vault %s", async (_name, answers, shows, { calls }) => {
  await using vault = await startKeyVault("P-256");
  vault.misbehave(...answers);
  await assert.rejects(load(vault), failsWith("invalid_config", shows));
  assert.ok(vault.requests.length >= calls, vault.requests.join());
  // The HTTP client itself retries once after a broken connection.
  assert.ok(vault.requests.length <= 2 * calls, vault.requests.join());
});

const valueOf = (length: number) => text(JSON.stringify({ value: "A".repeat(length) }));
Deno.test.each<Fault>([
  ...faults,
  ["sends another signature", [valueOf(86)], /a signature that is not the CA's/, ONCE],
  ["sends a signature of another form", [valueOf(94)], /an EC signature of 70 bytes/, ONCE],
])("signing fails if the vault %s", async (_name, answers, shows, { retryAfter }) => {
  await using vault = await startKeyVault("P-256");
  const key = await load(vault);
  vault.misbehave(...answers);
  await assert.rejects(key.sign(DATA), failsWith("upstream_failure", shows, retryAfter));
  vault.misbehave();
  assert.ok(verifySignature(key.publicKey, await key.sign(DATA), DATA), "and signs when it is well again");
});

Deno.test("JSON parsed earlier does not change how the response of a vault is parsed", async () => {
  await using vault = await startKeyVault("P-256");
  const key = await load(vault);
  const answer = escapeKey(JSON.stringify({ kid: "x", value: "A".repeat(86) }), "value");
  JSON.parse(answer.before);
  vault.misbehave(text(answer.text));
  await assert.rejects(key.sign(DATA), failsWith("upstream_failure", /a signature that is not the CA's/));
});

Deno.test.each<[string, Misbehaviour]>([["server error", status(500)], ["broken connection", breakOff]])(
  "one %s does not keep a vault from signing",
  async (_name, answer) => {
    await using vault = await startKeyVault("P-256");
    const key = await load(vault);
    vault.misbehave(answer);
    assert.ok(verifySignature(key.publicKey, await key.sign(DATA), DATA));
  },
);

Deno.test.each([
  { name: "30 seconds at load", at: "load", ms: 30_000 },
  { name: "10 seconds at signing", at: "sign", ms: 10_000 },
])("a request to a vault that does not answer fails after $name", async ({ at, ms }) => {
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

Deno.test("aborting the signal stops a signing request to the vault", async () => {
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

Deno.test("signing fails if the key of the vault has expired since the load", async () => {
  await using vault = await startKeyVault("P-256");
  const clock = new FakeClock(1_700_000_000_000);
  vault.describe({ attributes: { exp: 4_000_000_000 } });
  const key = await load(vault, {}, clock);
  await key.sign(DATA);
  await clock.advance(2_300_000_000_000);
  await assert.rejects(key.sign(DATA), failsWith("upstream_failure", /the key has expired/));
});

Deno.test("a vault with an untrusted certificate is rejected at load", async () => {
  await using vault = await startKeyVault("P-256");
  await using other = await startKeyVault("P-256");
  const vault_url = other.url.replace("ca.vault.test", "other.vault.test");
  await assert.rejects(load(vault, { vault_url }), failsWith("invalid_config", /cannot be reached/));
  assert.deepEqual(other.requests, []);
});

const SIGNED = /^ssh-rsa signed$/;
const FAILED = /signing in to the cloud failed/;
const NO_SECRET = /environment variable CA_SECRET of client_secret_env is not set or empty/;
Deno.test.each([
  ["signs with a token from elsewhere", "token", "", SIGNED, "none"],
  ["signs in with a client secret", "secret", CLIENT_SECRET, SIGNED, "none"],
  ["is rejected with a wrong client secret", "secret", "wrong", FAILED, "none"],
  ["reports which variable is missing", "secret", "", NO_SECRET, "none"],
  ["does not find default credentials on this machine", "default", "", FAILED, "none"],
  ["reports a missing sys permission", "token", "", /the process needs --allow-sys=osRelease/, "sys"],
  ["reports a missing net permission", "token", "", /outside this process's permissions/, "net"],
])("a vault key in a separate process %s", async (_name, signIn, secret, shows, without) => {
  await using vault = await startKeyVault(2048);
  const flags = [
    ...(without === "sys" ? [] : ["--allow-sys=osRelease"]),
    ...(without === "net" ? [] : [`--allow-net=127.0.0.1:${vault.port}`]),
  ];
  const deno = ["run", "--quiet", "--no-prompt", "--cached-only", "--ignore-env", ...flags, ALONE];
  const args = [String(vault.port), ca, signIn, secret, SIGN_IN_ANSWER.before];
  const output = await run(Deno.execPath(), [...deno, ...args]);
  assert.match(output, shows);
});
