/**
 * `ca_keys`: where the keys of the certificate authority are kept, and which of them signs for which host: the
 * first of the host's groups that has an entry, else the default, which is the entry `_default` or, without one,
 * `ca_key`.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { caKeyConfig, planCaKeys, selectCaKey } from "@gateway/shared/ca";
 *
 * const entry = caKeyConfig.parse({ type: "agent", public_key_path: "ca.pub" });
 * assert.deepEqual(entry, { type: "agent", socket: "", public_key_path: "ca.pub" });
 * assert.equal(caKeyConfig.safeParse({ type: "pem", path: "ca", vault_url: "https://v" }).success, false);
 *
 * const plan = planCaKeys({ ca_key: "ca", ca_keys: { prod: { type: "pem", path: "prod_ca" } } });
 * assert(plan !== undefined);
 * assert.deepEqual(selectCaKey(plan, ["web", "prod"]), { type: "pem", path: "prod_ca" });
 * assert.deepEqual(selectCaKey(plan, ["web"]), { type: "pem", path: "ca" });
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";

/** The ways to keep a CA key. */
export const CA_KEY_TYPES = ["pem", "agent", "akv"] as const;

/** A private key file, for labs. */
interface PemCaKeyConfig {
  readonly type: "pem";
  /** The private key file, in a format of OpenSSH or PEM, not encrypted. */
  readonly path: string;
}

/** A key in an ssh-agent. */
export interface AgentCaKeyConfig {
  readonly type: "agent";
  /** The agent's unix socket; `""` is what `SSH_AUTH_SOCK` names. */
  readonly socket: string;
  /** A file with the public key that says which of the agent's keys is the CA. */
  readonly public_key_path: string;
}

/** A key in an Azure Key Vault. */
export interface AkvCaKeyConfig {
  /** A key in an Azure Key Vault. */
  readonly type: "akv";
  /** `https://<vault>`, nothing behind the host. */
  readonly vault_url: string;
  /** The name of the key in the vault. */
  readonly key_name: string;
  /** `""` is the version that is the latest when the key is loaded. */
  readonly key_version: string;
  /** How to sign in; absent is the default chain of the cloud's credentials. */
  readonly credential?: AkvClientSecret;
}

interface AkvClientSecret {
  /** The directory that the application is registered in. */
  readonly tenant_id: string;
  readonly client_id: string;
  /** The name of the environment variable that holds the secret. */
  readonly client_secret_env: string;
}

/** One entry of `ca_keys`, told apart by its type. */
export type CaKeyConfig = PemCaKeyConfig | AgentCaKeyConfig | AkvCaKeyConfig;

const text = z.string();
const ENVIRONMENT_NAME = /^(?:|[A-Za-z_][A-Za-z0-9_]*)$/;
// The names that Key Vault gives to keys and versions; anything else would change the URL that is called.
const VAULT_NAME = /^[A-Za-z0-9-]{1,127}$/;
const VAULT_VERSION = /^[A-Za-z0-9]{0,64}$/;

// One flat struct and not a union of three: the reference page then has one row for each key, and the message for a
// key of another type can say to which it belongs.
const entry = z.strictObject({
  type: z.enum(CA_KEY_TYPES).describe(
    "pem: a key file, for labs; agent: an ssh-agent; akv: an Azure Key Vault",
  ),
  path: text.min(1).exactOptional().describe("pem: the private key file, without passphrase"),
  socket: text.exactOptional().describe("agent: its unix socket; empty is what SSH_AUTH_SOCK names"),
  public_key_path: text.min(1).exactOptional()
    .describe(
      "agent: file with the public key that says which of the agent's keys is the CA; Ed25519, ECDSA on P-256, " +
        "P-384 or P-521, or RSA of 2048 to 4096 bits (signs as rsa-sha2-512)",
    ),
  vault_url: text.min(1).exactOptional().describe("akv: https URL of the vault"),
  key_name: text.regex(VAULT_NAME, "must be 1 to 127 letters, digits and dashes").exactOptional()
    .describe("akv: name of the key; RSA, or EC on P-256, P-384 or P-521"),
  key_version: text.regex(VAULT_VERSION, "must be letters and digits").exactOptional()
    .describe("akv: version of the key; empty is the latest at the time of loading, until the next reload"),
  tenant_id: text.exactOptional().describe(
    "akv: with client_id and client_secret_env, or none of the three for the default credential chain",
  ),
  client_id: text.exactOptional().describe("akv: see tenant_id"),
  client_secret_env: text.regex(ENVIRONMENT_NAME, "must be the name of an environment variable")
    .exactOptional().describe("akv: name of the environment variable that holds the client secret"),
});

type Entry = z.infer<typeof entry>;
type EntryKey = Exclude<keyof Entry, "type">;

