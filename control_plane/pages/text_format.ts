/** A point in time, milliseconds since the epoch: `2026-01-02 03:04:05 UTC`. */
export function formatUtc(ms: number): string {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return "at an unknown time";
  return date.toISOString().replace("T", " ").replace(/\.\d{3}Z$/, " UTC");
}

/**
 * A length of time for people, two units at most and rounded down: `1 min 12 s`, `2 h`, `3 days 4 h`. What is
 * negative is `0 s`. It is also part of the pages' script, hence uses nothing outside itself.
 */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  const pair = (big: string, small: number, unit: string) => small === 0 ? big : `${big} ${small} ${unit}`;
  if (minutes === 0) return `${seconds} s`;
  if (hours === 0) return pair(`${minutes} min`, seconds % 60, "s");
  if (days === 0) return pair(`${hours} h`, minutes % 60, "min");
  return pair(days === 1 ? "1 day" : `${days} days`, hours % 24, "h");
}

/** A whole number with its thousands apart: `61,440`. */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}
