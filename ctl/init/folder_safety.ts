import { quoteText } from "@gateway/shared/text";

/** What is known of a part of a path. */
export interface PathPart {
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
