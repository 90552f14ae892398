/** An error with its causes on one line, for the operator's log: never for a caller. */
export function describeFault(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const text = error.message === "" ? error.name : error.message;
  return error.cause === undefined ? text : `${text}: ${describeFault(error.cause)}`;
}
