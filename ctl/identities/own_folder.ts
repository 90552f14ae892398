import { dirname } from "node:path";
import { AppError } from "@gateway/shared/errors";
import { formatMode, mayOthersWrite } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { HintedError } from "../kit/output.ts";

const ROOT = 0;
const STICKY = 0o1000;

/**
 * Refuses what somebody else than root may put something else in place of, down from the root folder: whoever may could
 * have root sign what he likes, or write where he likes. Only root is that careful; anybody else has no more rights than
 * he gives away.
 *
 * @param path of a file or folder that is there
 * @throws {AppError} `not_supported` naming what is not root's own
 */
export async function requireOwn(path: string): Promise<void> {
  if (Deno.uid() !== ROOT) return;
  const real = await Deno.realPath(path);
  for (let at = real, below = ""; below !== at; below = at, at = dirname(at)) {
    const info = await Deno.lstat(at);
    // Whoever may write to a sticky folder can't replace what is not his.
    const isSticky = at !== real && ((info.mode ?? 0) & STICKY) !== 0;
    if (info.uid === ROOT && (isSticky || !mayOthersWrite(info))) continue;
    const state = `owner ${info.uid}, mode ${formatMode(info.mode ?? 0)}`;
    throw new HintedError(
      new AppError(
        "not_supported",
        `Cannot work as root with ${quoteText(path)}: ${quoteText(at)} is not root's alone (${state})`,
      ),
      `run it as its owner, or have root own it: chown root ${at}; chmod go-w ${at}`,
    );
  }
}
