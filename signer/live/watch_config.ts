import { type Clock, every } from "@gateway/shared/clock";
import { errorText } from "@gateway/shared/errors";
import type { ServiceLogger } from "@gateway/shared/service";
import type { SignerConfig } from "../config/config.ts";
import type { SignerState } from "./signer_state.ts";

/** What {@linkcode watchConfig} works with. */
interface WatchOptions {
  readonly clock: Clock;
  readonly background: AbortController;
  readonly config: Pick<SignerConfig, "auto_reload_seconds">;
  readonly logger: ServiceLogger;
  /** What {@linkcode stampOf} gave before the config in force was read: what changed since then is reloaded. */
  readonly seen: string;
}

/** What changes whenever a file is written to or replaced; of one that can't be looked at, why. */
export async function stampOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtime } = await Deno.stat(path);
    return [dev, ino, size, mtime?.getTime()].join();
  } catch (error) {
    return errorText(error);
  }
}

/**
 * Reloads the config whenever its file has another stamp than at the last look. The stamp is remembered before the
 * reload, so that a broken file is tried once and again only after its next change.
 */
export async function watchConfig(path: string, state: SignerState, options: WatchOptions): Promise<void> {
  const { clock, background, config, logger, seen } = options;
  let last = seen;
  await every({ clock, seconds: config.auto_reload_seconds, signal: background.signal }, async () => {
    const stamp = await stampOf(path);
    if (stamp === last) return;
    last = stamp;
    try {
      await state.reload("auto-reload");
    } catch (error) {
      // A failed reload is logged and audited where it happens; a file that is being replaced comes back.
      logger.warn("the config file could not be reloaded", { error });
    }
  });
}
