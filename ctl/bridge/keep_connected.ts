import type { Clock } from "@gateway/shared/clock";
import { errorText } from "@gateway/shared/errors";
import type { ServiceLogger } from "@gateway/shared/service";
import { wantedPauseMs } from "./chat.ts";

/** What {@linkcode keepConnected} needs. */
interface KeepConnectedOptions {
  readonly clock: Clock;
  readonly logger: Pick<ServiceLogger, "info" | "warn">;
  readonly signal: AbortSignal;
}

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

/**
 * Holds a connection until the signal is aborted: connects again when it ends, with longer pauses while that fails.
 *
 * @param hold connects, calls `connected`, and resolves or rejects when the connection is over
 */
export async function keepConnected(
  { clock, logger, signal }: KeepConnectedOptions,
  hold: (connected: () => void) => Promise<void>,
): Promise<void> {
  let pauseMs = FIRST_PAUSE_MS;
  let lastFailure = "";
  while (!signal.aborted) {
    let wantedMs = 0;
    try {
      await hold(() => {
        logger.info("connected to the chat");
        pauseMs = FIRST_PAUSE_MS;
        lastFailure = "";
      });
    } catch (error) {
      if (signal.aborted) return;
      wantedMs = wantedPauseMs(error);
      const failure = errorText(error);
      if (failure !== lastFailure) logger.warn("no connection to the chat; trying on", { error });
      lastFailure = failure;
    }
    await clock.sleep(Math.max(pauseMs, wantedMs), signal).catch(() => {});
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  }
}
