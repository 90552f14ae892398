import { type Clock, every } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/log";
import type { SignerConfig } from "./config.ts";
import type { SignerState } from "./state.ts";

/** What {@linkcode watchConfig} works with. */
export interface WatchOptions {
  readonly clock: Clock;
  readonly background: AbortController;
  readonly config: Pick<SignerConfig, "auto_reload_seconds">;
  readonly logger: ServiceLogger;
}

/**
 * Reloads the config whenever its file has another time than at the last look. The time is remembered before the
 * reload, so that a broken file is tried once and again only after its next change.
 */
export async function watchConfig(path: string, state: SignerState, options: WatchOptions): Promise<void> {
  const { clock, background, config, logger } = options;
  const look = async () => (await Deno.stat(path)).mtime?.getTime();
  let last = await look();
  await every({ clock, seconds: config.auto_reload_seconds, signal: background.signal }, async () => {
    try {
      const time = await look();
      if (time === last) return;
      last = time;
      await state.reload("auto-reload");
    } catch (error) {
      // A failed reload is logged and audited where it happens; a file that is being replaced comes back.
      logger.warn("the config file could not be looked at or reloaded", { error });
    }
  });
}
