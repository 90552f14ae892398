// A CA key in an Azure Key Vault, which it never leaves. The current version stays in use until the next
// load, so that certificates name the key that signs them. A signature is accepted only if it verifies with
// that key. The vendor's packages are loaded with the first key of this kind.
import type { Agent } from "node:http";
import { createHash } from "node:crypto";
import type { TokenCredential } from "@azure/identity";
import type { KeyClientOptions, KeyVaultKey } from "@azure/keyvault-keys";
import { type Clock, within } from "../clock.ts";
import { AppError } from "../errors.ts";
import { withPlainKeys } from "../json.ts";
import { encodeKeyBlob, keyAlgorithm, verifySignature } from "../ssh/keys.ts";
import { collectBytes } from "../text.ts";
import type { CaKey } from "./issue.ts";
import type { AkvCaKeyConfig } from "./model.ts";
import {
  describeVaultFailure,
  isTransient,
  sshKeyOf,
  sshSignatureOf,
  vaultAlgorithm,
} from "./vault_answer.ts";

interface AkvPorts {
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /** Reads the environment variable with the client secret. */
  readonly readEnv: (name: string) => string | undefined;
  /** Signs in instead of the config's credential. */
  readonly credential?: TokenCredential;
  /** Opens the connections to the vault and the sign-in service, with its own trust. */
  readonly agent?: Agent;
}

type ClientOptions = Omit<KeyClientOptions, "serviceVersion">;

const LOAD_MS = 30_000;
const SIGN_MS = 10_000;
const MAX_ANSWER_BYTES = 256 * 1024;

/**
 * Loads a CA key of a vault, which must answer now. The packages send the system's name to the vault: the process needs
 * `--allow-sys=osRelease`.
 *
 * @throws {AppError} `invalid_config` if the vault is unavailable or refuses, or the key is missing, disabled, expired,
 * not for signing or of a type that SSH does not have
 */
export async function loadAkvCaKey(config: AkvCaKeyConfig, ports: AkvPorts): Promise<CaKey> {
  const { clock, signal } = ports;
  try {
    const vault = await openVault(config, ports);
    const key = await callTwice({ clock, signal, ms: LOAD_MS }, vault.getKey);
    checkKey(config, key);
    checkTime(key, clock.now());
    return createCaKey(key, vault.signer(key), clock);
  } catch (failure) {
    signal?.throwIfAborted();
    const { text, cause } = describeVaultFailure(failure);
    const message = `Cannot load CA key "${config.key_name}" from the key vault: ${text}`;
    throw new AppError("invalid_config", message, { cause });
  }
}

function createCaKey(
  vaultKey: KeyVaultKey,
  signDigest: (
    algorithm: ReturnType<typeof vaultAlgorithm>["name"],
    digest: Uint8Array,
    signal: AbortSignal,
  ) => Promise<Uint8Array>,
  clock: Clock,
): CaKey {
  const parts = sshKeyOf(vaultKey.key ?? {});
  const publicKey = encodeKeyBlob(parts);
  const algorithm = vaultAlgorithm(parts);
  return {
    backend: "akv",
    algorithm: keyAlgorithm(parts),
    publicKey,
    async sign(data, signal) {
      try {
        checkTime(vaultKey, clock.now());
        const digest = createHash(algorithm.hash).update(data).digest();
        const bound = { clock, signal, ms: SIGN_MS };
        const value = await callTwice(bound, (ended) => signDigest(algorithm.name, digest, ended));
        const signature = sshSignatureOf(parts, value);
        if (verifySignature(publicKey, signature, data)) return signature;
        throw new AppError("upstream_failure", "the vault returned a signature that is not the CA's");
      } catch (failure) {
        signal?.throwIfAborted();
        const { text, ...options } = describeVaultFailure(failure);
        throw new AppError("upstream_failure", `Cannot sign with the key vault: ${text}`, options);
      }
    },
  };
}

