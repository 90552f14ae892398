import { dirname, join, parse, resolve, sep } from "node:path";
import { AppError } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { type PathPart, whyUnsafe, whyUnsafeFolder } from "./folder_safety.ts";

const MAX_LINKS = 40;

/**
 * Refuses a folder for keys, or a way to it, that somebody else could put something else in the place of. What of it
 * is not there yet is not looked at.
 *
 * @param folder absolute
 * @throws {AppError} `invalid_request` naming what is wrong
 */
export async function checkFolder(folder: string): Promise<void> {
  const self = Deno.uid();
  // Where there are no such owners, there are no such modes either.
  if (self === null) return;
  const top = await lookAt(parse(folder).root);
  const trusted = { self, root: top?.uid ?? 0 };
  const refuse = (why: string | undefined) => {
    if (why === undefined) return;
    throw new AppError("invalid_request", `Cannot set up ${JSON.stringify(folder)}: ${why}`);
  };
  const own = await lookAt(folder);
  if (own !== undefined) refuse(whyUnsafeFolder(own, trusted));
  const ways = [dirname(folder)];
  // The list grows while it is gone through.
  for (const way of ways) {
    for (const path of partsOf(way)) {
      const part = await lookAt(path);
      if (part === undefined) break;
      refuse(whyUnsafe(part, trusted));
      if (part.isLink) ways.push(resolve(await Deno.realPath(dirname(path)), await Deno.readLink(path)));
    }
    if (ways.length > MAX_LINKS) refuse("the way to it has too many links");
  }
}

/** Every folder on the way to a path, from the root on, and the path itself. */
function partsOf(path: string): readonly string[] {
  const { root } = parse(path);
  let part = root;
  return [root, ...path.slice(root.length).split(sep).filter(Boolean).map((name) => part = join(part, name))];
}

async function lookAt(path: string): Promise<PathPart | undefined> {
  const info = await ifThere(Deno.lstat(path));
  if (info === undefined) return undefined;
  return { path, isLink: info.isSymlink, uid: info.uid ?? 0, mode: info.mode ?? 0 };
}
