import type { Clock } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { describeReadFailure, writeFileAtomic } from "@gateway/shared/files";
import { resolve } from "node:path";
import { openModels } from "../runs/debate_parts.ts";
import { loadSettings, type Settings } from "../settings/config.ts";
import { safeText, type Terminal } from "./terminal.ts";

export interface Environment {
  readonly terminal: Terminal;
  readonly workingFolder: string;
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly randomBytes: (length: number) => Uint8Array;
  /** Aborted by Ctrl-C or another signal that ends the program. */
  readonly signal: AbortSignal;
}

export async function readSettings(
  { variables, workingFolder }: Pick<Environment, "variables" | "workingFolder">,
  overrides: Readonly<Record<string, string | undefined>> = {},
): Promise<Settings> {
  const given = Object.entries(overrides).filter(([, value]) => value !== undefined);
  const path = `${workingFolder}/.env`;
  const dotEnv = await Deno.readTextFile(path).catch((cause) => {
    if (cause instanceof Deno.errors.NotFound) return "";
    const text = `Cannot read ${JSON.stringify(path)}: ${describeReadFailure(cause)}`;
    throw new AppError("invalid_config", text, { cause });
  });
  return loadSettings({ env: { ...variables, ...Object.fromEntries(given) }, dotEnv, workingFolder });
}

export async function writeOutput(path: string, text: string, { workingFolder }: Environment): Promise<void> {
  try {
    await writeFileAtomic(resolve(workingFolder, path), new TextEncoder().encode(text), { mode: 0o600 });
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot write ${JSON.stringify(path)}: ${errorText(cause)}`, {
      cause,
    });
  }
}

export function note({ terminal }: Pick<Environment, "terminal">, text: string): void {
  terminal.err(`note: ${safeText(text)}\n`);
}

/** Opens the models of the settings. Notes about them are printed. */
export function openProviders(settings: Settings, environment: Environment) {
  const { terminal: { isLive: isWatched } } = environment;
  return openModels(settings, { ...environment, isWatched, warn: (message) => note(environment, message) });
}
