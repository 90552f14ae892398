import { dirname, join, parse, resolve, sep } from "node:path";
import { AppError } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";

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

/** What is known of a part of a path. */
interface PathPart {
  readonly path: string;
  readonly isLink: boolean;
  readonly uid: number;
  /** With its type, as `stat` gives it. */
  readonly mode: number;
}

/** Who may own what a set-up lies in. */
interface Trusted {
  readonly self: number;
  /** Whoever owns the root of the file system: in a container that may be nobody. */
  readonly root: number;
}

const STICKY = 0o1000;
const WRITABLE_BY_OTHERS = 0o022;

/**
 * Why keys must not lie below a part of a path; `undefined` where they may.
 *
 * @param part a folder, or a link to one, whose own way is looked at as well
 */
export function whyUnsafe(part: PathPart, trusted: Trusted): string | undefined {
  const { path, isLink, uid, mode } = part;
  if (uid !== trusted.self && uid !== trusted.root && uid !== 0) {
    return `${quoteText(path)} belongs to another user (uid ${uid})`;
  }
  // In a sticky folder nobody can take another one's entry away, and whose the next part is, is looked at.
  if (isLink || (mode & STICKY) !== 0) return undefined;
  return whyWritable(part);
}

/** Why keys must not lie in the folder itself; as {@linkcode whyUnsafe}, and no link and no sticky folder either. */
export function whyUnsafeFolder(folder: PathPart, trusted: Trusted): string | undefined {
  if (folder.isLink) return `${quoteText(folder.path)} is a link: name the folder that it leads to`;
  return whyUnsafe(folder, trusted) ?? whyWritable(folder);
}

function whyWritable({ path, mode }: PathPart): string | undefined {
  if ((mode & WRITABLE_BY_OTHERS) === 0) return undefined;
  const bits = (mode & 0o7777).toString(8).padStart(4, "0");
  return `other users may write to ${
    quoteText(path)
  } (mode ${bits}); take that from them (chmod go-w), or choose another`;
}
