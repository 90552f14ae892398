/**
 * `debate serve`: the web server.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import { writersFrom } from "../settings/log_level.ts";
import { startDebateServer } from "../web/serve.ts";
import { type Environment, readSettings } from "./environment.ts";
import { EXIT_CODES, type ExitCode } from "./failure.ts";
import { openFetch, REPLAY_PIECE_MS, toolEnv } from "./machine.ts";
import { safeText } from "./terminal.ts";

export interface ServeFlags {
  readonly host?: string;
  readonly port?: number;
}

/** Serves until the signal is aborted. */
export async function serveCommand(flags: ServeFlags, environment: Environment): Promise<ExitCode> {
  const { terminal, clock, randomBytes, variables, signal } = environment;
  const settings = await readSettings(environment, {
    WEB_HOST: flags.host,
    WEB_PORT: flags.port?.toString(),
  });
  await makeFolder(settings.DATA_DIR);
  const { LOG_LEVEL } = settings;
  const server = await startDebateServer({
    settings,
    clock,
    randomBytes,
    fetch: await openFetch(settings),
    toolEnv: toolEnv(variables),
    log: writersFrom(
      LOG_LEVEL,
      (message) => terminal.err(`${new Date(clock.now()).toISOString()} ${safeText(message)}\n`),
    ),
    replayPieceDelayMs: REPLAY_PIECE_MS,
  });
  writersFrom(LOG_LEVEL, terminal.err).INFO(`The debate service is at ${server.url}\nCtrl-C stops it.\n`);
  await aborted(signal);
  await server.close();
  return EXIT_CODES.ok;
}

async function makeFolder(path: string): Promise<void> {
  try {
    await Deno.mkdir(path, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot make the folder DATA_DIR ${JSON.stringify(path)}`, {
      cause,
    });
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
