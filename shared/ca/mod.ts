/**
 * CA keys and certificate issuance: key files, ssh-agent, Azure Key Vault.
 *
 * @module
 */

import { type Clock, within } from "../clock.ts";
import { AppError, configError } from "../errors.ts";
import { formatMode, mayOthersWrite, readNamedText } from "../files/mod.ts";
import { quoteText } from "../text.ts";
import { connectToAgent, loadAgentCaKey } from "./agent.ts";
import { type CaKey, type CaKeyConfig, type CaKeyRing, type CaKeySettings, planCaKeys } from "./model.ts";

export {
  type CaKey,
  type CaKeyRing,
  type IssuedCertificate,
  issueUserCertificate,
  selectCaKey,
} from "./model.ts";
export {
  type AgentCaKeyConfig,
  type AkvCaKeyConfig,
  CA_KEY_TYPES,
  type CaKeyConfig,
  caKeyConfig,
  planCaKeys,
} from "./model.ts";

// Loading the CA keys that a config names: key files, agents and vaults.

const LOAD_MS = 30_000;

/** The dependencies of {@linkcode loadCaKeys}. */
export interface CaKeyPorts {
  /** Bounds the time of an agent or a vault. */
  readonly clock: Clock;
  /** Reads an environment variable. */
  readonly readEnv: (name: string) => string | undefined;
}

/**
 * Loads every CA key that a config names.
 *
 * @param options with the name of the config for messages: `signer config`
 * @throws {AppError} `invalid_config` without a default key, or if a key cannot be loaded within 30 s
 */
export async function loadCaKeys(
  config: CaKeySettings,
  { what, ...ports }: CaKeyPorts & { readonly what: string },
): Promise<CaKeyRing<CaKey>> {
  const ring = planCaKeys(config);
  if (ring === undefined) {
    throw configError(`Cannot use ${what}: it names neither ca_key nor ca_keys._default`);
  }
  const late = () => configError(`Cannot load the CA keys within ${LOAD_MS / 1000} s`);
  return await within({ clock: ports.clock, ms: LOAD_MS, late }, async (signal) => {
    const load = (key: CaKeyConfig) => loadCaKey(key, { ...ports, signal });
    const [fallback, ...byGroup] = await Promise.all([
      load(ring.fallback),
      ...[...ring.byGroup].map(async ([group, key]) => [group, await load(key)] as const),
    ]);
    return { fallback, byGroup: new Map(byGroup) };
  });
}

async function loadCaKey(
  key: CaKeyConfig,
  { clock, readEnv, signal }: CaKeyPorts & { readonly signal: AbortSignal },
): Promise<CaKey> {
  if (key.type === "pem") return await loadPemCaKey(key.path);
  if (key.type === "akv") {
    // 40 MB of libraries, loaded for this type only.
    const { loadAkvCaKey } = await import("./azure_key_vault.ts");
    return await loadAkvCaKey(key, { clock, signal, readEnv });
  }
  const socket = key.socket || (readEnv("SSH_AUTH_SOCK") ?? "");
  if (socket === "") {
    throw configError("Cannot use a CA key of type agent: neither socket nor SSH_AUTH_SOCK is set");
  }
  const publicKey = await readNamedText("public_key_path", key.public_key_path);
  return await loadAgentCaKey({ publicKey, connect: () => connectToAgent(socket), clock, signal });
}

async function loadPemCaKey(path: string): Promise<CaKey> {
  const unusable = (problem: string) => configError(`Cannot use ca_key ${quoteText(path)}: ${problem}`);
  const text = await readNamedText("ca_key", path);
  const file = await Deno.stat(path);
  // Reject a file that others can write, because another user may have replaced the key.
  if (mayOthersWrite(file)) {
    const mode = formatMode(file.mode ?? 0);
    throw unusable(
      `other users may write to it (mode ${mode}); check that the key is yours, then chmod 600`,
    );
  }
  // The module loads a library, which other types do not need.
  const { parsePemCaKey } = await import("./pem.ts");
  try {
    return parsePemCaKey(text);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw unusable(error.message);
  }
}
