import { dirname, resolve } from "node:path";
import type { CaKey } from "@gateway/shared/ca/custody";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import { parseConfig } from "@gateway/shared/config/load";
import { type SignerConfig, signerConfig, UNSUPPORTED_SIGNER_KEYS } from "@gateway/shared/config/signer";
import { AppError } from "@gateway/shared/errors";
import { type CompiledPolicy, compilePolicy } from "@gateway/shared/policy/compile";

/**
 * Everything that decides a request, compiled and checked as a whole. A request reads it once; a reload
 * replaces it by one assignment.
 */
export interface Snapshot {
  readonly config: SignerConfig;
  readonly policy: CompiledPolicy;
  readonly caKey: CaKey;
  readonly reloadCallers: ReadonlySet<string>;
  readonly trustedForwarders: ReadonlySet<string>;
}

/**
 * Checks the text of a `signer.json` key by key.
 *
 * @param source the file's name, for messages
 * @throws {AppError} `invalid_config` with every problem found, one a line
 */
export function parseSignerConfig(text: string, source: string): SignerConfig {
  return parseConfig({
    text,
    source,
    what: "signer config",
    schema: signerConfig,
    unsupported: UNSUPPORTED_SIGNER_KEYS,
  });
}

/**
 * Compiles the text of a `signer.json`, and loads the CA key that it names.
 *
 * @throws {AppError} `invalid_config` with every problem found, one a line
 */
export async function compileText(text: string, source: string): Promise<Snapshot> {
  const config = parseSignerConfig(text, source);
  return compileSnapshot(config, await loadCaKey(config.ca_key));
}

/**
 * Compiles a config that is already checked key by key.
 *
 * @throws {AppError} `invalid_config` with every problem of the policy, one a line
 */
export function compileSnapshot(config: SignerConfig, caKey: CaKey): Snapshot {
  const compiled = compilePolicy(config);
  if (compiled.kind === "invalid") {
    throw new AppError("invalid_config", `Cannot use signer config: ${compiled.problems.join("\n  ")}`);
  }
  return {
    config,
    policy: compiled.policy,
    caKey,
    reloadCallers: namedCallers(config.reload_callers),
    trustedForwarders: namedCallers(config.trusted_forwarders),
  };
}

/** An empty string in a list of CNs matches nobody: no caller has an empty CN, and none shall by accident. */
function namedCallers(names: readonly string[]): ReadonlySet<string> {
  return new Set(names.filter((name) => name !== ""));
}

async function loadCaKey(path: string): Promise<CaKey> {
  let pem: string;
  try {
    pem = await Deno.readTextFile(path);
  } catch (error) {
    throw new AppError("invalid_config", `Cannot read ca_key "${path}": ${reason(error, path)}`, {
      cause: error,
    });
  }
  return parsePemCaKey(pem);
}

function reason(error: unknown, path: string): string {
  if (error instanceof Deno.errors.NotFound) return "no such file";
  if (error instanceof Deno.errors.NotCapable) {
    return `outside this process's permissions; a new path under "${dirname(resolve(path))}" needs a restart`;
  }
  return error instanceof Error ? error.message : String(error);
}