/** The second attempt succeeds after the loss of an idle connection, or during the replacement of a server. */
function callTwice<T>(
  bound: { readonly clock: Clock; readonly signal: AbortSignal | undefined; readonly ms: number },
  attempt: (ended: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = () => new AppError("upstream_failure", "the vault did not answer in time");
  return within({ ...bound, late }, async (ended) => {
    try {
      return await attempt(ended);
    } catch (failure) {
      if (ended.aborted || !isTransient(failure)) throw failure;
      return await attempt(ended);
    }
  });
}

function checkKey(config: AkvCaKeyConfig, { properties, keyOperations }: KeyVaultKey): void {
  const { version = "", enabled } = properties;
  if (!/^[A-Za-z0-9]{1,64}$/.test(version) || (config.key_version !== "" && version !== config.key_version)) {
    throw unusable("the vault answered with another version");
  }
  if (enabled === false) throw unusable("the key is disabled");
  if (keyOperations?.includes("sign") === false) throw unusable("the key is not for signing");
}

function checkTime({ properties: { notBefore, expiresOn } }: KeyVaultKey, now: number): void {
  if (notBefore !== undefined && now < notBefore.getTime()) throw unusable("the key is not valid yet");
  if (expiresOn !== undefined && now >= expiresOn.getTime()) throw unusable("the key has expired");
}

async function openVault(config: AkvCaKeyConfig, { credential: given, agent, readEnv }: AkvPorts) {
  const { state } = await Deno.permissions.query({ name: "sys", kind: "osRelease" });
  // Without it the packages leave a rejected promise, and that ends the process.
  if (state !== "granted") throw unusable("the process needs --allow-sys=osRelease");
  const connection = { ...(agent !== undefined && { agent }), additionalPolicies: ANSWER_POLICIES };
  const options: ClientOptions = {
    ...connection,
    // A request waits for one signature, so the code that knows the deadline decides about a second attempt.
    retryOptions: { maxRetries: 0 },
    redirectOptions: { maxRetries: 0 },
  };
  const { vault_url, key_name, key_version } = config;
  const credential = given ?? await createCredential(config, readEnv, connection);
  const { CryptographyClient, KeyClient } = await import("@azure/keyvault-keys");
  const client = new KeyClient(vault_url, credential, options);
  return {
    /** The key in the configured version, or the latest. */
    getKey: (abortSignal: AbortSignal) =>
      client.getKey(key_name, { ...(key_version !== "" && { version: key_version }), abortSignal }),
    /** A function that signs digests with this version of the key. */
    signer(key: KeyVaultKey): Parameters<typeof createCaKey>[1] {
      // The ID determines the called URL, so it comes from the config and not from an answer.
      const id = `${vault_url}/keys/${key_name}/${key.properties.version ?? ""}`;
      const cryptography = new CryptographyClient({ ...key, id }, credential, options);
      return async (algorithm, digest, abortSignal) =>
        (await cryptography.sign(algorithm, digest, { abortSignal })).result;
    },
  };
}

async function createCredential(
  { credential }: AkvCaKeyConfig,
  readEnv: AkvPorts["readEnv"],
  options: Pick<ClientOptions, "additionalPolicies">,
): Promise<TokenCredential> {
  const name = credential?.client_secret_env ?? "";
  const secret = credential === undefined ? "" : readEnv(name) ?? "";
  if (credential !== undefined && secret === "") {
    throw unusable(`environment variable ${name} of client_secret_env is not set or empty`);
  }
  const { ClientSecretCredential, DefaultAzureCredential } = await import("@azure/identity");
  return credential === undefined
    ? new DefaultAzureCredential(options)
    : new ClientSecretCredential(credential.tenant_id, credential.client_id, secret, options);
}

/** Reads answers for the packages, which have no limit of length and use the engine's parser. */
const ANSWER_POLICIES: NonNullable<ClientOptions["additionalPolicies"]> = [{
  position: "perRetry",
  policy: {
    name: "safeAnswers",
    async sendRequest(request, next) {
      request.streamResponseStatusCodes = new Set([Number.POSITIVE_INFINITY]);
      const response = await next(request);
      const { readableStreamBody, ...rest } = response;
      if (readableStreamBody === undefined) return response;
      const bytes = await collectBytes(readableStreamBody, MAX_ANSWER_BYTES);
      if (bytes === undefined) {
        throw new AppError("upstream_failure", `The key vault sent more than ${MAX_ANSWER_BYTES} bytes`);
      }
      return { ...rest, bodyAsText: plainOrBroken(new TextDecoder().decode(bytes)) };
    },
  },
}];

/** Unsafe JSON is reported like broken JSON. */
function plainOrBroken(text: string): string {
  try {
    return withPlainKeys(text);
  } catch {
    return "{";
  }
}
