/**
 * Loading the CA keys that a config names, from wherever they are kept.
 *
 * ```ts ignore
 * import { loadCaKeys } from "@gateway/shared/ca";
 *
 * const settings = { ca_key: "pki/ssh_ca", ca_keys: {} };
 * const keys = await loadCaKeys(settings, { what: "signer config", clock, readEnv: Deno.env.get });
 * ```
 *
 * @module
 */
import { type Clock, within } from "../clock.ts";
import { AppError } from "../errors.ts";
import { type FileMode, formatMode, mayOthersWrite } from "../files/files.ts";
import { readNamedText } from "../files/files.ts";
import { quoteText } from "../text.ts";
import { connectToAgent, loadAgentCaKey } from "./agent.ts";
import type { CaKey } from "./custody.ts";
import { type CaKeyConfig, type CaKeyRing, type CaKeySettings, planCaKeys } from "./model.ts";

const LOAD_MS = 30_000;

/** What CA keys are loaded with. */
export interface CaKeyPorts {
  /** Bounds how long an agent or a vault may take. */
  readonly clock: Clock;
  /** The value of an environment variable. */
  readonly readEnv: (name: string) => string | undefined;
}

/** The config that names the keys, for messages, beside the ports. */
interface LoadCaKeysOptions extends CaKeyPorts {
  /** As messages name it: `signer config`. */
  readonly what: string;
}

/**
 * Loads every CA key that a config names.
 *
 * @throws {AppError} `invalid_config` when there is no default key, or one can't be loaded within 30 s
 */
export async function loadCaKeys(
  config: CaKeySettings,
  { what, ...ports }: LoadCaKeysOptions,
): Promise<CaKeyRing<CaKey>> {
  const ring = planCaKeys(config);
  if (ring === undefined) {
    throw new AppError("invalid_config", `Cannot use ${what}: it names neither ca_key nor ca_keys._default`);
  }
  const late = () => new AppError("invalid_config", `Cannot load the CA keys within ${LOAD_MS / 1000} s`);
  const [fallback, ...keys] = await within(
    { clock: ports.clock, ms: LOAD_MS, late },
    (signal) =>
      Promise.all(
        [ring.fallback, ...ring.byGroup.values()].map((key) => loadCaKey(key, { ...ports, signal })),
      ),
  );
  if (fallback === undefined) throw new TypeError("no fallback key");
  const byGroup = new Map([...ring.byGroup.keys()].flatMap((group, index) => {
    const key = keys[index];
    return key === undefined ? [] : [[group, key] as const];
  }));
  return { fallback, byGroup };
}

interface LoadPorts extends CaKeyPorts {
  readonly signal: AbortSignal;
}

async function loadCaKey(key: CaKeyConfig, { clock, readEnv, signal }: LoadPorts): Promise<CaKey> {
  switch (key.type) {
    case "pem": {
      const text = await readNamedText("ca_key", key.path);
      refuseWritable(key.path, await Deno.stat(key.path));
      return await parseKeyFile(key.path, text);
    }
    case "agent": {
      const socket = key.socket === "" ? readEnv("SSH_AUTH_SOCK") ?? "" : key.socket;
      if (socket === "") {
        throw new AppError(
          "invalid_config",
          "Cannot use a CA key of type agent: neither socket nor SSH_AUTH_SOCK is set",
        );
      }
      const publicKey = await readNamedText("public_key_path", key.public_key_path);
      return await loadAgentCaKey({ publicKey, connect: () => connectToAgent(socket), clock, signal });
    }
    case "akv": {
      // 40 MB of libraries: only for those who need them.
      const { loadAkvCaKey } = await import("./azure_key_vault.ts");
      return await loadAkvCaKey(key, { clock, signal, readEnv });
    }
    default:
      return key satisfies never;
  }
}

/** A key that others may write to is one that others may have chosen. */
function refuseWritable(path: string, file: FileMode): void {
  if (!mayOthersWrite(file)) return;
  throw new AppError(
    "invalid_config",
    `Cannot use ca_key ${quoteText(path)}: other users may write to it (mode ${
      formatMode(file.mode ?? 0)
    }); chmod 600 it, and see that it is still yours`,
  );
}

async function parseKeyFile(path: string, text: string): Promise<CaKey> {
  // Reading a file takes a library, which those whose key is not in one do without.
  const { parsePemCaKey } = await import("./pem.ts");
  try {
    return parsePemCaKey(text);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw new AppError(error.code, `Cannot use ca_key ${quoteText(path)}: ${error.message}`);
  }
}
