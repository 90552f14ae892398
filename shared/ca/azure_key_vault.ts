/**
 * A certificate authority whose key is in an Azure Key Vault and never leaves it. The version that is current
 * when the key is loaded stays in use until the next load, so that the key that certificates name and the key
 * that signs them are the same; and a signature is believed only when it verifies with that key.
 *
 * ```ts ignore
 * import { loadAkvCaKey } from "./azure_key_vault.ts";
 * import { systemClock } from "@gateway/shared/clock";
 *
 * const key = await loadAkvCaKey(
 *   { type: "akv", vault_url: "https://ca.vault.example", key_name: "ssh-ca", key_version: "" },
 *   { clock: systemClock, readEnv: (name) => Deno.env.get(name) },
 * );
 * ```
 *
 * @module
 */
import { createHash } from "node:crypto";
import type { KeyVaultKey } from "@azure/keyvault-keys";
import { type Bound, type Clock, within } from "../clock.ts";
import { AppError } from "../errors.ts";
import { encodeKeyBlob, keyAlgorithm } from "../ssh/public_key.ts";
import { verifySignature } from "../ssh/signature.ts";
import type { CaKey } from "./custody.ts";
import type { AkvCaKeyConfig } from "./model.ts";
import { openVault, type VaultPorts, type VaultSigner } from "./vault_client.ts";
import { describeVaultFailure, isTransient } from "./vault_failure.ts";
import { sshKeyOf, sshSignatureOf, vaultAlgorithm, vaultHash } from "./vault_key.ts";

/** What {@linkcode loadAkvCaKey} takes from outside. */
interface AkvPorts extends VaultPorts {
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
}

const LOAD_MS = 30_000;
const SIGN_MS = 10_000;

/**
 * A CA key in a vault, which must answer for it now.
 *
 * @throws {AppError} `invalid_config` when the vault can't be reached or refuses, or the key is not there, of a
 * type that SSH does not have, disabled, out of its time or not for signing
 */
export async function loadAkvCaKey(config: AkvCaKeyConfig, ports: AkvPorts): Promise<CaKey> {
  const { clock, signal } = ports;
  try {
    const vault = await openVault(config, ports);
    const vaultKey = await callTwice({ clock, signal, ms: LOAD_MS }, vault.getKey);
    checkKey(config, vaultKey);
    checkTime(vaultKey, clock.now());
    return createCaKey(vaultKey, vault.signer(vaultKey), clock);
  } catch (failure) {
    signal?.throwIfAborted();
    const { text, cause } = describeVaultFailure(failure);
    const message = `Cannot load CA key "${config.key_name}" from the key vault: ${text}`;
    throw new AppError("invalid_config", message, { cause });
  }
}

function createCaKey(vaultKey: KeyVaultKey, signDigest: VaultSigner, clock: Clock): CaKey {
  const parts = sshKeyOf(vaultKey.key ?? {});
  const [algorithm, publicKey] = [vaultAlgorithm(parts), encodeKeyBlob(parts)];
  const sign = async (data: Uint8Array, signal: AbortSignal | undefined) => {
    checkTime(vaultKey, clock.now());
    const digest = createHash(vaultHash(parts)).update(data).digest();
    const bound = { clock, signal, ms: SIGN_MS };
    const signature = sshSignatureOf(
      parts,
      await callTwice(bound, (ended) => signDigest(algorithm, digest, ended)),
    );
    if (verifySignature(publicKey, signature, data)) return signature;
    throw new AppError("upstream_failure", "the vault returned a signature that is not the CA's");
  };
  return {
    backend: "akv",
    algorithm: keyAlgorithm(parts),
    publicKey,
    async sign(data, signal) {
      try {
        return await sign(data, signal);
      } catch (failure) {
        signal?.throwIfAborted();
        const { text, ...options } = describeVaultFailure(failure);
        throw new AppError("upstream_failure", `Cannot sign with the key vault: ${text}`, options);
      }
    },
  };
}

/** A connection that was closed while it was idle, or a server that is being replaced, works the second time. */
function callTwice<T>(
  bound: Omit<Bound, "late">,
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
    throw new AppError("invalid_config", "the vault answered with another version");
  }
  if (enabled === false) throw new AppError("invalid_config", "the key is disabled");
  if (keyOperations !== undefined && !keyOperations.includes("sign")) {
    throw new AppError("invalid_config", "the key is not for signing");
  }
}

function checkTime({ properties: { notBefore, expiresOn } }: KeyVaultKey, now: number): void {
  if (notBefore !== undefined && now < notBefore.getTime()) {
    throw new AppError("invalid_config", "the key is not valid yet");
  }
  if (expiresOn !== undefined && now >= expiresOn.getTime()) {
    throw new AppError("invalid_config", "the key has expired");
  }
}
