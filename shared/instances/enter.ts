/**
 * How an instance gets its name.
 *
 * @module
 */
import type { Clock, Elapsed } from "../clock.ts";
import { AppError } from "../errors.ts";
import { quoteText } from "../quote.ts";
import type { InstanceIdentity, InstanceLink, OtherInstance } from "./link.ts";

/** Between two looks at one that has the name. */
const LOOK_MS = 250;

/** What {@linkcode enter} works with. */
export interface EnterOptions {
  /** What an instance is called: `signer`. */
  readonly what: string;
  /** Its name. */
  readonly name: string;
  /** The program's. */
  readonly version: string;
  /** For the pauses. */
  readonly clock: Clock;
  /** For the time that somebody is silent. */
  readonly elapsed: Elapsed;
  /** Whoever is silent for so long refuses by itself. */
  readonly silentMs: number;
}

/**
 * Waits until whoever has the name is silent for so long that it refuses by itself; then the name is this one's.
 *
 * @throws {AppError} `invalid_config` when a live instance has it
 */
export async function enter(
  { what, name, version, clock, elapsed, silentMs }: EnterOptions,
  link: InstanceLink,
  self: InstanceIdentity,
): Promise<void> {
  let known: (OtherInstance & { readonly since: number }) | undefined;
  while (!await link.enter(self, version)) {
    const found = (await link.list()).find((other) => other.name === name);
    if (found === undefined) continue;
    const isSame = known?.session === found.session && known.beat === found.beat;
    if (known !== undefined && !isSame) {
      throw new AppError(
        "invalid_config",
        `Cannot use state_db: a ${what} with the instance name ${quoteText(name)} is running; ` +
          "give each its own name in instance",
      );
    }
    known = { ...found, since: known?.since ?? elapsed() };
    if (elapsed() - known.since >= silentMs) await link.evict(found);
    else await clock.sleep(LOOK_MS);
  }
}
