import { writeFileAtomic } from "@gateway/shared/files";
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { resolve } from "node:path";
import { loadSettings, type Settings } from "../settings/config.ts";
import type { Terminal } from "./terminal.ts";

/** What every command receives. */
export interface Environment {
  readonly terminal: Terminal;
  readonly workingFolder: string;
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly randomBytes: (length: number) => Uint8Array;
  /** Aborted by Ctrl-C, or by another signal to end the program. */
  readonly signal: AbortSignal;
}

export async function readSettings(
  { variables, workingFolder }: Pick<Environment, "variables" | "workingFolder">,
  overrides: Readonly<Record<string, string | undefined>> = {},
): Promise<Settings> {
  const given = Object.entries(overrides).filter(([, value]) => value !== undefined);
  return loadSettings({
    env: { ...variables, ...Object.fromEntries(given) },
    dotEnv: await readDotEnv(`${workingFolder}/.env`),
    workingFolder,
  });
}

async function readDotEnv(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return "";
    throw new AppError("invalid_config", `Cannot read ${JSON.stringify(path)}`, { cause });
  }
}

/** Writes the file of an option such as `--output`. */
export async function writeOutput(path: string, text: string, { workingFolder }: Environment): Promise<void> {
  try {
    await writeFileAtomic(resolve(workingFolder, path), new TextEncoder().encode(text), { mode: 0o600 });
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot write ${JSON.stringify(path)}`, { cause });
  }
}
