/**
 * `debate login`: obtains an access token of provider B and stores it for this user.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import { type Environment, readSettings } from "./environment.ts";
import { EXIT_CODES, type ExitCode } from "./failure.ts";
import { openProviders } from "./machine.ts";
import { safeLine, safeText } from "./terminal.ts";

/** Logs in by the device flow. */
export async function loginCommand(environment: Environment): Promise<ExitCode> {
  const { terminal, signal } = environment;
  const settings = await readSettings(environment);
  const { ASSIST_DEVICE_CODE_URL, ASSIST_DEVICE_TOKEN_URL, ASSIST_CLIENT_ID } = settings;
  const missing = Object.entries({ ASSIST_DEVICE_CODE_URL, ASSIST_DEVICE_TOKEN_URL, ASSIST_CLIENT_ID })
    .filter(([, value]) => value === "").map(([name]) => name);
  if (missing.length > 0) {
    throw new AppError(
      "invalid_config",
      `Cannot log in: set ${
        missing.join(", ")
      }; debate login --help explains. Or put a token into ASSIST_TOKEN`,
    );
  }
  const { deviceFlows } = await openProviders(
    settings,
    environment,
    (message) => terminal.err(`note: ${safeText(message)}\n`),
  );
  const started = await deviceFlows.start(signal);
  terminal.err(
    `Open  ${safeLine(started.verification_uri, 2048)}\n` +
      `Enter ${safeLine(started.user_code, 64)}\n\n` +
      `Waiting for you to grant access, ${
        Math.round(started.expires_in / 60)
      } minutes at most; Ctrl-C gives up.\n`,
  );
  try {
    const ended = await deviceFlows.wait(started.device_code, signal);
    if (ended?.status !== "authorized") {
      throw new AppError(
        "upstream_failure",
        `Not logged in: ${ended?.last_error ?? "the login was forgotten"}`,
      );
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    terminal.err("Stopped; nothing was stored.\n");
    return EXIT_CODES.interrupted;
  }
  terminal.out(`Logged in. The token is in ${safeText(settings.ASSIST_TOKEN_FILE)}, for you alone.\n`);
  if (settings.ASSIST_TOKEN !== "") terminal.err("note: ASSIST_TOKEN is set and takes precedence over it\n");
  return EXIT_CODES.ok;
}
