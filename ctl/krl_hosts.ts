import type { KrlReader, KrlStatus } from "@gateway/shared/wire/krl";

/** Where a version of the revocation list holds, and where not yet. */
export interface KrlSpread {
  readonly holds: readonly KrlReader[];
  readonly behind: readonly KrlReader[];
}

/** Who has installed a version, or a later one. */
export function spreadOf({ readers }: KrlStatus, version: number): KrlSpread {
  const holds = readers.filter((reader) => (reader.version ?? 0) >= version);
  return { holds, behind: readers.filter((reader) => !holds.includes(reader)) };
}

/** A line for each host, those that are behind first. */
export function describeSpread({ holds, behind }: KrlSpread, version: number): readonly string[] {
  const count = holds.length + behind.length;
  return [
    `revocation list ${version}: installed by ${holds.length} of ${count}`,
    ...behind.map((reader) => `behind: ${describeReader(reader)}`),
    ...holds.map((reader) => `holds: ${nameOf(reader)}`),
  ];
}

function describeReader(reader: KrlReader): string {
  if (reader.version === undefined) return `${nameOf(reader)} has not asked since the signer's start`;
  return `${nameOf(reader)} has version ${reader.version}, asked at ${reader.seen_at ?? "?"}`;
}

/** The hosts, which operators know, before the identity that fetches for them. */
function nameOf({ caller, hosts }: KrlReader): string {
  return hosts.length === 0 ? caller : `${hosts.join(",")} (${caller})`;
}
