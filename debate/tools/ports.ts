/**
 * What gives tools access to this machine and the network.
 *
 * @module
 */
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import type { Settings } from "../settings/config.ts";
import { findInside, resolveRoots } from "../context/roots.ts";
import type { ToolPorts } from "./catalogue.ts";
import { explainPostgres } from "./explain_postgres.ts";
import { createHttpExchange, systemResolve } from "./http_exchange.ts";
import type { Redact } from "./present.ts";
import { createProgramRunner } from "./run_program.ts";

/** What {@linkcode createToolPorts} needs. */
interface ToolPortsOptions {
  readonly settings: Pick<Settings, "ALLOWED_PROJECT_ROOTS" | "REQUESTS_CA_BUNDLE" | "SSL_CERT_FILE">;
  readonly clock: Clock;
  readonly redact: Redact;
  /** The variables of `TOOL_ENV_NAMES` that are set. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * The real ports.
 *
 * @throws {AppError} `invalid_config` when the file of CAs cannot be read
 */
export async function createToolPorts(
  { settings, clock, redact, env }: ToolPortsOptions,
): Promise<ToolPorts> {
  const ca = await readCa(settings);
  const roots = () => resolveRoots(settings.ALLOWED_PROJECT_ROOTS);
  return {
    clock,
    redact,
    env,
    http: { exchange: createHttpExchange(ca), resolve: systemResolve },
    runProgram: createProgramRunner(clock),
    explain: explainPostgres,
    folders: { roots, find: async (path) => await findInside(path, await roots()) },
  };
}

async function readCa(
  { REQUESTS_CA_BUNDLE: bundle, SSL_CERT_FILE: file }: ToolPortsOptions["settings"],
): Promise<string | undefined> {
  const path = bundle === "" ? file : bundle;
  if (path === "") return undefined;
  try {
    return await Deno.readTextFile(path);
  } catch (cause) {
    const name = bundle === "" ? "SSL_CERT_FILE" : "REQUESTS_CA_BUNDLE";
    throw new AppError("invalid_config", `Cannot read ${name} "${path}"`, { cause });
  }
}
