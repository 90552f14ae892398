/** `2026-01-02 03:04:05 UTC` */
export function formatUtc(ms: number): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return "at an unknown time";
  return date.toISOString().replace("T", " ").replace(/\.\d{3}Z$/, " UTC");
}

/** `61,440` */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}
