import assert from "node:assert/strict";
import * as z from "@zod/zod";
import { describeShape, parseConfig } from "../config/mod.ts";
import { shapeOf } from "../config/problems.ts";
import { AppError } from "../errors.ts";
import { type CaKeyConfig, caKeyConfig, issueUserCertificate, planCaKeys, selectCaKey } from "./model.ts";
import type { HostPolicy } from "../policy/model.ts";
import type { AllowedSsh, SshIntent } from "../policy/ssh.ts";
import { parseCertificate } from "../ssh/certificate.ts";
import { encodeOpensshPrivateKey, verifySignature } from "../ssh/keys.ts";
import { FakeClock } from "../testing/fake_clock.ts";
import { FixedRandom } from "../testing/fixed_random.ts";
import { allowSample } from "../testing/sample_policy.ts";
import { parsePemCaKey } from "./pem.ts";

const schema: z.ZodType<{ readonly ca_keys: Readonly<Record<string, CaKeyConfig>> }> = z.strictObject({
  ca_keys: z.record(z.string(), caKeyConfig),
});
const AKV = { type: "akv", vault_url: "https://ca.vault.example", key_name: "ssh-ca" };
const SECRET = { tenant_id: "t", client_id: "c", client_secret_env: "CA_SECRET" };

function parse(entry: object): CaKeyConfig | undefined {
  const text = JSON.stringify({ ca_keys: { prod: entry } });
  return parseConfig({ text, what: "signer config", source: "signer.json", schema }).ca_keys["prod"];
}

Deno.test.each([
  { name: "a pem key", entry: { type: "pem", path: "ca" }, expected: { type: "pem", path: "ca" } },
  {
    name: "an agent key with its socket",
    entry: { type: "agent", socket: "/run/agent", public_key_path: "ca.pub" },
    expected: { type: "agent", socket: "/run/agent", public_key_path: "ca.pub" },
  },
  {
    name: "a vault key of the latest version and the default credentials",
    entry: { ...AKV, key_version: "", tenant_id: "", client_id: "" },
    expected: { ...AKV, key_version: "" },
  },
  {
    name: "a vault key with a client secret",
    entry: { ...AKV, vault_url: "https://CA.vault.example:8443/", key_version: "0a", ...SECRET },
    expected: { ...AKV, vault_url: "https://ca.vault.example:8443", key_version: "0a", credential: SECRET },
  },
  {
    name: "a comment beside the keys",
    entry: { _comment: "x", type: "pem", path: "ca" },
    expected: { type: "pem", path: "ca" },
  },
])("caKeyConfig accepts $name", ({ entry, expected }) => {
  assert.deepEqual(structuredClone(parse(entry)), expected);
});

const PEM_ENTRY = { type: "pem", path: "ca" };

