/**
 * The names of rotated files: `<log>.<YYYYMMDDTHHMMSSZ>`, with `.1`, `.2` … when a second has several.
 *
 * @module
 */

/** What orders rotated files: time first, then the number. */
export interface SegmentName {
  /** As it is in the folder. */
  readonly name: string;
  /** `YYYYMMDDTHHMMSSZ`, UTC. */
  readonly stamp: string;
  /** 0 when the name has none. */
  readonly number: number;
}

const SUFFIX = /^\.(\d{8}T\d{6}Z)(?:\.([1-9]\d{0,8}))?$/;

/** A point in time (milliseconds since the Unix epoch) as file names carry it: `YYYYMMDDTHHMMSSZ`. */
export function formatStamp(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+/, "").replaceAll(/[-:]/g, "");
}

/** The rotated files of a log among the names of its folder, oldest first; other files are left out. */
export function sortSegments(logName: string, names: Iterable<string>): readonly SegmentName[] {
  const segments: SegmentName[] = [];
  for (const name of names) {
    if (!name.startsWith(logName)) continue;
    const [, stamp, number = "0"] = SUFFIX.exec(name.slice(logName.length)) ?? [];
    if (stamp !== undefined) segments.push({ name, stamp, number: Number(number) });
  }
  return segments.sort((a, b) => a.stamp === b.stamp ? a.number - b.number : a.stamp < b.stamp ? -1 : 1);
}

/**
 * A free name that sorts after every other rotated file, also when the clock was set back.
 *
 * @param segments oldest first, as {@linkcode sortSegments} gives them
 */
export function nextSegmentName(logName: string, segments: readonly SegmentName[], ms: number): string {
  const stamp = formatStamp(ms);
  const newest = segments.at(-1);
  if (newest === undefined || newest.stamp < stamp) return `${logName}.${stamp}`;
  return `${logName}.${newest.stamp}.${newest.number + 1}`;
}
