/** How a remote command ended: a status, or the name of the signal that killed it, without `SIG` (RFC 4254 section 6.10). */
export type RemoteExit =
  | { readonly kind: "status"; readonly status: number }
  | { readonly kind: "signal"; readonly name: string };

const SIGNAL_NUMBERS: ReadonlyMap<string, number> = new Map([
  ["HUP", 1],
  ["INT", 2],
  ["QUIT", 3],
  ["ILL", 4],
  ["ABRT", 6],
  ["FPE", 8],
  ["KILL", 9],
  ["SEGV", 11],
  ["PIPE", 13],
  ["ALRM", 14],
  ["TERM", 15],
]);

const SIGNAL_BASE = 128;

/** The exit code as a shell would show it; a signal without a number of its own gives 128. */
export function exitCodeOf(exit: RemoteExit): number {
  switch (exit.kind) {
    case "status":
      return exit.status;
    case "signal":
      return SIGNAL_BASE + (SIGNAL_NUMBERS.get(exit.name) ?? 0);
    default:
      return exit satisfies never;
  }
}
