import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { writeFileAtomic } from "@gateway/shared/files";
import { resolve } from "node:path";
import { type ContextRedactor, createContextRedactor, ownSecrets } from "../context/redact_context.ts";
import type { Tool } from "../engine/ports.ts";
import { openProviders as openModels, type Providers } from "../models/providers.ts";
import { loadSettings, type Settings } from "../settings/config.ts";
import { createToolAuditLog } from "../tools/audit_log.ts";
import { createToolPorts, createTools, readCa, TOOL_ENV_NAMES } from "../tools/catalogue.ts";
import { safeText, type Terminal } from "./terminal.ts";

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
  const path = `${workingFolder}/.env`;
  const dotEnv = await Deno.readTextFile(path).catch((cause) => {
    if (cause instanceof Deno.errors.NotFound) return "";
    throw new AppError("invalid_config", `Cannot read ${JSON.stringify(path)}`, { cause });
  });
  return loadSettings({ env: { ...variables, ...Object.fromEntries(given) }, dotEnv, workingFolder });
}

export async function writeOutput(path: string, text: string, { workingFolder }: Environment): Promise<void> {
  try {
    await writeFileAtomic(resolve(workingFolder, path), new TextEncoder().encode(text), { mode: 0o600 });
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot write ${JSON.stringify(path)}`, { cause });
  }
}

export function note({ terminal }: Pick<Environment, "terminal">, text: string): void {
  terminal.err(`note: ${safeText(text)}\n`);
}

export const REPLAY_PIECE_MS = 20;

/** The redactor of this process, which also knows the process's own secrets. */
export function openRedactor(settings: Settings): ContextRedactor {
  return createContextRedactor(ownSecrets(settings));
}

export function newCallId({ randomBytes }: Environment): string {
  return randomBytes(6).toHex();
}

/** @param warn receives notes for the operator */
export async function openProviders(
  settings: Settings,
  environment: Environment,
  warn: (message: string) => void,
): Promise<Providers> {
  const { clock, randomBytes, terminal } = environment;
  return openModels(settings, {
    fetch: await openFetch(settings),
    clock,
    random: () => (randomBytes(1)[0] ?? 0) / 256,
    newId: () => newCallId(environment),
    warn,
    replayPieceDelayMs: terminal.isLive ? REPLAY_PIECE_MS : 0,
  });
}

export async function openTools(
  settings: Settings,
  { clock, variables }: Environment,
  redact: (text: string) => string,
): Promise<readonly Tool[]> {
  return createTools(settings, await createToolPorts({ settings, clock, redact, env: toolEnv(variables) }));
}

export function toolEnv(variables: Environment["variables"]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    TOOL_ENV_NAMES.flatMap((name) => variables[name] ? [[name, variables[name]]] : []),
  );
}

export async function openAudit({ DATA_DIR }: Settings, redact: (text: string) => string) {
  try {
    await Deno.mkdir(DATA_DIR, { recursive: true, mode: 0o700 });
  } catch (cause) {
    const text = `Cannot make the folder DATA_DIR ${JSON.stringify(DATA_DIR)}`;
    throw new AppError("invalid_config", text, { cause });
  }
  return createToolAuditLog(`${DATA_DIR}/audit.jsonl`, redact);
}

/** A client that trusts the CAs of the settings. @throws {AppError} `invalid_config` when they cannot be used */
export async function openFetch(settings: Settings): Promise<typeof fetch> {
  const ca = await readCa(settings);
  if (ca === undefined) return fetch;
  try {
    const client = Deno.createHttpClient({ caCerts: [ca] });
    return (input, init) => fetch(input, { ...init, client });
  } catch (cause) {
    const text = "Cannot use the CAs of REQUESTS_CA_BUNDLE or SSL_CERT_FILE";
    throw new AppError("invalid_config", text, { cause });
  }
}