// `@` in a problem is the path of the entry.
Deno.test.each<[name: string, entry: object, problem: string]>([
  ["no type", { path: "ca" }, "@type\\b"],
  ["an unknown type", { type: "tpm" }, '@type: must be "pem" or "agent"'],
  ["an unknown key", { ...PEM_ENTRY, pasphrase: "x" }, 'unknown key "@pasphrase"'],
  [
    "a key of another type",
    { ...PEM_ENTRY, vault_url: "https://v" },
    "@vault_url: belongs to ca_keys of type akv, not pem",
  ],
  [
    "an empty key of another type",
    { ...AKV, socket: "" },
    "@socket: belongs to ca_keys of type agent, not akv",
  ],
  ["pem without path", { type: "pem" }, "@path: is missing"],
  ["agent without public key", { type: "agent" }, "@public_key_path: is missing"],
  ["an empty path", { type: "pem", path: "" }, "@path: must not be empty"],
  ["akv without vault", { type: "akv", key_name: "k" }, "@vault_url: is missing"],
  ["a vault over plain HTTP", { ...AKV, vault_url: "http://ca.vault.example" }, "@vault_url: must be https"],
  [
    "a vault over plain HTTP on loopback",
    { ...AKV, vault_url: "http://127.0.0.1:8443" },
    "@vault_url: must be https",
  ],
  [
    "a vault URL with a path",
    { ...AKV, vault_url: "https://ca.vault.example/keys" },
    "@vault_url: must be https",
  ],
  [
    "a vault URL with a user",
    { ...AKV, vault_url: "https://u@ca.vault.example" },
    "@vault_url: must be https",
  ],
  [
    "a key name that leads elsewhere",
    { ...AKV, key_name: "../secrets/x" },
    "@key_name: must be 1 to 127 letters",
  ],
  [
    "a tenant alone",
    { ...AKV, tenant_id: "t" },
    "@client_id: is missing.*\\n.*@client_secret_env: is missing",
  ],
  ["a client secret without tenant", { ...AKV, ...SECRET, tenant_id: "" }, "@tenant_id: is missing"],
  [
    "tenant and client without the secret's variable",
    { ...AKV, tenant_id: "t", client_id: "c" },
    "@client_secret_env: is missing",
  ],
  [
    "a secret in place of the variable's name",
    { ...AKV, ...SECRET, client_secret_env: "s3cr3t~x" },
    "@client_secret_env: must be the name of an environment variable",
  ],
])("caKeyConfig rejects %s", (_name, entry, problem) => {
  assert.throws(() => parse(entry), (error) => {
    assert.ok(error instanceof AppError && error.code === "invalid_config");
    assert.match(error.message, new RegExp(problem.replaceAll("@", String.raw`ca_keys\.prod\.`)));
    assert.doesNotMatch(error.message, /s3cr3t/);
    return true;
  });
});

Deno.test("the reference page has a row for every key of a ca_keys entry", () => {
  const page = describeShape(shapeOf(schema));
  for (const key of ["type", "socket", "vault_url", "client_secret_env"]) {
    assert.ok(page.includes(`| \`ca_keys.<name>.${key}\` |`), key);
  }
});

const pem = (path: string): CaKeyConfig => ({ type: "pem", path });
const ca_keys = { prod: pem("prod"), web: pem("web") };

Deno.test.each([
  { name: "the first group with an entry", groups: ["db", "web", "prod"], expected: "web" },
  { name: "the host's order, not that of ca_keys", groups: ["prod", "web"], expected: "prod" },
  { name: "the default without a group that has one", groups: ["db"], expected: "ca" },
  { name: "the default for a host without groups", groups: [], expected: "ca" },
  { name: "no key for a group named like a member of every object", groups: ["constructor"], expected: "ca" },
])("selectCaKey() returns $name", ({ groups, expected }) => {
  const plan = planCaKeys({ ca_key: "ca", ca_keys });
  assert.ok(plan !== undefined);
  assert.deepEqual(selectCaKey(plan, groups), pem(expected));
});

Deno.test("_default overrides ca_key and is not a group", () => {
  const plan = planCaKeys({ ca_key: "ca", ca_keys: { ...ca_keys, _default: pem("own") } });
  assert.ok(plan !== undefined);
  assert.deepEqual(selectCaKey(plan, []), pem("own"));
  assert.deepEqual(selectCaKey(plan, ["_default", "web"]), pem("web"));
});

Deno.test.each([
  { name: "no settings", settings: {} },
  { name: "an empty ca_key", settings: { ca_key: "", ca_keys: {} } },
  { name: "groups but no default", settings: { ca_keys } },
])("planCaKeys() finds no default key in $name", ({ settings }) => {
  assert.equal(planCaKeys(settings), undefined);
});

const fallback = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
const PUBLIC_KEY = new Uint8Array(32).fill(2);

async function issue(decision: AllowedSsh) {
  const clock = new FakeClock(1_700_000_000_999);
  const issued = await issueUserCertificate(
    { decision, caller: "broker-1", endUser: "alice", publicKey: PUBLIC_KEY },
    { caKeys: { fallback, byGroup: new Map() }, clock, random: new FixedRandom() },
  );
  return { issued, fields: parseCertificate(issued.certificate) };
}

