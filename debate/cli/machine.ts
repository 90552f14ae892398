import { AppError } from "@gateway/shared/errors";
import type { Settings } from "../settings/config.ts";
import { type ContextRedactor, createContextRedactor, ownSecrets } from "../context/redact_context.ts";
import { openProviders as openModels, type Providers } from "../models/providers.ts";
import { createToolAuditLog } from "../tools/audit_log.ts";
import { createToolPorts, createTools, readCa, TOOL_ENV_NAMES } from "../tools/catalogue.ts";
import type { Tool } from "../engine/ports.ts";
import type { Environment } from "./environment.ts";

const CALL_ID_BYTES = 6;
export const REPLAY_PIECE_MS = 20;

/** The redactor of this process, which also knows the process's own secrets. */
export function openRedactor(settings: Settings): ContextRedactor {
  return createContextRedactor(ownSecrets(settings));
}

export function newCallId({ randomBytes }: Environment): string {
  return randomBytes(CALL_ID_BYTES).toHex();
}

/**
 * The providers of models.
 *
 * @param warn receives notes for the operator
 */
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
  redact: ContextRedactor,
): Promise<readonly Tool[]> {
  const mask = (text: string) => redact(text).text;
  return createTools(
    settings,
    await createToolPorts({ settings, clock, redact: mask, env: toolEnv(variables) }),
  );
}

export function toolEnv(variables: Environment["variables"]): Readonly<Record<string, string>> {
  return Object.fromEntries(TOOL_ENV_NAMES.flatMap((name) => {
    const value = variables[name];
    return value === undefined || value === "" ? [] : [[name, value]];
  }));
}

/** The log of tool calls; its folder is created if it is missing. */
export async function openAudit({ DATA_DIR }: Settings, redact: ContextRedactor) {
  try {
    await Deno.mkdir(DATA_DIR, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot make the folder DATA_DIR ${JSON.stringify(DATA_DIR)}`, {
      cause,
    });
  }
  return createToolAuditLog(`${DATA_DIR}/audit.jsonl`, (text) => redact(text).text);
}

/** A client that trusts the CAs of the settings. @throws {AppError} `invalid_config` when they cannot be used */
export async function openFetch(settings: Settings): Promise<typeof fetch> {
  const ca = await readCa(settings);
  if (ca === undefined) return fetch;
  try {
    const client = Deno.createHttpClient({ caCerts: [ca] });
    return (input, init) => fetch(input, { ...init, client });
  } catch (cause) {
    throw new AppError("invalid_config", "Cannot use the CAs of REQUESTS_CA_BUNDLE or SSL_CERT_FILE", {
      cause,
    });
  }
}
