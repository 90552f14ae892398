import assert from "node:assert/strict";
import * as z from "@zod/zod";
import { parseConfig } from "../config/load.ts";
import { describeConfig } from "../config/reference.ts";
import { AppError } from "../errors.ts";
import { selectCaKey } from "./issue.ts";
import { type CaKeyConfig, caKeyConfig, planCaKeys } from "./model.ts";

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
])("caKeyConfig takes $name", ({ entry, expected }) => {
  assert.deepEqual(structuredClone(parse(entry)), expected);
});

Deno.test.each([
  { name: "no type", entry: { path: "ca" }, problem: /ca_keys\.prod\.type\b/ },
  {
    name: "an unknown type",
    entry: { type: "tpm" },
    problem: /ca_keys\.prod\.type: must be "pem" or "agent"/,
  },
  {
    name: "an unknown key",
    entry: { type: "pem", path: "ca", pasphrase: "x" },
    problem: /unknown key "ca_keys\.prod\.pasphrase"/,
  },
  {
    name: "a key of another type",
    entry: { type: "pem", path: "ca", vault_url: "https://v" },
    problem: /ca_keys\.prod\.vault_url: belongs to ca_keys of type akv, not pem/,
  },
  {
    name: "an empty key of another type",
    entry: { ...AKV, socket: "" },
    problem: /ca_keys\.prod\.socket: belongs to ca_keys of type agent, not akv/,
  },
  { name: "pem without path", entry: { type: "pem" }, problem: /ca_keys\.prod\.path: is missing/ },
  {
    name: "agent without public key",
    entry: { type: "agent" },
    problem: /ca_keys\.prod\.public_key_path: is missing/,
  },
  {
    name: "an empty path",
    entry: { type: "pem", path: "" },
    problem: /ca_keys\.prod\.path: must not be empty/,
  },
  {
    name: "akv without vault",
    entry: { type: "akv", key_name: "k" },
    problem: /ca_keys\.prod\.vault_url: is missing/,
  },
  {
    name: "a vault over plain HTTP",
    entry: { ...AKV, vault_url: "http://ca.vault.example" },
    problem: /ca_keys\.prod\.vault_url: must be https/,
  },
  {
    name: "a vault over plain HTTP on loopback",
    entry: { ...AKV, vault_url: "http://127.0.0.1:8443" },
    problem: /ca_keys\.prod\.vault_url: must be https/,
  },
  {
    name: "a vault URL with a path",
    entry: { ...AKV, vault_url: "https://ca.vault.example/keys" },
    problem: /ca_keys\.prod\.vault_url: must be https/,
  },
  {
    name: "a vault URL with a user",
    entry: { ...AKV, vault_url: "https://u@ca.vault.example" },
    problem: /ca_keys\.prod\.vault_url: must be https/,
  },
  {
    name: "a key name that leads elsewhere",
    entry: { ...AKV, key_name: "../secrets/x" },
    problem: /ca_keys\.prod\.key_name: must be 1 to 127 letters/,
  },
  {
    name: "a tenant alone",
    entry: { ...AKV, tenant_id: "t" },
    problem: /ca_keys\.prod\.client_id: is missing.*\n.*ca_keys\.prod\.client_secret_env: is missing/,
  },
  {
    name: "a client secret without tenant",
    entry: { ...AKV, ...SECRET, tenant_id: "" },
    problem: /ca_keys\.prod\.tenant_id: is missing/,
  },
  {
    name: "tenant and client without the secret's variable",
    entry: { ...AKV, tenant_id: "t", client_id: "c" },
    problem: /ca_keys\.prod\.client_secret_env: is missing/,
  },
  {
    name: "a secret in place of the variable's name",
    entry: { ...AKV, ...SECRET, client_secret_env: "s3cr3t~x" },
    problem: /ca_keys\.prod\.client_secret_env: must be the name of an environment variable/,
  },
])("caKeyConfig refuses $name", ({ entry, problem }) => {
  assert.throws(() => parse(entry), (error) => {
    assert.ok(error instanceof AppError && error.code === "invalid_config");
    assert.match(error.message, problem);
    assert.doesNotMatch(error.message, /s3cr3t/);
    return true;
  });
});

Deno.test("the reference page has a row for every key of an entry", () => {
  const page = describeConfig({ title: "signer.json", schema });
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
])("selectCaKey() gives $name", ({ groups, expected }) => {
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
  { name: "nothing at all", settings: {} },
  { name: "an empty ca_key", settings: { ca_key: "", ca_keys: {} } },
  { name: "groups but no default", settings: { ca_keys } },
])("planCaKeys() finds no default in $name", ({ settings }) => {
  assert.equal(planCaKeys(settings), undefined);
});