const KEYS_OF: Readonly<Record<Entry["type"], readonly EntryKey[]>> = {
  pem: ["path"],
  agent: ["socket", "public_key_path"],
  akv: ["vault_url", "key_name", "key_version", "tenant_id", "client_id", "client_secret_env"],
};
const REQUIRED: readonly EntryKey[] = ["path", "public_key_path", "vault_url", "key_name"];
const SECRET_KEYS = ["tenant_id", "client_id", "client_secret_env"] as const;

/** Checks a {@linkcode CaKeyConfig}; a key that is unknown or belongs to another type is refused. */
export const caKeyConfig: z.ZodType<CaKeyConfig> = entry.superRefine(checkEntry).transform(toCaKeyConfig);

type Refinement = z.core.$RefinementCtx<Entry>;

function checkEntry(value: Entry, context: Refinement): void {
  const report = (key: EntryKey, message: string) =>
    context.addIssue({ code: "custom", path: [key], message });
  const own = KEYS_OF[value.type];
  for (const key of Object.keys(value).filter(isEntryKey)) {
    if (!own.includes(key)) report(key, `belongs to ca_keys of type ${ownerOf(key)}, not ${value.type}`);
  }
  for (const key of REQUIRED) {
    if (own.includes(key) && value[key] === undefined) report(key, `is missing, type ${value.type} needs it`);
  }
  if (value.type !== "akv") return;
  if (value.vault_url !== undefined && !isVaultUrl(value.vault_url)) {
    report("vault_url", "must be https://host or https://host:port, nothing else");
  }
  const set = SECRET_KEYS.filter((key) => isSet(value[key]));
  if (set.length === 0 || set.length === SECRET_KEYS.length) return;
  for (const key of SECRET_KEYS.filter((key) => !set.includes(key))) {
    // Falling back to the default chain would sign in as somebody else than the operator wrote.
    report(key, `is missing: ${SECRET_KEYS.join(", ")} are set together or not at all`);
  }
}

function toCaKeyConfig(value: Entry): CaKeyConfig {
  switch (value.type) {
    case "pem":
      return { type: "pem", path: value.path ?? "" };
    case "agent":
      return { type: "agent", socket: value.socket ?? "", public_key_path: value.public_key_path ?? "" };
    case "akv": {
      const { tenant_id = "", client_id = "", client_secret_env = "" } = value;
      return {
        type: "akv",
        vault_url: originOf(value.vault_url ?? ""),
        key_name: value.key_name ?? "",
        key_version: value.key_version ?? "",
        ...(tenant_id !== "" && { credential: { tenant_id, client_id, client_secret_env } }),
      };
    }
    default:
      return value.type satisfies never;
  }
}

function isEntryKey(key: string): key is EntryKey {
  return key !== "type" && Object.hasOwn(entry.shape, key);
}

function ownerOf(key: EntryKey): string {
  return CA_KEY_TYPES.find((type) => KEYS_OF[type].includes(key)) ?? "";
}

function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== "";
}

/** Only an origin: with a path, a query or a user the calls would go elsewhere than they seem to. */
function isVaultUrl(url: string): boolean {
  return /^https:\/\/[^\/?#@\\\s]+\/?$/i.test(url) && URL.canParse(url);
}

function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : url;
}

/** The name in `ca_keys` of the key for hosts whose groups have none; not a group. */
const DEFAULT_CA_KEY = "_default";

/** CA keys by host group: their configs, or the loaded keys. */
export interface CaKeyRing<K> {
  /** Without the default. */
  readonly byGroup: ReadonlyMap<string, K>;
  /** For hosts none of whose groups has a key of its own. */
  readonly fallback: K;
}

/** The part of a config that says what CA keys there are. */
export interface CaKeySettings {
  /** Path of a private key file; absent or `""`: there is none. */
  readonly ca_key?: string | undefined;
  /** Keys by host group; `_default` is for every other host. Absent: none. */
  readonly ca_keys?: Readonly<Record<string, CaKeyConfig>> | undefined;
}

/** Every CA key that a config names, or `undefined` when there is none for hosts without an entry. */
export function planCaKeys({ ca_key = "", ca_keys = {} }: CaKeySettings): CaKeyRing<CaKeyConfig> | undefined {
  const byGroup = new Map(Object.entries(ca_keys));
  const own = byGroup.get(DEFAULT_CA_KEY);
  byGroup.delete(DEFAULT_CA_KEY);
  if (own !== undefined) return { byGroup, fallback: own };
  return ca_key === "" ? undefined : { byGroup, fallback: { type: "pem", path: ca_key } };
}

/**
 * The key for a host.
 *
 * @param groups the host's groups in the order of the config
 */
export function selectCaKey<K>(ring: CaKeyRing<K>, groups: readonly string[]): K {
  for (const group of groups) {
    const key = ring.byGroup.get(group);
    if (key !== undefined) return key;
  }
  return ring.fallback;
}