Deno.test("issueUserCertificate() sets serial, key, principal, KeyId and validity", async () => {
  const { issued, fields } = await issue(allowSample({}, { ttlSeconds: 120 }));
  assert.equal(fields.serial, issued.serial);
  assert.deepEqual(fields.publicKey, PUBLIC_KEY);
  assert.deepEqual(fields.principals, ["host:web01"]);
  assert.equal(fields.keyId, "agent=broker-1 host=web01 role=target t=1700000000 user=alice");
  assert.deepEqual([fields.validAfter, fields.validBefore], [1_699_999_970, 1_700_000_120]);
  assert.equal(issued.validBefore, 1_700_000_120);
});

const SESSION = { purpose: "session", sessionMode: "shell", command: "" };
const HOP = { role: "bastion", purpose: "session", command: "" };

// The cases in the table of certificate contents.
type Issued = [
  Partial<HostPolicy>,
  Partial<SshIntent>,
  options: Record<string, string>,
  extensions: string[],
];

Deno.test.each<[name: string, ...Issued]>([
  ["a bare session", {}, SESSION, {}, []],
  ["a one-shot", {}, { command: "ls -l" }, { "force-command": "ls -l" }, []],
  ["a terminal", { allow_pty: true }, { ...SESSION, pty: true }, {}, ["permit-pty"]],
  ["a bastion", { allow_as_bastion: true }, HOP, { "force-command": "exit 1" }, ["permit-port-forwarding"]],
  [
    "a sealed bastion with terminal and source address",
    { allow_as_bastion: true, allow_pty: true, sealed_exec: true, source_address: "10.0.0.0/8" },
    { ...HOP, pty: true },
    { "force-command": "gateway-shim web01", "source-address": "10.0.0.0/8" },
    ["permit-port-forwarding", "permit-pty"],
  ],
])("issueUserCertificate() of %s", async (_name, host, intent, options, extensions) => {
  const { fields } = await issue(allowSample(host, intent));
  assert.deepEqual(fields.criticalOptions, options);
  assert.deepEqual(fields.extensions, extensions);
});

const DECISION = allowSample({});

Deno.test("issueUserCertificate() rejects an empty principal", async () => {
  const host = { ...DECISION.host, principal: "" };
  await assert.rejects(issue({ ...DECISION, host }), { code: "denied", message: "principal is required" });
});

Deno.test.each([0, -1, 901, 0.5, NaN, Infinity].map((ttlSeconds) => ({ ttlSeconds })))(
  "issueUserCertificate() refuses a lifetime of $ttlSeconds seconds",
  async ({ ttlSeconds }) => {
    await assert.rejects(issue({ ...DECISION, ttlSeconds }), RangeError);
  },
);

Deno.test.each([1, 900].map((ttlSeconds) => ({ ttlSeconds })))(
  "issueUserCertificate() accepts a lifetime of $ttlSeconds seconds",
  async ({ ttlSeconds }) => {
    assert.equal((await issue({ ...DECISION, ttlSeconds })).issued.validBefore, 1_700_000_000 + ttlSeconds);
  },
);

const PEM = encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca");
const DATA = Uint8Array.of(1, 2, 3);

Deno.test("parsePemCaKey() returns a key that can sign", async () => {
  const key = parsePemCaKey(PEM);
  assert.equal(key.backend, "pem");
  assert.equal(key.algorithm, "ssh-ed25519");
  assert.ok(verifySignature(key.publicKey, await key.sign(DATA), DATA));
});

Deno.test("the private half of a CA key is not exposed", () => {
  assert.deepEqual(Object.keys(parsePemCaKey(PEM)).sort(), ["algorithm", "backend", "publicKey", "sign"]);
});

Deno.test("a CA key does not sign for an aborted request", async () => {
  await assert.rejects(parsePemCaKey(PEM).sign(DATA, AbortSignal.abort()), { name: "AbortError" });
});

Deno.test("parsePemCaKey() rejects text that is not a key", () => {
  assert.throws(() => parsePemCaKey("x"), { name: "AppError", code: "invalid_config" });
});
