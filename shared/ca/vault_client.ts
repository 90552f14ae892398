/**
 * The calls to an Azure Key Vault that a CA needs, through the vendor's own packages, which are loaded when the
 * first key of this kind is.
 *
 * ```ts ignore
 * import { openVault } from "./vault_client.ts";
 *
 * const vault = await openVault(config, { readEnv: (name) => Deno.env.get(name) });
 * const key = await vault.getKey(signal);
 * ```
 *
 * @module
 */
import type { Agent } from "node:http";
import type { TokenCredential } from "@azure/identity";
import type { KeyClientOptions, KeyVaultKey } from "@azure/keyvault-keys";
import { collectBytes } from "../text.ts";
import { AppError } from "../errors.ts";
import { withPlainKeys } from "../json.ts";
import type { AkvCaKeyConfig } from "./model.ts";
import type { VaultAlgorithm } from "./vault_key.ts";

interface Vault {
  /** The key in the configured version, or the latest one. */
  getKey(signal: AbortSignal): Promise<KeyVaultKey>;
  /** A function that signs digests with this version of the key and with no other. */
  signer(key: KeyVaultKey): VaultSigner;
}

/** Signs a digest. */
export type VaultSigner = (
  algorithm: VaultAlgorithm,
  digest: Uint8Array,
  signal: AbortSignal,
) => Promise<Uint8Array>;

/** What {@linkcode openVault} takes from outside. */
export interface VaultPorts {
  /** The value of an environment variable; asked for the client secret only. */
  readonly readEnv: (name: string) => string | undefined;
  /** Signs in to the vault instead of what the config says. */
  readonly credential?: TokenCredential;
  /** Makes the connections to the vault and to the sign-in service, with the trust that it has. */
  readonly agent?: Agent;
}

type ClientOptions = Omit<KeyClientOptions, "serviceVersion">;
type Policy = NonNullable<ClientOptions["additionalPolicies"]>[number]["policy"];

const MAX_ANSWER_BYTES = 256 * 1024;

/**
 * A client for one key. The packages name the system to the vault: the process needs `--allow-sys=osRelease`.
 *
 * @throws {AppError} `invalid_config` without that permission, or when the variable with the client secret is not
 * set or empty
 */
export async function openVault(config: AkvCaKeyConfig, ports: VaultPorts): Promise<Vault> {
  const { state } = await Deno.permissions.query({ name: "sys", kind: "osRelease" });
  // Without it a promise of theirs that nobody waits for is rejected, and that ends the process.
  if (state !== "granted") throw new AppError("invalid_config", "the process needs --allow-sys=osRelease");
  const options = clientOptions(ports);
  const credential = ports.credential ?? await createCredential(config, ports);
  const { CryptographyClient, KeyClient } = await import("@azure/keyvault-keys");
  const client = new KeyClient(config.vault_url, credential, options);
  const version = config.key_version === "" ? {} : { version: config.key_version };
  return {
    getKey: (abortSignal) => client.getKey(config.key_name, { ...version, abortSignal }),
    signer(key) {
      // The id says where the calls go, so it is made from the config and not taken from an answer.
      const id = `${config.vault_url}/keys/${config.key_name}/${key.properties.version ?? ""}`;
      const cryptography = new CryptographyClient({ ...key, id }, credential, options);
      return async (algorithm, digest, abortSignal) =>
        (await cryptography.sign(algorithm, digest, { abortSignal })).result;
    },
  };
}

async function createCredential(config: AkvCaKeyConfig, ports: VaultPorts): Promise<TokenCredential> {
  const options = {
    ...(ports.agent !== undefined && { agent: ports.agent }),
    additionalPolicies: ANSWER_POLICIES,
  };
  const secret = config.credential === undefined
    ? ""
    : readSecret(config.credential.client_secret_env, ports);
  const identity = await import("@azure/identity");
  if (config.credential === undefined) return new identity.DefaultAzureCredential(options);
  const { tenant_id, client_id } = config.credential;
  return new identity.ClientSecretCredential(tenant_id, client_id, secret, options);
}

function readSecret(name: string, { readEnv }: VaultPorts): string {
  const secret = readEnv(name) ?? "";
  if (secret !== "") return secret;
  throw new AppError(
    "invalid_config",
    `environment variable ${name} of client_secret_env is not set or empty`,
  );
}

function clientOptions({ agent }: VaultPorts): ClientOptions {
  return {
    ...(agent !== undefined && { agent }),
    // A request waits for one signature: what is worth a second attempt is decided by who knows the deadline.
    retryOptions: { maxRetries: 0 },
    redirectOptions: { maxRetries: 0 },
    additionalPolicies: ANSWER_POLICIES,
  };
}

/**
 * The packages read an answer to its end, however long it is, and parse it with the engine's parser; this reads it
 * for them.
 */
const safeAnswers: Policy = {
  name: "safeAnswers",
  async sendRequest(request, next) {
    request.streamResponseStatusCodes = new Set([Number.POSITIVE_INFINITY]);
    const response = await next(request);
    const { readableStreamBody, ...rest } = response;
    if (readableStreamBody === undefined) return response;
    return { ...rest, bodyAsText: plainOrBroken(await readBounded(readableStreamBody)) };
  },
};

const ANSWER_POLICIES: NonNullable<ClientOptions["additionalPolicies"]> = [
  { policy: safeAnswers, position: "perRetry" },
];

/** What can't be made safe is as good as JSON that is broken, and reported like that. */
function plainOrBroken(text: string): string {
  try {
    return withPlainKeys(text);
  } catch {
    return "{";
  }
}

async function readBounded(body: AsyncIterable<Uint8Array | string>): Promise<string> {
  const bytes = await collectBytes(body, MAX_ANSWER_BYTES);
  if (bytes !== undefined) return new TextDecoder().decode(bytes);
  throw new AppError("upstream_failure", `The key vault sent more than ${MAX_ANSWER_BYTES} bytes`);
}
