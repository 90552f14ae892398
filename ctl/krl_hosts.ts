import type { KrlReader, KrlStatus } from "@gateway/shared/wire";

/** Where a version of the revocation list holds, and where not yet. */
interface KrlSpread {
  readonly current: number;
  readonly holds: readonly KrlReader[];
  readonly behind: readonly KrlReader[];
}

/**
 * Who has installed a version, or a later one. A later one than there is holds nothing of this signer's: a host never
 * takes an older list.
 */
export function spreadOf({ version: current, readers }: KrlStatus, version: number): KrlSpread {
  const holds = readers.filter(({ version: has = 0 }) => has >= version && has <= current);
  return { current, holds, behind: readers.filter((reader) => !holds.includes(reader)) };
}

/** A line for each host, those that are behind first. */
export function describeSpread({ current, holds, behind }: KrlSpread, version: number): readonly string[] {
  const count = holds.length + behind.length;
  return [
    `revocation list ${version}: installed by ${holds.length} of ${count}`,
    ...behind.map((reader) => `behind: ${describeReader(reader, current)}`),
    ...holds.map((reader) => `holds: ${nameOf(reader)}`),
  ];
}

function describeReader(reader: KrlReader, current: number): string {
  if (reader.version === undefined) return `${nameOf(reader)} has not asked since the signer's start`;
  if (reader.version > current) {
    return `${
      nameOf(reader)
    } has version ${reader.version}, later than any of this signer (now ${current}), and takes ` +
      "none of its lists: shim/KRL.md says what to do there";
  }
  return `${nameOf(reader)} has version ${reader.version}, asked at ${reader.seen_at ?? "?"}`;
}

/** The hosts, which operators know, before the identity that fetches for them. */
function nameOf({ caller, hosts }: KrlReader): string {
  return hosts.length === 0 ? caller : `${hosts.join(",")} (${caller})`;
}
