/** How much of a name an anomaly shows, in code points: enough for a human to see what it is. */
const SHOWN = 256;

/** A host, or the first word of a command, that a subject has not used before: `new-host:web01`. */
export function novelty(kind: "new-host" | "new-command", name: string): string {
  // Cut before it is split: of a word of 60 KiB only the start is looked at.
  const points = [...name.slice(0, 2 * SHOWN + 2)];
  const shown = points.length > SHOWN ? `${points.slice(0, SHOWN).join("")}…` : name;
  return `${kind}:${shown.toWellFormed()}`;
}
